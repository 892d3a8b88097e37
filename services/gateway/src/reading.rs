//! Response streams for clients that may read slowly, or not at all.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::{Instrument, Span};

/// Number of responses that are buffered for a client.
const WAITING: usize = 16;

/// Response stream of a call.
pub(crate) type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Yields `responses` for as long as the client reads.
///
/// A stream of responses holds places in queues and advances only when it is polled. A client that
/// keeps its connection and reads nothing would hold those places for ever. So a task drives the
/// stream, and drops it when the client has taken nothing for `patience`.
pub(crate) fn while_read<T: Send + 'static>(
    responses: impl Stream<Item = Result<T, Status>> + Send + 'static,
    patience: Duration,
) -> ReceiverStream<Result<T, Status>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let driving = async move {
        let mut responses = std::pin::pin!(responses);
        loop {
            let response = tokio::select! {
                // The client left.
                () = sender.closed() => return,
                response = responses.next() => response,
            };
            let Some(response) = response else { return };
            if sender.send_timeout(response, patience).await.is_err() {
                tracing::info!("a client that does not read was given up");
                return;
            }
        }
    };
    // Work for a response belongs to the trace of its request.
    tokio::spawn(driving.instrument(Span::current()));
    ReceiverStream::new(receiver)
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
        futures::stream::repeat_with(move || {
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
        // Responses from before can still be read.
        assert_eq!(unread.count().await, WAITING);
        let few = futures::stream::iter((0..100).map(Ok));
        let read: Vec<_> =
            while_read(few, Duration::from_secs(60)).map(Result::unwrap).collect().await;
        assert_eq!(read, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_client_who_leaves_is_not_waited_for() {
        let (held, made) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let idle = endless(&held, &made).take(3).chain(futures::stream::pending());
        drop(while_read(idle, Duration::from_secs(60)));
        until_let_go(&held).await;
    }
}
