//! Queue between callers and the thread. Drafts, for which people wait, come before texts.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_core::{DraftTask, DraftedClues, Error, MemoryText};
use clew_model::memory::{MemorySnapshot, Share};
use clew_runtime::admission::Permit;
use tokio::sync::{oneshot, watch};

use super::exchange::{Outbox, Received};
use super::single_flight::Flight;

/// Maximum number of questions that are asked of a memory side by side. Each has keys and values of
/// its own on the device.
const SIDE_BY_SIDE: usize = 16;

/// Question that waits for its drafts.
#[derive(Debug)]
pub(super) struct Ask {
    /// Key of the memory.
    pub key: String,
    pub draft: DraftTask,
    /// The memory, if it was not ready.
    pub brought: Option<Brought>,
    pub deadline: Instant,
    /// Channel for the result, which is `None` if the memory is not ready. Closed if the caller
    /// gave up.
    pub reply: oneshot::Sender<Result<Option<DraftedClues>, Error>>,
    pub permit: Permit,
}

/// Memory that a caller brought.
#[derive(Debug)]
pub(super) struct Brought {
    pub snapshot: MemorySnapshot,
    /// Held until the memory is ready, so that the next caller finds it there.
    pub flight: Flight,
}

/// Texts that wait to be read.
#[derive(Debug)]
pub(super) struct Form {
    pub ratio: usize,
    pub begun: Option<MemorySnapshot>,
    pub texts: Vec<MemoryText>,
    pub deadline: Instant,
    /// Channel for the number of tokens that were read.
    pub progress: watch::Sender<u64>,
    /// Channel for the result. Closed if the caller gave up.
    pub reply: oneshot::Sender<Result<MemorySnapshot, Error>>,
    pub permit: Permit,
}

/// Share of a text that is read together with other nodes.
#[derive(Debug)]
pub(super) struct Together {
    /// Memory before the text.
    pub begun: MemorySnapshot,
    pub tokens: Vec<u32>,
    pub share: Share,
    pub received: Received,
    pub outbox: Outbox,
    pub deadline: Instant,
    /// Channel for the end. Closed if the caller gave up.
    pub reply: oneshot::Sender<Result<(), Error>>,
    pub permits: [Permit; 2],
}

/// Next work of the thread.
#[derive(Debug)]
pub(super) enum Work {
    /// Questions about the same memory, to draft for.
    Draft(Vec<Ask>),
    /// Texts to read.
    Form(Box<Form>),
    /// A share of a text, for which other nodes wait.
    Together(Box<Together>),
    /// A check of the device, if it is due.
    Check,
    /// A panic, for tests only.
    #[cfg(test)]
    Panic,
}

/// Queue that one thread takes from. The permits of its entries bound its length.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    asks: VecDeque<Ask>,
    forms: VecDeque<Box<Form>>,
    together: VecDeque<Box<Together>>,
    closed: bool,
    /// Whether the thread has to look if a check of its device is due.
    looks: bool,
    #[cfg(test)]
    panics: bool,
}

/// Returns whether the caller behind `reply` still waits.
pub(super) fn is_wanted<T>(reply: &oneshot::Sender<T>, deadline: Instant) -> bool {
    !reply.is_closed() && Instant::now() < deadline
}

impl Ask {
    /// Returns whether a caller still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.reply, self.deadline)
    }
}

impl Form {
    /// Returns whether a caller still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.reply, self.deadline)
    }
}

impl Together {
    /// Returns whether a caller still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.reply, self.deadline)
    }
}

impl Queue {
    /// Adds a question. A closed queue drops it, and its caller gets an error.
    pub(super) fn ask(&self, ask: Ask) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.asks.push_back(ask);
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Adds texts, as [`Self::ask`] adds a question.
    pub(super) fn form(&self, form: Form) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.forms.push_back(Box::new(form));
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Adds a share of a text, as [`Self::ask`] adds a question.
    pub(super) fn together(&self, together: Together) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.together.push_back(Box::new(together));
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Returns the next work. Blocks until there is some, until `until` at the longest. Returns
    /// `None` once the queue is closed or `stopped` returns true.
    pub(super) fn next(&self, until: Option<Instant>, stopped: &dyn Fn() -> bool) -> Option<Work> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed || stopped() {
                return None;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if std::mem::take(&mut waiting.looks) || left.is_some_and(|left| left.is_zero()) {
                return Some(Work::Check);
            }
            #[cfg(test)]
            if std::mem::take(&mut waiting.panics) {
                return Some(Work::Panic);
            }
            if let Some(asks) = waiting.asks() {
                return Some(Work::Draft(asks));
            }
            waiting.together.retain(|together| together.is_wanted());
            if let Some(together) = waiting.together.pop_front() {
                return Some(Work::Together(together));
            }
            match waiting.forms.pop_front() {
                Some(form) if form.is_wanted() => return Some(Work::Form(form)),
                Some(_unwanted) => {}
                None => {
                    waiting = match left {
                        None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                        Some(left) => {
                            let waited = self.changed.wait_timeout(waiting, left);
                            waited.unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                }
            }
        }
    }

    /// Takes waiting questions about one memory.
    pub(super) fn asks(&self) -> Option<Vec<Ask>> {
        self.lock().asks()
    }

    /// Has the thread look if a check of its device is due.
    pub(super) fn look(&self) {
        self.lock().looks = true;
        self.wake();
    }

    /// Wakes the thread, so that it checks whether it is stopped.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Drops all waiting work and ends the thread.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.asks.clear();
        waiting.forms.clear();
        waiting.together.clear();
        drop(waiting);
        self.wake();
    }

    /// Makes the thread panic.
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
    /// Takes the question that waits longest, with others about the same memory.
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

    fn form(gate: &Gate) -> (Form, oneshot::Receiver<Result<MemorySnapshot, Error>>) {
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
            order.push(match queue.next(None, &|| false).unwrap() {
                Work::Draft(asks) => asks.into_iter().map(|ask| ask.draft.question).collect(),
                Work::Form(_) => vec!["text".to_owned()],
                Work::Together(_) | Work::Check | Work::Panic => Vec::new(),
            });
        }
        assert_eq!(order, [vec!["1", "3"], vec!["2"], vec!["text"]]);
        assert_eq!(gate.in_use(), 0, "every permit came back");
        assert!(queue.asks().is_none());
        let soon = Instant::now() + Duration::from_millis(5);
        assert!(matches!(queue.next(Some(soon), &|| false), Some(Work::Check)));
        queue.look();
        assert!(matches!(queue.next(None, &|| false), Some(Work::Check)));
        queue.close();
        assert!(queue.next(None, &|| false).is_none());
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
