//! Bodies of requests: how long they may be and how long they may take.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Sleep;
use tonic::Code;

use crate::Failure;

/// The whole body of a request, as an extractor of routes.
///
/// Every body below a [`crate::Front`] is bounded, also for routes that read it in another way.
/// This extractor says by a [`Failure`] which bound was passed.
#[derive(Clone, Debug)]
pub struct Received(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Received {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        match request.into_body().collect().await {
            Ok(collected) => Ok(Self(collected.to_bytes())),
            Err(error) => Err(refused(&error)),
        }
    }
}

/// Returns the failure for a body that did not arrive.
fn refused(error: &(dyn StdError + 'static)) -> Failure {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(passed) = error.downcast_ref::<PassedBound>() {
            return passed.into();
        }
        cause = error.source();
    }
    let problem = "the request's body was cut short";
    Failure::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, "BODY_CUT_SHORT", problem)
}

/// A bound that a request's body passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedBound {
    /// It is longer than this number of bytes.
    Bytes(u64),
    /// It did not arrive in this time.
    Time(Duration),
}

impl fmt::Display for PassedBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => {
                write!(f, "the request's body is longer than {most} bytes; send less at once")
            }
            Self::Time(patience) => {
                let secs = patience.as_secs();
                write!(f, "the request's body did not arrive within {secs} s; send it at once")
            }
        }
    }
}

impl StdError for PassedBound {}

impl From<&PassedBound> for Failure {
    fn from(passed: &PassedBound) -> Self {
        let (http, code, reason) = match passed {
            PassedBound::Bytes(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, Code::OutOfRange, "BODY_TOO_LONG")
            }
            PassedBound::Time(_) => {
                (StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded, "BODY_TOO_SLOW")
            }
        };
        Self::new(http, code, reason, passed.to_string())
    }
}

/// A body of bounded length that must arrive in time.
pub(crate) struct BoundedBody {
    inner: Body,
    most: u64,
    left: u64,
    patience: Duration,
    ends: Pin<Box<Sleep>>,
}

impl BoundedBody {
    /// Bounds a body to `most` bytes, which must arrive within `patience` from now on.
    pub(crate) fn new(inner: Body, most: usize, patience: Duration) -> Self {
        let ends = Box::pin(tokio::time::sleep(patience));
        Self { inner, most: most as u64, left: most as u64, patience, ends }
    }
}

impl HttpBody for BoundedBody {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            let Some(frame) = frame.transpose()? else { return Poll::Ready(None) };
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            return Poll::Ready(Some(match self.left.checked_sub(bytes) {
                Some(left) => {
                    self.left = left;
                    Ok(frame)
                }
                None => Err(PassedBound::Bytes(self.most).into()),
            }));
        }
        let patience = self.patience;
        self.ends.as_mut().poll(context).map(|()| Some(Err(PassedBound::Time(patience).into())))
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

    use super::*;

    /// Reads a body of `bytes` single bytes with pauses between them.
    async fn received(bytes: usize, pause: Duration) -> Result<usize, Failure> {
        let sent = futures::stream::iter(0..bytes).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
        });
        let body = BoundedBody::new(Body::from_stream(sent), 100, Duration::from_secs(10));
        let request = Request::new(Body::new(body));
        Received::from_request(request, &()).await.map(|Received(bytes)| bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_bound_in_bytes_and_in_time() {
        let (instant, second) = (Duration::from_millis(1), Duration::from_secs(1));
        assert_eq!(received(100, instant).await.unwrap(), 100);
        let long = received(101, instant).await.unwrap_err();
        assert_eq!((long.http.as_u16(), long.reason.as_str()), (413, "BODY_TOO_LONG"));
        let slow = received(50, second).await.unwrap_err();
        assert_eq!((slow.http.as_u16(), slow.reason.as_str()), (408, "BODY_TOO_SLOW"));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_refused() {
        let sent = [Ok(Bytes::from_static(b"x")), Err(std::io::Error::other("reset"))];
        let request = Request::new(Body::from_stream(futures::stream::iter(sent)));
        let cut = Received::from_request(request, &()).await.unwrap_err();
        assert_eq!((cut.http.as_u16(), cut.reason.as_str()), (400, "BODY_CUT_SHORT"));
    }
}
