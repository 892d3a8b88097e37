//! Whether a shard has something left to do, and what is known of it while it rests.
//!
//! A shard rests while nobody needs it: its tables are closed, and its actors do not run. It rests
//! only once each of its tasks has looked at the newest state and found nothing to do, so nothing
//! that was accepted waits for the next request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clew_core::Timestamp;
use clew_index::{Left, Totals};

/// Task of a shard that may have something left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Derives chunks and structure.
    Indexer,
    /// Maintains the tables and erases.
    Maintainer,
    /// Forms compressed memories, if the corpus has them.
    MemoryBuilder,
    /// Forgets what is retained no longer, if the corpus has a retention time.
    Retention,
}

const TASKS: usize = Task::Retention as usize + 1;

/// What the tasks of a running shard found last. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Idleness(Arc<[AtomicU64; TASKS]>);

/// In place of a revision: the task does not run.
const ABSENT: u64 = u64::MAX;
/// In place of a revision: the task has not found yet that nothing is left to do.
const BUSY: u64 = u64::MAX - 1;

impl Idleness {
    /// Starts with the tasks that every shard has, of which nothing is known yet.
    pub fn new() -> Self {
        let new = Self(Arc::new([const { AtomicU64::new(ABSENT) }; TASKS]));
        new.runs(Task::Indexer);
        new.runs(Task::Maintainer);
        new
    }

    /// Notes that a task runs and may have something to do.
    pub fn runs(&self, task: Task) {
        self.of(task).store(BUSY, Ordering::Release);
    }

    /// Notes that a task found nothing to do in the state of this revision.
    pub fn is_done(&self, task: Task, revision: u64) {
        self.of(task).store(revision, Ordering::Release);
    }

    /// Returns whether a task found nothing to do in the state of this revision.
    pub fn is_done_at(&self, task: Task, revision: u64) -> bool {
        self.of(task).load(Ordering::Acquire) == revision
    }

    /// Returns whether no task has anything to do in the state of this revision.
    pub fn is_idle_at(&self, revision: u64) -> bool {
        self.0.iter().all(|seen| {
            let seen = seen.load(Ordering::Acquire);
            seen == ABSENT || seen == revision
        })
    }

    fn of(&self, task: Task) -> &AtomicU64 {
        &self.0[task as usize]
    }
}

/// What is known of a shard while it rests. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Resting(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    /// Totals of the documents when the shard was open last.
    totals: Option<Totals>,
    /// Time from which something is to be done although nobody asks.
    due: Option<Timestamp>,
    /// How the writer of this process left the tables.
    left: Option<Left>,
    /// Whether something may be left to do that nobody in this process knows of.
    is_unseen: bool,
}

impl Resting {
    /// Starts with a shard that this process has not looked into.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Known { totals: None, due: None, left: None, is_unseen: true })))
    }

    /// Notes the totals of the documents at the time at which the shard begins to rest.
    pub fn begins(&self, totals: Totals) {
        self.lock().totals = Some(totals);
    }

    /// Returns the totals of the documents if the shard was open before.
    pub fn totals(&self) -> Option<Totals> {
        self.lock().totals.clone()
    }

    /// Notes how the writer has left the tables.
    pub fn leaves(&self, left: Option<Left>) {
        self.lock().left = left;
    }

    /// Returns how the tables were left, once.
    pub fn comes_back(&self) -> Option<Left> {
        self.lock().left.take()
    }

    /// Notes from when on something is to be done although nobody asks.
    pub fn is_due(&self, due: Option<Timestamp>) {
        self.lock().due = due;
    }

    /// Notes that something may be left to do, because the settings changed or another node had the
    /// shard.
    pub fn is_unseen(&self) {
        self.lock().is_unseen = true;
    }

    /// Returns whether the shard has to be opened although nobody asks. The caller opens it then.
    pub fn must_open(&self, now: Timestamp) -> bool {
        let mut known = self.lock();
        let is_due = known.due.take_if(|due| *due <= now).is_some();
        std::mem::take(&mut known.is_unseen) || is_due
    }

    // No code that can panic runs under the lock, so a poisoned one still holds a valid state.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_idle_once_every_task_saw_the_newest_state() {
        let idleness = Idleness::new();
        assert!(!idleness.is_idle_at(0));
        idleness.is_done(Task::Indexer, 0);
        assert!(!idleness.is_idle_at(0));
        idleness.is_done(Task::Maintainer, 0);
        assert!(idleness.is_idle_at(0));
        assert!(!idleness.is_idle_at(1), "something was written");
        idleness.is_done(Task::Indexer, 1);
        idleness.is_done(Task::Maintainer, 1);
        idleness.runs(Task::Retention);
        assert!(!idleness.is_idle_at(1));
        idleness.is_done(Task::Retention, 1);
        assert!(idleness.is_idle_at(1));
    }

    #[test]
    fn a_shard_is_opened_unasked_once_for_each_reason() {
        let resting = Resting::new();
        let at = Timestamp::from_micros;
        assert!(resting.must_open(at(0)), "nobody has looked into it");
        assert!(!resting.must_open(at(1)));
        resting.is_due(Some(at(5)));
        assert!(!resting.must_open(at(4)));
        assert!(resting.must_open(at(5)));
        assert!(!resting.must_open(at(6)));
        resting.is_unseen();
        assert!(resting.must_open(at(6)));
    }
}
