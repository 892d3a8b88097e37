//! Scheduling of batches: batches that wait, members that have room, and the assignment of one to
//! the other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_core::{Embedding, Error, ErrorKind, Priority, TextKind};
use clew_runtime::admission::Permit;
use clew_runtime::peer::Peer;
use tokio::sync::{mpsc, oneshot, watch};

/// Batch that waits for an encoder.
#[derive(Debug)]
pub(crate) struct Job {
    pub texts: Vec<String>,
    pub kind: TextKind,
    pub priority: Priority,
    /// Approximate number of tokens.
    pub tokens: usize,
    pub deadline: Instant,
    /// Trace context of the caller.
    pub trace_parent: String,
    /// Channel for the result, closed when the caller has given up.
    pub reply: oneshot::Sender<Result<Vec<Embedding>, Error>>,
}

/// Batch assigned to a member, with the credits that it takes there.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub job: Job,
    pub _permit: Permit,
}

/// Scheduler that assigns waiting batches to members with room. The permits of callers bound the
/// number of waiting batches.
pub(crate) struct Dispatcher {
    /// Maximum number of bulk batches that a member may have. As many again are reserved for
    /// interactive ones.
    window: usize,
    state: Mutex<State>,
    ready: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    interactive: VecDeque<Job>,
    bulk: VecDeque<Job>,
    workers: Vec<Worker>,
    workers_joined: u64,
}

/// Member that takes batches.
struct Worker {
    id: u64,
    peer: Peer,
    interactive: usize,
    bulk: usize,
    jobs: mpsc::Sender<Assigned>,
}

impl Worker {
    fn has_room(&self, priority: Priority, window: usize) -> bool {
        match priority {
            Priority::Bulk => self.bulk < window,
            Priority::Interactive => self.bulk + self.interactive < 2 * window,
        }
    }

    fn count(&mut self, priority: Priority) -> &mut usize {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Bulk => &mut self.bulk,
        }
    }
}

impl Dispatcher {
    pub(crate) fn new(window: usize) -> Self {
        Self { window, state: Mutex::default(), ready: watch::Sender::new(0) }
    }

    /// Returns the maximum number of batches that a member has under way.
    pub(crate) fn max_under_way(&self) -> usize {
        2 * self.window
    }

    /// Returns a receiver that shows the number of members that take batches.
    pub(crate) fn ready(&self) -> watch::Receiver<usize> {
        self.ready.subscribe()
    }

    /// Submits a batch. A batch that is submitted again after it was lost goes first.
    pub(crate) fn submit(&self, job: Job, is_repeated: bool) {
        let mut state = self.lock();
        let queue = match job.priority {
            Priority::Interactive => &mut state.interactive,
            Priority::Bulk => &mut state.bulk,
        };
        if is_repeated {
            queue.push_front(job);
        } else {
            queue.push_back(job);
        }
        self.assign(&mut state);
    }

    /// Adds a member that takes batches from now on. Returns its number and the receiver of its
    /// batches.
    pub(crate) fn join(&self, peer: Peer) -> (u64, mpsc::Receiver<Assigned>) {
        let (jobs, assigned) = mpsc::channel(self.max_under_way());
        let mut state = self.lock();
        state.workers_joined += 1;
        let id = state.workers_joined;
        state.workers.push(Worker { id, peer, interactive: 0, bulk: 0, jobs });
        self.assign(&mut state);
        self.ready.send_replace(state.workers.len());
        (id, assigned)
    }

    /// Removes a member, which takes no more batches. When the last one leaves, waiting batches are
    /// refused: their callers know whether to wait for another member.
    pub(crate) fn leave(&self, id: u64) {
        let mut state = self.lock();
        state.workers.retain(|worker| worker.id != id);
        self.ready.send_replace(state.workers.len());
        if state.workers.is_empty() {
            let State { interactive, bulk, .. } = &mut *state;
            for job in interactive.drain(..).chain(bulk.drain(..)) {
                job.reply.send(Err(no_peer_error())).ok();
            }
        }
    }

    /// Records that a batch of a member has ended, in whatever way.
    pub(crate) fn done(&self, id: u64, priority: Priority) {
        let mut state = self.lock();
        if let Some(worker) = state.workers.iter_mut().find(|worker| worker.id == id) {
            let count = worker.count(priority);
            *count = count.saturating_sub(1);
        }
        self.assign(&mut state);
    }

    /// Assigns waiting batches to members with room, interactive ones first.
    fn assign(&self, state: &mut State) {
        let State { interactive, bulk, workers, .. } = state;
        for queue in [interactive, bulk] {
            while let Some(job) = queue.pop_front() {
                if job.reply.is_closed() {
                    continue;
                }
                if let Some(job) = give(workers, job, self.window) {
                    queue.push_front(job);
                    break;
                }
            }
        }
    }

    // No code that can panic runs under the lock, so a poisoned lock holds a valid state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives `job` to the member with room that has the fewest tokens under way. Returns the job if
/// there is none.
fn give(workers: &mut [Worker], job: Job, window: usize) -> Option<Job> {
    let mut order: Vec<usize> =
        (0..workers.len()).filter(|&i| workers[i].has_room(job.priority, window)).collect();
    order.sort_by_cached_key(|&i| (workers[i].peer.in_flight(), fastrand::u32(..)));
    let mut job = job;
    for i in order {
        let worker = &mut workers[i];
        // A member that is being lost leaves the dispatcher by itself.
        let Ok((_link, permit)) = worker.peer.try_enter(job.tokens) else { continue };
        let priority = job.priority;
        match worker.jobs.try_send(Assigned { job, _permit: permit }) {
            Ok(()) => {
                *worker.count(priority) += 1;
                return None;
            }
            Err(
                mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back),
            ) => {
                job = back.job;
            }
        }
    }
    Some(job)
}

/// Returns the error for the time in which no encoder takes work.
pub(crate) fn no_peer_error() -> Error {
    let problem = "no encoder of this model is reachable; retry";
    Error::new(ErrorKind::Unavailable, "NO_PEER", problem)
}
