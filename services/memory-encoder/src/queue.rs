//! The queue between callers and device threads: batches for people first, then bulk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_core::{Error, Priority};
use clew_runtime::admission::Permit;
use tokio::sync::oneshot;
use tracing::Span;

/// When callers are told to come again to a full queue.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Where the results of a batch go, with when it was begun; closed when the caller gave up.
pub(crate) type Reply<R> = oneshot::Sender<(Instant, Result<Vec<R>, Error>)>;

/// A batch of tokenised texts `T`, of each of which an `R` is computed, that waits for a device.
#[derive(Debug)]
pub(crate) struct Batch<T, R> {
    /// The texts, `[texts]`.
    pub texts: Vec<T>,
    /// Where the results go.
    pub reply: Reply<R>,
    /// The tokens it takes of the queue's limit.
    pub permit: Permit,
    /// When it is refused if it was not begun.
    pub waits_until: Option<Instant>,
    /// What its caller is in.
    pub span: Span,
    /// Its wait; ends when dropped.
    pub waiting: Span,
    /// When it was handed in.
    pub since: Instant,
}

impl<T, R> Batch<T, R> {
    fn waited_too_long(&self) -> bool {
        self.waits_until.is_some_and(|until| Instant::now() > until)
    }
}

/// A queue that any number of threads take from. Its length is bounded by the permits that its
/// batches carry.
#[derive(Debug)]
pub(crate) struct Queue<T, R> {
    /// What callers are told is full.
    name: &'static str,
    waiting: Mutex<Waiting<T, R>>,
    changed: Condvar,
    busy_nanos: AtomicU64,
    /// When the batches began that are computed now.
    computing: Computing,
}

/// When the batches began that are computed.
type Computing = Mutex<Vec<Instant>>;

/// A batch that is computed, until this is dropped.
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
    /// An empty queue that its callers know as `name`.
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

    /// Adds a batch; a closed queue drops it, which tells its caller.
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

    /// The next batch whose caller still waits; blocks until there is one. `None` once closed or
    /// when `stopped` says so.
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
                    // A caller that left meanwhile does not want to know.
                    drop(batch.reply.send((Instant::now(), Err(refusal))));
                }
                Some(batch) => return Some(batch),
                None => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Counts time a thread spent computing a batch.
    pub fn record_busy(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// A thread begins to compute a batch.
    pub fn begin(&self, began: Instant) -> Computed<'_> {
        hold(&self.computing).push(began);
        Computed { computing: &self.computing, began }
    }

    /// How long the batch is computed that is computed longest.
    pub fn longest(&self) -> Option<Duration> {
        hold(&self.computing).iter().min().map(Instant::elapsed)
    }

    /// Time spent computing, over all threads.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.load(Ordering::Relaxed))
    }

    /// Wakes all waiting threads so that they look whether they are stopped.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Drops what waits and ends all waiting threads.
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
