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
    fn waited_too_long(&self) -> bool {
        self.waits_until.is_some_and(|until| Instant::now() > until)
    }
}

/// Queue that any number of threads take from. The permits of its batches bound its length.
#[derive(Debug)]
pub(crate) struct Queue<T, R> {
    /// Name of the queue in messages that it is full.
    name: &'static str,
    waiting: Mutex<Waiting<T, R>>,
    changed: Condvar,
    busy_nanos: AtomicU64,
    /// Start times of the batches that are being computed.
    computing: Computing,
}

/// Start times of the batches that are being computed.
type Computing = Mutex<Vec<Instant>>;

/// Guard of a batch that is being computed, until it is dropped.
#[derive(Debug)]
pub(crate) struct Computed<'a> {
    computing: &'a Computing,
    began: Instant,
}

impl Drop for Computed<'_> {
    fn drop(&mut self) {
        let mut computing = hold(self.computing);
        if let Some(place) = computing.iter().position(|began| *began == self.began) {
            computing.swap_remove(place);
        }
    }
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
            computing: Mutex::default(),
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

    /// Returns the next batch whose caller still waits. Blocks until there is one. Returns `None`
    /// once the queue is closed or `stopped` returns true.
    pub fn next(&self, stopped: &dyn Fn() -> bool) -> Option<Batch<T, R>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed || stopped() {
                return None;
            }
            let next = waiting.interactive.pop_front().or_else(|| waiting.bulk.pop_front());
            match next {
                Some(batch) if batch.reply.is_closed() => {}
                Some(batch) if batch.waited_too_long() => {
                    let refusal = Error::exhausted(self.name, RETRY_AFTER);
                    // Fails if the caller left meanwhile; then nobody needs the refusal.
                    drop(batch.reply.send((Instant::now(), Err(refusal))));
                }
                Some(batch) => return Some(batch),
                None => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Adds the time that a thread spent computing a batch.
    pub fn record_busy(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Registers a batch that a thread begins to compute.
    pub fn begin(&self, began: Instant) -> Computed<'_> {
        hold(&self.computing).push(began);
        Computed { computing: &self.computing, began }
    }

    /// Returns the longest time that any current batch has been computed.
    pub fn longest(&self) -> Option<Duration> {
        hold(&self.computing).iter().min().map(Instant::elapsed)
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

    fn lock(&self) -> MutexGuard<'_, Waiting<T, R>> {
        hold(&self.waiting)
    }
}

// No code that can panic runs under a lock, so a poisoned one holds a valid queue.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn who_waited_too_long_is_refused_when_its_turn_comes() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue");
        let (late, mut refused) = batch(&gate, 1);
        let waits_until = Instant::now().checked_sub(Duration::from_millis(1));
        queue.push(Batch { waits_until, ..late }, Priority::Interactive);
        let (next, _receiver) = batch(&gate, 2);
        queue.push(next, Priority::Bulk);
        assert_eq!(queue.next(&|| false).unwrap().texts[0].ids[0], 2);
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
        let never = || false;
        let order: Vec<u32> = (0..2).map(|_| queue.next(&never).unwrap().texts[0].ids[0]).collect();
        assert_eq!(order, [3, 2]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
        queue.close();
        assert!(queue.next(&never).is_none());
    }
}
