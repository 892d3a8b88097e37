//! Queue between callers and device threads: interactive batches first, then bulk. Small batches of
//! several callers are taken together.

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
    /// Number of tokens in the texts.
    pub tokens: usize,
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
    /// It computes these batches as one: at least one, of the same priority, whose callers still
    /// wait.
    Batches(Vec<Batch<T, R>>),
    /// The time has come until which it was to wait.
    Time,
    /// It ends: the queue is closed, or the thread is stopped.
    End,
}

/// How threads share the work of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    /// Number of threads that take from the queue, at least 1.
    pub threads: usize,
    /// Maximum number of tokens in the batches that one thread takes together.
    pub tokens: usize,
}

/// Queue that several threads take from. The permits of its batches bound its length.
#[derive(Debug)]
pub(crate) struct Queue<T, R> {
    /// Name of the queue in messages that it is full.
    name: &'static str,
    sharing: Sharing,
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
    pub fn new(name: &'static str, sharing: Sharing) -> Self {
        let (interactive, bulk) = (VecDeque::new(), VecDeque::new());
        Self {
            name,
            sharing,
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

    /// Waits for batches, until `until` at the longest.
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
            let Waiting { interactive, bulk, .. } = &mut *waiting;
            // Priorities do not mix: a question would wait for the texts of documents.
            for batches in [interactive, bulk] {
                let taken = self.take(batches);
                if !taken.is_empty() {
                    return Next::Batches(taken);
                }
            }
            waiting = match left {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes the first of `waiting`, and those behind it that one computation can hold. Skips those
    /// whose caller left, and refuses those that waited too long. Returns none if none is left.
    ///
    /// A thread takes at most its share of the batches, and leaves the rest to the other threads,
    /// which are idle or soon will be. So a thread that takes many small batches never works on
    /// alone. The last batches are taken one by one (Polychronopoulos and Kuck, "Guided
    /// Self-Scheduling", 1987).
    fn take(&self, waiting: &mut VecDeque<Batch<T, R>>) -> Vec<Batch<T, R>> {
        let share = waiting.len().div_ceil(self.sharing.threads);
        let mut taken = Vec::new();
        let mut tokens = 0;
        while taken.len() < share
            && let Some(batch) = waiting
                .pop_front_if(|batch| tokens == 0 || tokens + batch.tokens <= self.sharing.tokens)
        {
            if batch.reply.is_closed() {
                continue;
            }
            if batch.waited_too_long() {
                batch.refuse(Error::exhausted(self.name, RETRY_AFTER));
                continue;
            }
            tokens += batch.tokens;
            taken.push(batch);
        }
        taken
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

    /// Limits under which each batch is taken alone.
    const ALONE: Sharing = Sharing { threads: 1, tokens: 1 };

    fn batch(gate: &Gate, id: u32) -> (Batch<EncodedText, Embedding>, Replied) {
        let (reply, receiver) = oneshot::channel();
        let texts = vec![EncodedText { ids: vec![id], truncated: false }];
        let (permit, since) = (gate.try_enter(1).unwrap(), Instant::now());
        let (span, waiting, waits_until) = (Span::none(), Span::none(), None);
        (Batch { texts, tokens: 1, reply, permit, waits_until, span, waiting, since }, receiver)
    }

    /// Returns the tokens of the next batches.
    fn next(queue: &Queue<EncodedText, Embedding>) -> Vec<u32> {
        match queue.next(None, &|| false) {
            Next::Batches(batches) => batches.iter().map(|batch| batch.texts[0].ids[0]).collect(),
            Next::Time | Next::End => Vec::new(),
        }
    }

    #[test]
    fn batches_of_one_priority_are_taken_together_up_to_the_limit() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue", Sharing { threads: 1, tokens: 3 });
        let mut receivers = Vec::new();
        for (id, tokens, priority) in [
            (1, 1, Priority::Bulk),
            (2, 9, Priority::Bulk),
            (3, 1, Priority::Bulk),
            (4, 1, Priority::Bulk),
            (5, 1, Priority::Bulk),
            (6, 1, Priority::Bulk),
            (7, 1, Priority::Interactive),
            (8, 1, Priority::Interactive),
        ] {
            let (batch, receiver) = batch(&gate, id);
            queue.push(Batch { tokens, ..batch }, priority);
            receivers.push(receiver);
        }
        // The caller of 4 leaves.
        receivers.remove(3);
        let taken = [next(&queue), next(&queue), next(&queue), next(&queue)];
        assert_eq!(taken, [vec![7, 8], vec![1], vec![2], vec![3, 5, 6]]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
    }

    #[test]
    fn a_thread_leaves_their_share_to_the_others() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue", Sharing { threads: 2, tokens: 100 });
        let mut receivers = Vec::new();
        for id in 0..8 {
            let (batch, receiver) = batch(&gate, id);
            queue.push(batch, Priority::Interactive);
            receivers.push(receiver);
        }
        let taken = [next(&queue), next(&queue), next(&queue), next(&queue)];
        assert_eq!(taken, [vec![0, 1, 2, 3], vec![4, 5], vec![6], vec![7]]);
    }

    #[test]
    fn who_waited_too_long_is_refused_when_its_turn_comes() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue", ALONE);
        let (late, mut refused) = batch(&gate, 1);
        let waits_until = Instant::now().checked_sub(Duration::from_millis(1));
        queue.push(Batch { waits_until, ..late }, Priority::Interactive);
        let (waiting, _receiver) = batch(&gate, 2);
        queue.push(waiting, Priority::Bulk);
        assert_eq!(next(&queue), [2]);
        let (_, answer) = refused.try_recv().unwrap();
        assert_eq!(answer.unwrap_err().kind(), clew_core::ErrorKind::Exhausted);
        assert_eq!(gate.in_use(), 0, "every permit came back");
    }

    #[test]
    fn people_go_first_and_callers_that_left_are_skipped() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue", ALONE);
        let mut receivers = Vec::new();
        for (id, priority) in [(1, Priority::Bulk), (2, Priority::Bulk), (3, Priority::Interactive)]
        {
            let (batch, receiver) = batch(&gate, id);
            queue.push(batch, priority);
            receivers.push(receiver);
        }
        receivers.remove(0);
        assert_eq!([next(&queue), next(&queue)], [[3], [2]]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
        queue.close();
        assert!(next(&queue).is_empty());
    }

    #[test]
    fn a_thread_that_has_to_check_its_device_waits_no_longer_than_until_then() {
        let gate = Gate::new("queue", 10, Duration::ZERO);
        let queue = Queue::new("the queue", ALONE);
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
