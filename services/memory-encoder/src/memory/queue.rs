//! The queue between callers and the thread: drafts, for which people wait, go before texts.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_core::{DraftTask, DraftedClues, Error, MemoryText};
use clew_model::memory::Snapshot;
use clew_runtime::admission::Permit;
use tokio::sync::{oneshot, watch};

use super::turns::Turn;

/// Most questions that are asked of a memory side by side: each has keys and values of its own on the device.
const SIDE_BY_SIDE: usize = 16;

/// A question that waits for its drafts.
#[derive(Debug)]
pub(super) struct Ask {
    /// The memory's name.
    pub key: String,
    pub draft: DraftTask,
    /// The memory, where it was not ready.
    pub brought: Option<Brought>,
    pub deadline: Instant,
    /// `None` for a memory that is not ready; closed when the caller gave up.
    pub reply: oneshot::Sender<Result<Option<DraftedClues>, Error>>,
    pub permit: Permit,
}

/// A memory that was brought.
#[derive(Debug)]
pub(super) struct Brought {
    pub snapshot: Snapshot,
    /// Held until the memory is ready: the next who would bring it finds it there.
    pub turn: Turn,
}

/// Texts that wait to be read.
#[derive(Debug)]
pub(super) struct Form {
    pub ratio: usize,
    pub begun: Option<Snapshot>,
    pub texts: Vec<MemoryText>,
    pub deadline: Instant,
    /// Tokens that were read.
    pub progress: watch::Sender<u64>,
    /// Closed when the caller gave up.
    pub reply: oneshot::Sender<Result<Snapshot, Error>>,
    pub permit: Permit,
}

/// What the thread is to do next.
#[derive(Debug)]
pub(super) enum Work {
    /// Draft for these, which ask the same memory.
    Draft(Vec<Ask>),
    /// Read texts.
    Form(Box<Form>),
    /// Panic, as only tests want it.
    #[cfg(test)]
    Panic,
}

/// A queue that one thread takes from. Its length is bounded by the permits that its entries carry.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    asks: VecDeque<Ask>,
    forms: VecDeque<Box<Form>>,
    closed: bool,
    #[cfg(test)]
    panics: bool,
}

impl Ask {
    /// Whether somebody still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }
}

impl Form {
    /// Whether somebody still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reply.is_closed() && Instant::now() < self.deadline
    }
}

impl Queue {
    /// Adds a question; a closed queue drops it, which tells its caller.
    pub(super) fn ask(&self, ask: Ask) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.asks.push_back(ask);
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Adds texts, as [`Self::ask`] does.
    pub(super) fn form(&self, form: Form) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.forms.push_back(Box::new(form));
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// What comes next; blocks until there is something. `None` once closed or when `stopped` says so.
    pub(super) fn next(&self, stopped: &dyn Fn() -> bool) -> Option<Work> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed || stopped() {
                return None;
            }
            #[cfg(test)]
            if std::mem::take(&mut waiting.panics) {
                return Some(Work::Panic);
            }
            if let Some(asks) = waiting.asks() {
                return Some(Work::Draft(asks));
            }
            match waiting.forms.pop_front() {
                Some(form) if form.is_wanted() => return Some(Work::Form(form)),
                Some(_unwanted) => {}
                None => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Questions that wait now, of one memory.
    pub(super) fn asks(&self) -> Option<Vec<Ask>> {
        self.lock().asks()
    }

    /// Wakes the thread so that it looks whether it is stopped.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Drops what waits and ends the thread.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.asks.clear();
        waiting.forms.clear();
        drop(waiting);
        self.wake();
    }

    /// Has the thread panic.
    #[cfg(test)]
    pub(super) fn panic(&self) {
        self.lock().panics = true;
        self.wake();
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid queue.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The question that waits longest, with others of the same memory.
    fn asks(&mut self) -> Option<Vec<Ask>> {
        self.asks.retain(Ask::is_wanted);
        let key = self.asks.front()?.key.clone();
        let (mut taken, mut rest) = (Vec::new(), VecDeque::new());
        for ask in self.asks.drain(..) {
            match ask.key == key && taken.len() < SIDE_BY_SIDE {
                true => taken.push(ask),
                false => rest.push_back(ask),
            }
        }
        self.asks = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_runtime::admission::Gate;

    use super::*;

    type Reply = oneshot::Receiver<Result<Option<DraftedClues>, Error>>;

    fn ask(gate: &Gate, key: &str, question: &str) -> (Ask, Reply) {
        let (reply, receiver) = oneshot::channel();
        let ask = Ask {
            key: key.to_owned(),
            draft: DraftTask { question: question.to_owned(), ..DraftTask::default() },
            brought: None,
            deadline: Instant::now() + Duration::from_secs(60),
            reply,
            permit: gate.try_enter(1).unwrap(),
        };
        (ask, receiver)
    }

    fn form(gate: &Gate) -> (Form, oneshot::Receiver<Result<Snapshot, Error>>) {
        let (reply, receiver) = oneshot::channel();
        let form = Form {
            ratio: 2,
            begun: None,
            texts: Vec::new(),
            deadline: Instant::now() + Duration::from_secs(60),
            progress: watch::Sender::new(0),
            reply,
            permit: gate.try_enter(1).unwrap(),
        };
        (form, receiver)
    }

    #[test]
    fn drafts_go_first_those_of_one_memory_together() {
        let gate = Gate::new("queue", 100, Duration::ZERO);
        let queue = Queue::default();
        let (text, _formed) = form(&gate);
        queue.form(text);
        let mut replies = Vec::new();
        for (key, question) in [("a", "left"), ("a", "1"), ("b", "2"), ("a", "3")] {
            let (ask, reply) = ask(&gate, key, question);
            queue.ask(ask);
            replies.push(reply);
        }
        replies.remove(0);
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(match queue.next(&|| false).unwrap() {
                Work::Draft(asks) => asks.into_iter().map(|ask| ask.draft.question).collect(),
                Work::Form(_) => vec!["text".to_owned()],
                Work::Panic => Vec::new(),
            });
        }
        assert_eq!(order, [vec!["1", "3"], vec!["2"], vec!["text"]]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
        assert!(queue.asks().is_none());
        queue.close();
        assert!(queue.next(&|| false).is_none());
    }

    #[test]
    fn no_more_are_taken_than_are_computed_side_by_side() {
        let gate = Gate::new("queue", 100, Duration::ZERO);
        let queue = Queue::default();
        let asks: Vec<_> = (0..SIDE_BY_SIDE + 3).map(|i| ask(&gate, "a", &i.to_string())).collect();
        let (asks, _replies): (Vec<_>, Vec<_>) = asks.into_iter().unzip();
        asks.into_iter().for_each(|ask| queue.ask(ask));
        assert_eq!(queue.asks().unwrap().len(), SIDE_BY_SIDE);
        let rest = queue.asks().unwrap();
        assert_eq!(
            rest[0].draft.question,
            SIDE_BY_SIDE.to_string(),
            "in the order in which they came"
        );
        assert_eq!(rest.len(), 3);
    }
}
