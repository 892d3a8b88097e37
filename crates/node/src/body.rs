//! Time limits for receiving requests.
//!
//! A handler's deadline begins once its request has arrived. A sender that transmits a byte now and
//! then could occupy a place forever, so receiving a body has limits of its own.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tower::{Layer, Service};

/// Client streams that stay open while there is nothing to send.
const STREAMS: &[&str] = &[
    "/clew.ingest.v1.IngestService/Ingest",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// Time limits for receiving a request.
#[derive(Clone, Copy, Debug)]
pub struct BodyPatience {
    /// Limit for a single request, from its first byte to its last.
    whole: Duration,
    /// Limit for a stream of requests: the longest pause while the next message is awaited.
    idle: Duration,
}

impl Default for BodyPatience {
    fn default() -> Self {
        Self { whole: Duration::from_secs(60), idle: Duration::from_secs(600) }
    }
}

impl BodyPatience {
    /// Returns the limit for a method. Methods between nodes have none, because nodes keep streams
    /// to each other open for as long as they run.
    fn bound(&self, path: &str) -> Option<Bound> {
        match clew_auth::is_for_nodes(path) {
            true => None,
            false if STREAMS.contains(&path) => Some(Bound::Idle(self.idle)),
            false => Some(Bound::Whole(self.whole)),
        }
    }
}

impl<S> Layer<S> for BodyPatience {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { patience: *self, inner }
    }
}

/// A service whose requests must arrive in time.
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    patience: BodyPatience,
    inner: S,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Bounded<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let bound = self.patience.bound(request.uri().path());
        self.inner.call(match bound {
            None => request,
            Some(bound) => request.map(|body| Body::new(BoundedBody::new(body, bound))),
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    Whole(Duration),
    Idle(Duration),
}

struct BoundedBody {
    inner: Body,
    bound: Bound,
    ends: Pin<Box<Sleep>>,
    waits: bool,
}

impl BoundedBody {
    fn new(inner: Body, bound: Bound) -> Self {
        let (Bound::Whole(patience) | Bound::Idle(patience)) = bound;
        Self { inner, bound, ends: Box::pin(tokio::time::sleep(patience)), waits: false }
    }
}

impl HttpBody for BoundedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.waits = false;
            return Poll::Ready(frame);
        }
        if let (Bound::Idle(patience), false) = (self.bound, self.waits) {
            // No one awaited the next message until now, so its sender was not late.
            self.ends.as_mut().reset(Instant::now() + patience);
        }
        self.waits = true;
        self.ends.as_mut().poll(context).map(|()| {
            let problem = "the request did not arrive in time; send it at once, and streams without long pauses";
            Some(Err(Status::deadline_exceeded(problem)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// Returns a body that sends a byte every `pause`.
    fn slow(pause: Duration) -> Body {
        let bytes = futures::stream::repeat(()).then(move |()| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Status>(Frame::data(tonic::codegen::Bytes::from_static(b"x")))
        });
        Body::new(StreamBody::new(bytes))
    }

    /// Returns how many bytes of the body arrive before it is rejected.
    async fn arrive(bound: Bound, pause: Duration, at_most: usize) -> usize {
        let mut body = std::pin::pin!(BoundedBody::new(slow(pause), bound));
        let mut arrived = 0;
        while arrived < at_most && body.frame().await.is_some_and(|frame| frame.is_ok()) {
            arrived += 1;
        }
        arrived
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_arrives_whole_in_time_and_a_stream_goes_on() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let whole = arrive(Bound::Whole(minute), second, 1000).await;
        assert!((58..=60).contains(&whole), "{whole}");
        assert_eq!(arrive(Bound::Idle(minute), second, 1000).await, 1000);
        assert_eq!(arrive(Bound::Idle(second), minute, 1000).await, 0);
    }

    #[test]
    fn nodes_keep_their_streams_and_clients_are_held_to_time() {
        let bound = |path| BodyPatience::default().bound(path);
        assert!(bound("/clew.encoder.v1.EncoderService/Embed").is_none());
        assert!(matches!(bound("/clew.ingest.v1.IngestService/Ingest"), Some(Bound::Idle(_))));
        assert!(matches!(bound("/clew.query.v1.QueryService/Search"), Some(Bound::Whole(_))));
        assert!(matches!(bound("nonsense"), Some(Bound::Whole(_))));
    }
}
