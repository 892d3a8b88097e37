//! Fair queues: a few pieces of work run at once, the others wait a short while, and many of one
//! key do not hold up those of another key.
//!
//! Work that shares a processor gets slower the more there is of it, until nothing finishes in
//! time. A [`FairQueue`] therefore lets a few pieces run. The others wait in a queue for each key,
//! and the keys are served in rotation. Work that would wait too long, as estimated from recent run
//! times, is refused at once. The parts of one question come together, so they are admitted
//! together or not at all.
//!
//! A piece may be worth several turns, as a batch of searches is. It takes one slot, and its key
//! owes the further turns: while other keys wait, the key is passed over once for each of them.
//! While the key does not wait, it pays by each turn that another key takes. Once nobody waits,
//! nothing is owed, because nobody has lost a turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_core::Error;
use clew_telemetry::Queue;
use tokio::sync::oneshot;

use crate::tree::RunningPart;

/// Fair queue that lets a bounded number of pieces of work run at once. Cheap to clone; clones
/// share the queue.
#[derive(Clone, Debug)]
pub struct FairQueue {
    name: &'static str,
    at_once: usize,
    patience: Duration,
    /// Maximum number of waiting pieces for each key.
    crowd: usize,
    metrics: Option<Arc<Queue>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Moving mean of recent run times of a turn. Zero until the first piece ends.
    mean_run: Duration,
    /// Waiting pieces by key; no line is empty.
    waiting: HashMap<String, Line>,
    /// Keys of `waiting`, the next one first.
    keys: VecDeque<String>,
    /// Turns that keys have taken ahead of others and not paid for yet; none of them is 0.
    owed: HashMap<String, usize>,
    /// Number of the next piece that waits.
    next_number: u64,
    /// Time at which a piece last came.
    asked: Option<Instant>,
}

/// Waiting pieces of one key.
#[derive(Debug, Default)]
struct Line {
    /// The pieces, in the order in which they came.
    pieces: VecDeque<Waiting>,
    /// Sum of their turns.
    turns: usize,
}

/// A waiting piece, as the queue knows it.
#[derive(Debug)]
struct Waiting {
    /// Number of the piece: later ones have higher numbers.
    number: u64,
    /// Number of turns that it takes, at least 1.
    turns: usize,
    given: oneshot::Sender<Slot>,
}

/// A waiting piece, as its caller holds it. Dropping it takes the piece out of the queue.
struct Waiter<'a> {
    queue: &'a FairQueue,
    key: &'a str,
    number: u64,
    mine: oneshot::Receiver<Slot>,
}

/// Slot: the right to run. Dropping it passes it on.
#[derive(Debug)]
#[must_use = "a dropped slot lets the next one run"]
pub struct Slot {
    queue: FairQueue,
    /// Number of turns that the piece takes.
    turns: usize,
    began: Instant,
}

/// Weight of the newest run time in the moving mean.
const NEWEST: f64 = 0.1;

/// Returns how many pieces of work run at once on this machine: two for each core, so that one
/// computes while another waits for the storage.
pub fn two_per_core() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

impl FairQueue {
    /// Creates a queue that lets `at_once` pieces run, at least one, and others wait for about
    /// `patience` at most. Errors tell callers that `name` is full.
    pub fn new(name: &'static str, at_once: usize, patience: Duration) -> Self {
        let (at_once, crowd) = (at_once.max(1), usize::MAX);
        Self { name, at_once, patience, crowd, metrics: None, state: Arc::default() }
    }

    /// Lets at most `crowd` turns of each key wait, and shows the queue in metrics under the name
    /// `queue`. Its capacity there is what may run, and for each waiting key what may wait.
    #[must_use]
    pub fn bounded_as(mut self, queue: &'static str, crowd: usize) -> Self {
        let (state, at_once) = (Arc::clone(&self.state), self.at_once);
        let look = move || {
            let state = locked(&state);
            (state.running + state.all_waiting(), at_once + crowd * state.keys.len().max(1))
        };
        self.crowd = crowd;
        self.metrics = Some(Queue::new(queue, "requests", look));
        self
    }

