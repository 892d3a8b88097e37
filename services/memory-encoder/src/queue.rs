//! Queue between callers and device threads: interactive batches first, then bulk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_core::{Error, Priority};
use clew_runtime::admission::Permit;
use tokio::sync::oneshot;
use tracing::Span;

/// Retry delay for callers that find the queue full.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Channel for the results of a batch, with the time when it was begun. Closed if the caller gave
/// up.
pub(crate) type Reply<R> = oneshot::Sender<(Instant, Result<Vec<R>, Error>)>;

/// Batch of tokenised texts `T` that waits for a device, which computes an `R` for each.
#[derive(Debug)]
pub(crate) struct Batch<T, R> {
    /// The texts, `[texts]`.
    pub texts: Vec<T>,
    /// Channel for the results.
    pub reply: Reply<R>,
    /// Permit for the batch's tokens in the queue.
    pub permit: Permit,
    /// Time at which the batch is refused if it was not begun.
    pub waits_until: Option<Instant>,
    /// Tracing span of the caller.
    pub span: Span,
    /// Tracing span of the wait; ends when dropped.
    pub waiting: Span,
    /// Time at which the batch was queued.
    pub since: Instant,
}

impl<T, R> Batch<T, R> {
    /// Tells the caller that the batch is not computed, and why.
    pub fn refuse(self, refusal: Error) {
        // Fails if the caller left meanwhile; then nobody needs the refusal.
        drop(self.reply.send((Instant::now(), Err(refusal))));
    }

    fn waited_too_long(&self) -> bool {
        self.waits_until.is_some_and(|until| Instant::now() > until)
    }
}

/// What a thread does next.
#[derive(Debug)]
pub(crate) enum Next<T, R> {
    /// It computes a batch whose caller still waits.
    Batch(Batch<T, R>),
    /// The time has come until which it was to wait.
    Time,
    /// It ends: the queue is closed, or the thread is stopped.
    End,
}

/// Queue that any number of threads take from. The permits of its batches bound its length.
#[derive(Debug)]
pub(crate) struct Queue<T, R> {
    /// Name of the queue in messages that it is full.
    name: &'static str,
    waiting: Mutex<Waiting<T, R>>,
    changed: Condvar,
    busy_nanos: AtomicU64,
}

#[derive(Debug)]
struct Waiting<T, R> {
    interactive: VecDeque<Batch<T, R>>,
    bulk: VecDeque<Batch<T, R>>,
    closed: bool,
}

impl<T, R> Queue<T, R> {
    /// Creates an empty queue with this name in messages.
    pub fn new(name: &'static str) -> Self {
        let (interactive, bulk) = (VecDeque::new(), VecDeque::new());
        Self {
            name,
            waiting: Mutex::new(Waiting { interactive, bulk, closed: false }),
            changed: Condvar::new(),
            busy_nanos: AtomicU64::new(0),
        }
    }

    /// Adds a batch. A closed queue drops it, and its caller gets an error.
    pub fn push(&self, batch: Batch<T, R>, priority: Priority) {
        let mut waiting = self.lock();
        if waiting.closed {
            return;
        }
        match priority {
            Priority::Interactive => waiting.interactive.push_back(batch),
            Priority::Bulk => waiting.bulk.push_back(batch),
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Waits for a batch, until `until` at the longest.
    pub fn next(&self, until: Option<Instant>, stopped: &dyn Fn() -> bool) -> Next<T, R> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed || stopped() {
                return Next::End;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Next::Time;
            }
            waiting = match (waiting.pop(), left) {
                (Some(batch), _) if batch.reply.is_closed() => waiting,
                (Some(batch), _) if batch.waited_too_long() => {
                    batch.refuse(Error::exhausted(self.name, RETRY_AFTER));
                    waiting
                }
                (Some(batch), _) => return Next::Batch(batch),
                (None, None) => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                (None, Some(left)) => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Refuses all waiting batches.
    pub fn refuse(&self, refusal: &Error) {
        let mut waiting = self.lock();
        while let Some(batch) = waiting.pop() {
            batch.refuse(refusal.again());
        }
    }

    /// Adds the time that a thread spent computing a batch.
    pub fn record_busy(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the time spent computing, over all threads.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.load(Ordering::Relaxed))
    }

    /// Wakes all waiting threads, so that they check whether they are stopped.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Drops all waiting batches and ends all waiting threads.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.interactive.clear();
        waiting.bulk.clear();
        drop(waiting);
        self.wake();
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid queue.
    fn lock(&self) -> MutexGuard<'_, Waiting<T, R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, R> Waiting<T, R> {
    fn pop(&mut self) -> Option<Batch<T, R>> {
        self.interactive.pop_front().or_else(|| self.bulk.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Embedding;
    use clew_model::EncodedText;
    use clew_runtime::admission::Gate;

    use super::*;

    type Replied = oneshot::Receiver<(Instant, Result<Vec<Embedding>, Error>)>;

    fn batch(gate: &Gate, id: u32) -> (Batch<EncodedText, Embedding>, Replied) {
        let (reply, receiver) = oneshot::channel();
        let texts = vec![EncodedText { ids: vec![id], truncated: false }];
        let (permit, since) = (gate.try_enter(1).unwrap(), Instant::now());
        let (span, waiting, waits_until) = (Span::none(), Span::none(), None);
        (Batch { texts, reply, permit, waits_until, span, waiting, since }, receiver)
    }

    /// Returns the token of the next batch.
    fn next(queue: &Queue<EncodedText, Embedding>) -> Option<u32> {
        match queue.next(None, &|| false) {
            Next::Batch(batch) => Some(batch.texts[0].ids[0]),
            Next::Time | Next::End => None,
        }
    }

    #[test]
    fn who_waited_too_long_is_refused_when_its_turn_comes() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue");
        let (late, mut refused) = batch(&gate, 1);
        let waits_until = Instant::now().checked_sub(Duration::from_millis(1));
        queue.push(Batch { waits_until, ..late }, Priority::Interactive);
        let (waiting, _receiver) = batch(&gate, 2);
        queue.push(waiting, Priority::Bulk);
        assert_eq!(next(&queue), Some(2));
        let (_, answer) = refused.try_recv().unwrap();
        assert_eq!(answer.unwrap_err().kind(), clew_core::ErrorKind::Exhausted);
        assert_eq!(gate.in_use(), 0, "every permit came back");
    }

    #[test]
    fn people_go_first_and_callers_that_left_are_skipped() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue");
        let mut receivers = Vec::new();
        for (id, priority) in [(1, Priority::Bulk), (2, Priority::Bulk), (3, Priority::Interactive)]
        {
            let (batch, receiver) = batch(&gate, id);
            queue.push(batch, priority);
            receivers.push(receiver);
        }
        receivers.remove(0);
        assert_eq!([next(&queue), next(&queue)], [Some(3), Some(2)]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
        queue.close();
        assert_eq!(next(&queue), None);
    }

    #[test]
    fn a_thread_that_has_to_check_its_device_waits_no_longer_than_until_then() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue");
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(matches!(queue.next(Some(soon), &|| false), Next::Time));
        assert!(Instant::now() >= soon);
        let (waiting, mut refused) = batch(&gate, 1);
        queue.push(waiting, Priority::Bulk);
        assert!(matches!(queue.next(Some(soon), &|| false), Next::Time), "before any batch");
        queue.refuse(&Error::internal("broken"));
        assert_eq!(refused.try_recv().unwrap().1.unwrap_err().message(), "broken");
        assert_eq!(gate.in_use(), 0, "every permit came back");
    }
}
