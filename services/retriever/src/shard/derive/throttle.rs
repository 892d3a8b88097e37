//! CPU scheduling: searches first, background work throttled behind them.

use std::sync::Arc;
use std::time::Duration;

use clew_runtime::fair_queue::FairQueue;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// CPU scheduling of one process, over all its shards. Cheap to clone; clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct CpuSchedule {
    /// Fair queue of shard searches.
    pub searches: FairQueue,
    behind: Arc<Semaphore>,
}

/// Idle time after which background work runs unthrottled.
const QUIET: Duration = Duration::from_secs(30);
/// Longest rest after a piece of work. A piece that took longer was waiting and not computing.
const LONGEST_REST: Duration = Duration::from_secs(10);

impl CpuSchedule {
    pub fn new(searches: FairQueue) -> Self {
        Self { searches, behind: Arc::new(Semaphore::new(1)) }
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

    fn schedule() -> CpuSchedule {
        CpuSchedule::new(FairQueue::new("searches", 1, Duration::from_secs(1)))
    }

    /// Returns how long two pieces of work take.
    async fn two(schedule: &CpuSchedule, work: Duration) -> Duration {
        let began = Instant::now();
        // The piece does not start before it has its slot.
        let piece = || schedule.behind(async { tokio::time::sleep(work).await });
        tokio::join!(piece(), piece());
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_searches_nothing_waits_or_rests() {
        assert_eq!(two(&schedule(), WORK).await, WORK);
    }

    #[tokio::test(start_paused = true)]
    async fn beside_searches_one_piece_is_done_at_a_time_and_rests_as_long() {
        let schedule = schedule();
        let deadline = std::time::Instant::now() + WORK;
        drop(schedule.searches.enter("somebody", deadline).await.unwrap());
        assert_eq!(two(&schedule, WORK).await, 4 * WORK);
        assert_eq!(two(&schedule, 9 * LONGEST_REST).await, 20 * LONGEST_REST);
    }
}