    /// Waits for a slot. Pieces of the same key get theirs in the order in which they came. Unless
    /// the queue is bounded, the caller has to bound how many wait.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Exhausted`]: at once if it would take too long or too many
    /// wait, and later if there was no slot in time.
    pub async fn enter(&self, key: &str, deadline: Instant) -> Result<Slot, Error> {
        self.enter_for(1, key, deadline).await
    }

    /// Waits for a slot as [`Self::enter`] does, for a piece that is worth `turns` turns of its
    /// key. It is admitted or refused as a whole.
    ///
    /// # Errors
    /// Returns the errors of [`Self::enter`].
    pub async fn enter_for(
        &self,
        turns: usize,
        key: &str,
        deadline: Instant,
    ) -> Result<Slot, Error> {
        let (turns, began) = (turns.max(1), Instant::now());
        let mut waiter = {
            let mut state = locked(&self.state);
            state.asked = Some(began);
            if state.running < self.at_once {
                state.running += 1;
                state.owe(key, turns - 1);
                return Ok(Slot::of(self, turns));
            }
            let is_crowded = state.waiting(key) >= self.crowd;
            if is_crowded || state.expected_wait(key, self.at_once) > self.patience {
                return Err(self.refusal());
            }
            let (given, mine) = oneshot::channel();
            Waiter { queue: self, key, number: state.wait(key, turns, given), mine }
        };
        // The estimate may be wrong, but nobody waits longer than this.
        let until = deadline.min(began + 2 * self.patience);
        // A slot that is given at the moment when the wait ends is dropped with the waiter, and
        // passed on.
        match tokio::time::timeout_at(until.into(), &mut waiter.mine).await {
            Ok(Ok(slot)) => {
                if let Some(metrics) = &self.metrics {
                    metrics.waited(began.elapsed());
                }
                Ok(slot)
            }
            Ok(Err(_)) | Err(_) => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Error {
        if let Some(metrics) = &self.metrics {
            metrics.refused();
        }
        Error::exhausted(self.name, self.patience)
    }

    /// Returns whether a piece came in the last `time`, admitted or not.
    pub fn was_asked_within(&self, time: Duration) -> bool {
        locked(&self.state).asked.is_some_and(|asked| asked.elapsed() < time)
    }

    /// Returns the number of waiting turns.
    pub fn waiting(&self) -> usize {
        locked(&self.state).all_waiting()
    }

    /// Returns the queue's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let running = locked(&self.state).running;
        RunningPart::new(self.name, "fair queue", "open").with_queue(running, self.at_once)
    }
}

// No code that can panic runs under the lock, so a poisoned one holds a valid state.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Returns the number of waiting turns of `key`.
    fn waiting(&self, key: &str) -> usize {
        self.waiting.get(key).map_or(0, |line| line.turns)
    }

    fn all_waiting(&self) -> usize {
        self.waiting.values().map(|line| line.turns).sum()
    }

    /// Lets a piece wait behind the others of its key. Returns its number.
    fn wait(&mut self, key: &str, turns: usize, given: oneshot::Sender<Slot>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let line = self.waiting.entry(key.to_owned()).or_default();
        line.pieces.push_back(Waiting { number, turns, given });
        line.turns += turns;
        if line.pieces.len() == 1 {
            self.keys.push_back(key.to_owned());
        }
        number
    }

    /// Lets a key owe further turns.
    fn owe(&mut self, key: &str, turns: usize) {
        if turns > 0 {
            *self.owed.entry(key.to_owned()).or_default() += turns;
        }
    }

    /// Takes a piece out, unless it has got its slot. It keeps nobody out from then on.
    fn leave(&mut self, key: &str, number: u64) {
        let Some(line) = self.waiting.get_mut(key) else { return };
        // Numbers ascend, so this looks at few pieces however many wait.
        let Ok(place) = line.pieces.binary_search_by_key(&number, |waiting| waiting.number) else {
            return;
        };
        if let Some(left) = line.pieces.remove(place) {
            line.turns -= left.turns;
        }
        if line.pieces.is_empty() {
            self.waiting.remove(key);
            self.keys.retain(|other| other != key);
        }
    }

