//! Response streams for clients that may read slowly, or not at all.

use std::future::ready;
use std::time::Duration;

use clew_core::Error;
use clew_proto::to_status;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::{Instrument, Span};

/// Number of responses of [`while_read`] that are buffered for a client.
const WAITING: usize = 16;

/// Response stream for a client.
pub(crate) type Responses<T> = BoxStream<'static, Result<T, Status>>;

/// Sending half of a response stream. If it is dropped, the stream ends.
pub(crate) struct Responder<T> {
    responses: mpsc::Sender<Result<T, Status>>,
    patience: Duration,
    /// Ends the stream with an error, so that the client does not take a part for the whole.
    given_up: Option<oneshot::Sender<Status>>,
}

/// Creates a response stream that buffers `waiting` responses, and gives up a client that takes
/// nothing for `patience`.
pub(crate) fn responses<T: Send + 'static>(
    waiting: usize,
    patience: Duration,
) -> (Responder<T>, Responses<T>) {
    let (responses, receiver) = mpsc::channel(waiting);
    let (given_up, error) = oneshot::channel();
    let end = stream::once(error).filter_map(|error| ready(error.ok().map(Err)));
    let responder = Responder { responses, patience, given_up: Some(given_up) };
    (responder, ReceiverStream::new(receiver).chain(end).boxed())
}

impl<T> Responder<T> {
    /// Sends a response. Returns whether there was room for it: not if the client left, or took
    /// nothing for too long. Then no more should be sent.
    pub(crate) async fn send(&mut self, response: Result<T, Status>) -> bool {
        match self.responses.send_timeout(response, self.patience).await {
            Ok(()) => true,
            Err(SendTimeoutError::Closed(_)) => false,
            Err(SendTimeoutError::Timeout(_)) => {
                if let Some(given_up) = self.given_up.take() {
                    tracing::info!("a client that does not read was given up");
                    let error = Error::deadline("waiting for the client to read");
                    // Fails if the client left.
                    drop(given_up.send(to_status(&error)));
                }
                false
            }
        }
    }

    /// Sends a response if there is room for it now.
    pub(crate) fn send_if_room(&self, response: T) {
        drop(self.responses.try_send(Ok(response)));
    }

    /// Waits until the client leaves.
    pub(crate) async fn closed(&self) {
        self.responses.closed().await;
    }
}

/// Yields `responses` for as long as the client reads.
///
/// A stream of responses holds places in queues and advances only when it is polled. A client that
/// keeps its connection and reads nothing would hold those places for ever. So a task drives the
/// stream, and drops it when the client has taken nothing for `patience`.
pub(crate) fn while_read<T: Send + 'static>(
    responses: impl Stream<Item = Result<T, Status>> + Send + 'static,
    patience: Duration,
) -> Responses<T> {
    let (mut responder, read) = self::responses(WAITING, patience);
    let driving = async move {
        let mut responses = std::pin::pin!(responses);
        loop {
            let response = tokio::select! {
                () = responder.closed() => return,
                response = responses.next() => response,
            };
            let Some(response) = response else { return };
            if !responder.send(response).await {
                return;
            }
        }
    };
    // Work for a response belongs to the trace of its request.
    tokio::spawn(driving.instrument(Span::current()));
    read
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns an endless stream that holds `held`.
    fn endless(
        held: &Arc<()>,
        made: &Arc<AtomicUsize>,
    ) -> impl Stream<Item = Result<usize, Status>> + use<> {
        let (held, made) = (Arc::clone(held), Arc::clone(made));
        stream::repeat_with(move || {
            let _held = &held;
            Ok(made.fetch_add(1, Ordering::Relaxed))
        })
    }

    async fn until_let_go(held: &Arc<()>) {
        let let_go = async {
            while Arc::strong_count(held) > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), let_go).await.unwrap();
    }

    #[tokio::test]
    async fn what_nobody_reads_ends_and_what_is_read_comes_whole() {
        let (held, made) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let unread = while_read(endless(&held, &made), Duration::from_millis(50));
        until_let_go(&held).await;
        assert!(made.load(Ordering::Relaxed) <= WAITING + 1);
        // Responses from before can still be read. They are not all, so the stream ends with an
        // error.
        let mut late: Vec<_> = unread.collect().await;
        assert_eq!(late.pop().unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
        let late: Vec<_> = late.into_iter().map(Result::unwrap).collect();
        assert_eq!(late, (0..WAITING).collect::<Vec<_>>());
        let few = stream::iter((0..100).map(Ok));
        let read: Vec<_> =
            while_read(few, Duration::from_secs(60)).map(Result::unwrap).collect().await;
        assert_eq!(read, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_client_who_leaves_is_not_waited_for() {
        let (held, made) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let idle = endless(&held, &made).take(3).chain(stream::pending());
        drop(while_read(idle, Duration::from_secs(60)));
        until_let_go(&held).await;
    }
}
