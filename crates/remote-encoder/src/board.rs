//! The board: batches that wait, members that have room, and who gets which.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_core::{Embedding, Error, ErrorKind, Priority, TextKind};
use clew_runtime::admission::Permit;
use clew_runtime::peer::Peer;
use tokio::sync::{mpsc, oneshot, watch};

/// A batch that waits for an encoder.
#[derive(Debug)]
pub(crate) struct Job {
    pub texts: Vec<String>,
    pub kind: TextKind,
    pub priority: Priority,
    /// About how many tokens it has.
    pub tokens: usize,
    pub deadline: Instant,
    /// The trace of whoever waits.
    pub trace_parent: String,
    /// Where the result goes; closed when the caller gave up.
    pub reply: oneshot::Sender<Result<Vec<Embedding>, Error>>,
}

/// A batch given to a member, with the credits it takes there.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub job: Job,
    pub _permit: Permit,
}

/// Who waits and who has room. The number of waiting batches is bounded by their callers' permits.
pub(crate) struct Board {
    /// Batches of bulk work that a member may have; as many again are kept for people.
    window: usize,
    state: Mutex<State>,
    seated: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    interactive: VecDeque<Job>,
    bulk: VecDeque<Job>,
    seats: Vec<Seat>,
    seats_given: u64,
}

/// A member that takes batches.
struct Seat {
    id: u64,
    peer: Peer,
    interactive: usize,
    bulk: usize,
    jobs: mpsc::Sender<Assigned>,
}

impl Seat {
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

impl Board {
    pub(crate) fn new(window: usize) -> Self {
        Self { window, state: Mutex::default(), seated: watch::Sender::new(0) }
    }

    /// Most batches a member has under way.
    pub(crate) fn most_under_way(&self) -> usize {
        2 * self.window
    }

    /// Where the number of members that take batches is seen.
    pub(crate) fn seated(&self) -> watch::Receiver<usize> {
        self.seated.subscribe()
    }

    /// Hands in a batch; one that is handed in again after it was lost goes first.
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

    /// A member takes batches from now on: its number, and where its batches come from.
    pub(crate) fn join(&self, peer: Peer) -> (u64, mpsc::Receiver<Assigned>) {
        let (jobs, assigned) = mpsc::channel(self.most_under_way());
        let mut state = self.lock();
        state.seats_given += 1;
        let id = state.seats_given;
        state.seats.push(Seat { id, peer, interactive: 0, bulk: 0, jobs });
        self.assign(&mut state);
        self.seated.send_replace(state.seats.len());
        (id, assigned)
    }

    /// A member takes no more batches. With the last one, those that wait are refused: their callers
    /// know whether to wait for another.
    pub(crate) fn leave(&self, id: u64) {
        let mut state = self.lock();
        state.seats.retain(|seat| seat.id != id);
        self.seated.send_replace(state.seats.len());
        if state.seats.is_empty() {
            let State { interactive, bulk, .. } = &mut *state;
            for job in interactive.drain(..).chain(bulk.drain(..)) {
                job.reply.send(Err(nobody())).ok();
            }
        }
    }

    /// A batch of that member is done with, however it ended.
    pub(crate) fn done(&self, id: u64, priority: Priority) {
        let mut state = self.lock();
        if let Some(seat) = state.seats.iter_mut().find(|seat| seat.id == id) {
            let count = seat.count(priority);
            *count = count.saturating_sub(1);
        }
        self.assign(&mut state);
    }

    /// Gives waiting batches to members with room, those of people first.
    fn assign(&self, state: &mut State) {
        let State { interactive, bulk, seats, .. } = state;
        for queue in [interactive, bulk] {
            while let Some(job) = queue.pop_front() {
                if job.reply.is_closed() {
                    continue;
                }
                if let Some(job) = give(seats, job, self.window) {
                    queue.push_front(job);
                    break;
                }
            }
        }
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid board.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives `job` to the member with the fewest tokens under way that has room, or gives it back.
fn give(seats: &mut [Seat], job: Job, window: usize) -> Option<Job> {
    let mut order: Vec<usize> =
        (0..seats.len()).filter(|&i| seats[i].has_room(job.priority, window)).collect();
    order.sort_by_cached_key(|&i| (seats[i].peer.in_flight(), fastrand::u32(..)));
    let mut job = job;
    for i in order {
        let seat = &mut seats[i];
        // A member that is just being lost leaves the board by itself.
        let Ok((_link, permit)) = seat.peer.try_enter(job.tokens) else { continue };
        let priority = job.priority;
        match seat.jobs.try_send(Assigned { job, _permit: permit }) {
            Ok(()) => {
                *seat.count(priority) += 1;
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

/// The error while no encoder takes work.
pub(crate) fn nobody() -> Error {
    let problem = "no encoder of this model is reachable; retry";
    Error::new(ErrorKind::Unavailable, "NO_PEER", problem)
}
