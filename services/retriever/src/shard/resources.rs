//! What the shards of a process share: its processors, where searches come first and background
//! work is throttled behind them, memory of searches, and the recall that is wanted.

use std::sync::Arc;
use std::time::Duration;

use clew_index::SearchMemory;
use clew_runtime::fair_queue::FairQueue;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::shard::metrics;

/// Processors and memory of one process, over all its shards. Cheap to clone; clones share the
/// state.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    /// Fair queue of shard searches.
    pub searches: FairQueue,
    /// Memory of searches.
    pub memory: Arc<SearchMemory>,
    /// Share of the nearest chunks that searches with a vector index are to find, 0 to 1.
    pub recall: f32,
    /// Turns to open a shard. Opening reads the light columns of all rows.
    openings: Arc<Semaphore>,
    behind: Arc<Semaphore>,
}

/// Number of shards that are opened at the same time.
const OPENINGS: usize = 4;
/// Idle time after which background work runs unthrottled.
const QUIET: Duration = Duration::from_secs(30);
/// Longest rest after a piece of work. A piece that took longer was waiting and not computing.
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Resources {
    pub fn new(searches: FairQueue, memory: SearchMemory, recall: f32) -> Self {
        let memory = Arc::new(memory);
        metrics::observe_memory(&memory);
        let (openings, behind) = (Arc::new(Semaphore::new(OPENINGS)), Arc::new(Semaphore::new(1)));
        Self { searches, memory, recall, openings, behind }
    }

    /// Waits for a turn to open a shard, and returns it.
    pub async fn turn_to_open(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.openings.acquire().await.ok()
    }

    /// Returns whether there was a search within the last [`QUIET`].
    pub fn are_searched(&self) -> bool {
        self.searches.was_asked_within(QUIET)
    }

    /// Runs a piece of background work. While there are searches, the process runs one such piece
    /// at a time and then rests for as long as the piece took. A computation cannot be interrupted
    /// once it has begun, so only small pieces and rests keep searches from waiting.
    pub async fn behind<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.are_searched() {
            return work.await;
        }
        // The semaphore is never closed.
        let _one = self.behind.acquire().await;
        let began = Instant::now();
        let done = work.await;
        tokio::time::sleep(began.elapsed().min(LONGEST_REST)).await;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_secs(3);

    fn resources() -> Resources {
        let searches = FairQueue::new("searches", 1, Duration::from_secs(1));
        Resources::new(searches, SearchMemory::default(), 0.99)
    }

    /// Returns how long two pieces of work take.
    async fn two(resources: &Resources, work: Duration) -> Duration {
        let began = Instant::now();
        // The piece does not start before it has its slot.
        let piece = || resources.behind(async { tokio::time::sleep(work).await });
        tokio::join!(piece(), piece());
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_searches_nothing_waits_or_rests() {
        assert_eq!(two(&resources(), WORK).await, WORK);
    }

    #[tokio::test(start_paused = true)]
    async fn beside_searches_one_piece_is_done_at_a_time_and_rests_as_long() {
        let resources = resources();
        let deadline = std::time::Instant::now() + WORK;
        drop(resources.searches.enter("somebody", deadline).await.unwrap());
        assert_eq!(two(&resources, WORK).await, 4 * WORK);
        assert_eq!(two(&resources, 9 * LONGEST_REST).await, 20 * LONGEST_REST);
    }
}