    /// Returns how long one more piece of `key` would wait if run times stay as they were recently.
    fn expected_wait(&self, key: &str, at_once: usize) -> Duration {
        let before = self.waiting(key);
        // Until then, each other waiting key is served as often as this one, if it has as many
        // waiting, and once more for each turn that this one owes.
        let owed = self.owed.get(key).copied().unwrap_or_default();
        let of_others = |line: &Line| line.turns.min(before + owed + 1);
        let others = self.waiting.iter().filter(|(other, _)| *other != key);
        let ahead = before + others.map(|(_, line)| of_others(line)).sum::<usize>() + 1;
        self.mean_run.mul_f64(ahead as f64 / at_once as f64)
    }

    /// Takes the next waiting piece: the first of the next key that owes no turn.
    fn next(&mut self) -> Option<Waiting> {
        let key = self.next_key()?;
        let line = self.waiting.get_mut(&key)?;
        let next = line.pieces.pop_front()?;
        line.turns -= next.turns;
        if line.pieces.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.keys.push_back(key.clone());
        }
        let waiting = &self.waiting;
        self.owed.retain(|key, owed| {
            // Keys that wait pay when they are passed over.
            *owed = if waiting.contains_key(key) { *owed } else { owed.saturating_sub(next.turns) };
            *owed > 0
        });
        self.owe(&key, next.turns - 1);
        Some(next)
    }

    /// Takes the key whose turn it is. Each key that is passed over pays a turn.
    fn next_key(&mut self) -> Option<String> {
        loop {
            let Some(key) = self.keys.pop_front() else {
                self.owed.clear();
                return None;
            };
            match self.owed.get_mut(&key) {
                Some(owed) if !self.keys.is_empty() => {
                    *owed -= 1;
                    if *owed == 0 {
                        self.owed.remove(&key);
                    }
                    self.keys.push_back(key);
                }
                Some(_alone) => {
                    self.owed.remove(&key);
                    return Some(key);
                }
                None => return Some(key),
            }
        }
    }
}

