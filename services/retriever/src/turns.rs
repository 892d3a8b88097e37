//! Who has the machine when: searches by turns, and behind them what nobody waits for.

use std::sync::Arc;
use std::time::Duration;

use clew_runtime::turns::Turnstile;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The turns of one process, over all its shards. Cheap to clone; clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// Of searches of a shard.
    pub searches: Turnstile,
    behind: Arc<Semaphore>,
}

/// How long after the last search nobody is taken to be searching.
const QUIET: Duration = Duration::from_secs(30);
/// The longest rest: a piece of work that took longer waited, and did not compute.
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Turns {
    pub fn new(searches: Turnstile) -> Self {
        Self { searches, behind: Arc::new(Semaphore::new(1)) }
    }

    /// Whether somebody searches in these times.
    pub fn are_searched(&self) -> bool {
        self.searches.was_asked_within(QUIET)
    }

    /// Does a piece of work that nobody waits for. While somebody searches, one piece of the process is done at a time,
    /// and after it comes a rest for as long as it took: a computation that has begun cannot be interrupted, so that
    /// only its size and what lies between keep a search from waiting.
    pub async fn behind<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.are_searched() {
            return work.await;
        }
        // It is never closed.
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

    fn turns() -> Turns {
        Turns::new(Turnstile::new("searches", 1, Duration::from_secs(1)))
    }

    /// How long two pieces of work take.
    async fn two(turns: &Turns, work: Duration) -> Duration {
        let began = Instant::now();
        // Not begun before it has its turn.
        let piece = || turns.behind(async { tokio::time::sleep(work).await });
        tokio::join!(piece(), piece());
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_searches_nothing_waits_or_rests() {
        assert_eq!(two(&turns(), WORK).await, WORK);
    }

    #[tokio::test(start_paused = true)]
    async fn beside_searches_one_piece_is_done_at_a_time_and_rests_as_long() {
        let turns = turns();
        let deadline = std::time::Instant::now() + WORK;
        drop(turns.searches.enter("somebody", deadline).await.unwrap());
        assert_eq!(two(&turns, WORK).await, 4 * WORK);
        assert_eq!(two(&turns, 9 * LONGEST_REST).await, 20 * LONGEST_REST);
    }
}