impl Slot {
    /// Creates a slot that begins now, for a piece of `turns` turns.
    fn of(queue: &FairQueue, turns: usize) -> Self {
        Self { queue: queue.clone(), turns, began: Instant::now() }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        locked(&self.queue.state).leave(self.key, self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let next = {
            let mut state = locked(&self.queue.state);
            let took = self.began.elapsed().div_f64(self.turns as f64);
            state.mean_run = state.mean_run.mul_f64(1.0 - NEWEST) + took.mul_f64(NEWEST);
            let next = state.next();
            if next.is_none() {
                state.running -= 1;
            }
            next
        };
        // Not under the lock: if the receiver has left since, the slot comes back and is dropped,
        // too.
        if let Some(next) = next {
            drop(next.given.send(Self::of(&self.queue, next.turns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn patient(at_once: usize) -> FairQueue {
        FairQueue::new("searches", at_once, Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_refused_and_takes_no_slot() {
        let queue = FairQueue::new("searches", 1, Duration::from_millis(500));
        let first = queue.enter("a", later()).await.unwrap();
        let refused = queue.enter("a", later()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        drop(first);
        assert_eq!(locked(&queue.state).running, 0);
        drop(queue.enter("b", later()).await.unwrap());
    }

    #[tokio::test]
    async fn who_would_wait_too_long_is_refused_at_once_and_another_key_is_not() {
        let queue = FairQueue::new("searches", 1, Duration::from_secs(10));
        let _running = queue.enter("crowd", later()).await.unwrap();
        locked(&queue.state).mean_run = Duration::from_secs(4);
        let enter = |key| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter(key, later()).await.map(drop) })
        };
        let _waiting = [enter("crowd"), enter("crowd")];
        while locked(&queue.state).waiting("crowd") < 2 {
            tokio::task::yield_now().await;
        }
        // It would be the third: 12 seconds.
        let refused = queue.enter("crowd", later()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        // One of the crowd is served before it: 8 seconds.
        assert_eq!(locked(&queue.state).expected_wait("calm", 1), Duration::from_secs(8));
    }

    #[tokio::test]
    async fn a_crowd_is_bounded_and_its_bound_is_not_that_of_another_key() {
        let queue = patient(1).bounded_as("a_test", 2);
        let running = queue.enter("crowd", later()).await.unwrap();
        let enter = |key| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter(key, later()).await.map(drop) })
        };
        let waiting = [enter("crowd"), enter("crowd"), enter("calm")];
        while locked(&queue.state).keys.len() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = queue.enter("crowd", later()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(30)));
        drop(running);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_crowd_of_one_key_lets_another_in_after_one_slot() {
        let queue = patient(1);
        let running = queue.enter("crowd", later()).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for key in ["crowd", "crowd", "crowd", "calm"] {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = queue.enter(key, later()).await.unwrap();
                order.lock().unwrap().push(key);
            }));
            // It waits in the queue before the next one comes.
            tokio::task::yield_now().await;
        }
        drop(running);
        for waiting in waiting {
            waiting.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["crowd", "calm", "crowd", "crowd"]);
        let state = locked(&queue.state);
        assert!(state.running == 0 && state.waiting.is_empty() && state.keys.is_empty());
    }

    /// Lets pieces wait for a slot in this order, and returns the order in which they got it.
    async fn order_behind(
        queue: &FairQueue,
        running: Slot,
        pieces: &[(&'static str, usize)],
    ) -> Vec<&'static str> {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for &(key, turns) in pieces {
            let (queue, order) = (queue.clone(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _slot = queue.enter_for(turns, key, later()).await.unwrap();
                order.lock().unwrap().push(key);
            }));
            // It waits in the queue before the next one comes.
            tokio::task::yield_now().await;
        }
        drop(running);
        for waiting in waiting {
            waiting.await.unwrap();
        }
        let state = locked(&queue.state);
        assert!(state.running == 0 && state.waiting.is_empty() && state.keys.is_empty());
        assert!(state.owed.is_empty(), "nobody has lost a turn");
        order.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn a_batch_takes_the_turns_of_its_key_while_it_waits_and_while_it_runs() {
        // The batch of three runs; its key is passed over twice.
        let queue = patient(1);
        let running = queue.enter_for(3, "batch", later()).await.unwrap();
        let pieces = [("batch", 1), ("batch", 1), ("calm", 1), ("calm", 1), ("calm", 1)];
        let order = order_behind(&queue, running, &pieces).await;
        assert_eq!(order, ["calm", "calm", "batch", "calm", "batch"]);
        // The batch waits; its key is passed over afterwards.
        let running = queue.enter("batch", later()).await.unwrap();
        let pieces = [("batch", 3), ("batch", 1), ("calm", 1), ("calm", 1), ("calm", 1)];
        let order = order_behind(&queue, running, &pieces).await;
        assert_eq!(order, ["batch", "calm", "calm", "calm", "batch"]);
    }

    #[tokio::test]
    async fn a_key_alone_pays_nothing_and_one_that_stayed_away_has_paid_by_the_turns_of_others() {
        let queue = patient(1);
        let running = queue.enter_for(9, "batch", later()).await.unwrap();
        let order = order_behind(&queue, running, &[("batch", 9), ("batch", 1)]).await;
        assert_eq!(order, ["batch", "batch"]);
        let running = queue.enter_for(3, "batch", later()).await.unwrap();
        let enter = |key| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter(key, later()).await.unwrap() })
        };
        let (first, second) = (enter("calm"), enter("other"));
        while queue.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        drop(running);
        drop(first.await.unwrap());
        let running = second.await.unwrap();
        assert!(locked(&queue.state).owed.is_empty());
        let order = order_behind(&queue, running, &[("batch", 1), ("calm", 1)]).await;
        assert_eq!(order, ["batch", "calm"]);
    }

    #[tokio::test]
    async fn waiting_turns_count_for_the_bound_and_for_the_expected_wait() {
        let queue = patient(1).bounded_as("a_test_of_turns", 4);
        let _running = queue.enter("calm", later()).await.unwrap();
        let enter = |key, turns| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter_for(turns, key, later()).await.map(drop) })
        };
        let batch = enter("crowd", 6);
        while queue.waiting() < 6 {
            tokio::task::yield_now().await;
        }
        let refused = queue.enter("crowd", later()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        locked(&queue.state).mean_run = Duration::from_secs(1);
        // The six turns and this one; only one of them if the key has none waiting.
        assert_eq!(locked(&queue.state).expected_wait("crowd", 1), Duration::from_secs(7));
        assert_eq!(locked(&queue.state).expected_wait("calm", 1), Duration::from_secs(2));
        batch.abort();
        assert!(batch.await.unwrap_err().is_cancelled());
        assert_eq!(queue.waiting(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_run_than_may_and_no_slot_is_lost() {
        let queue = patient(3);
        let running = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let ordering = std::sync::atomic::Ordering::SeqCst;
        let work = (0..200).map(|number| {
            let (queue, running) = (queue.clone(), Arc::clone(&running));
            tokio::spawn(async move {
                let key = ["a", "b", "c"][number % 3];
                let entering = queue.enter(key, later());
                // Some callers leave.
                if number % 7 == 0 {
                    let patience = Duration::from_micros(number as u64);
                    drop(tokio::time::timeout(patience, entering).await);
                    return;
                }
                let _slot = entering.await.unwrap();
                assert!(running.fetch_add(1, ordering) < 3);
                tokio::task::yield_now().await;
                running.fetch_sub(1, ordering);
            })
        });
        for work in work.collect::<Vec<_>>() {
            work.await.unwrap();
        }
        assert_eq!(locked(&queue.state).running, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_left_is_not_counted_and_keeps_nobody_out() {
        let queue = patient(1).bounded_as("a_test_of_leaving", 2);
        let running = queue.enter("a", later()).await.unwrap();
        let soon = Instant::now() + Duration::from_millis(10);
        let (first, second) = tokio::join!(queue.enter("a", soon), queue.enter("a", soon));
        assert!(first.is_err() && second.is_err());
        assert_eq!(queue.waiting(), 0);
        {
            let state = locked(&queue.state);
            assert!(
                state.waiting.is_empty() && state.keys.is_empty(),
                "nobody has to look for them"
            );
        }
        let enter = tokio::spawn({
            let queue = queue.clone();
            async move { queue.enter("a", later()).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.waiting(), 1, "the two that left do not fill the queue of their key");
        drop(running);
        enter.await.unwrap().unwrap();
        let state = locked(&queue.state);
        assert!(state.running == 0 && state.waiting.is_empty() && state.keys.is_empty());
    }

    #[tokio::test]
    async fn who_leaves_from_among_others_takes_out_nobody_else() {
        let queue = patient(1);
        let running = queue.enter("a", later()).await.unwrap();
        let enter = |key| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.enter(key, later()).await.map(drop) })
        };
        let mut waiting = Vec::new();
        for key in ["a", "a", "a", "b"] {
            waiting.push(enter(key));
            tokio::task::yield_now().await;
        }
        for place in [1, 3] {
            waiting[place].abort();
            assert!((&mut waiting[place]).await.unwrap_err().is_cancelled());
        }
        {
            let state = locked(&queue.state);
            let numbers: Vec<u64> =
                state.waiting["a"].pieces.iter().map(|piece| piece.number).collect();
            assert_eq!((numbers, state.keys.len()), (vec![0, 2], 1));
        }
        drop(running);
        for place in [0, 2] {
            (&mut waiting[place]).await.unwrap().unwrap();
        }
        let state = locked(&queue.state);
        assert!(state.running == 0 && state.waiting.is_empty() && state.keys.is_empty());
    }
}
