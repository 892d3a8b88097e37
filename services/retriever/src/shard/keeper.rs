//! The keeper of a process: decides which of its shards are open.
//!
//! A shard opens when somebody needs it. The keeper lets it rest once nobody has needed it for a
//! while, and sooner if the open shards take more memory than they may. It also opens shards that
//! nobody asks for: those that this process has not looked into yet, since something may be left to
//! do in them, and those in which something is due at a time.

use std::time::{Duration, Instant};

use clew_core::{Clock, Error};
use tokio::task::JoinSet;

use crate::RetrieverConfig;
use crate::shard::ShardHandle;

/// Number of shards that are opened at the same time although nobody asks for them.
const LOOKS: usize = 2;
/// Time for which a shard stays open after its last use, however little memory there is. Opening
/// one takes about as long.
const LEAST_OPEN: Duration = Duration::from_secs(1);
/// Bound against hung storage, not an estimate.
const LOOK_PATIENCE: Duration = Duration::from_secs(300);

/// Keeper of the shards of a process.
#[derive(Debug)]
pub(crate) struct Keeper {
    rest_after: Duration,
    memory_bytes: u64,
    looks: JoinSet<()>,
}

impl Keeper {
    pub fn new(config: &RetrieverConfig) -> Self {
        let (rest_after, memory_bytes) = (config.rest_after(), config.table_memory_bytes);
        Self { rest_after, memory_bytes, looks: JoinSet::new() }
    }

    /// Opens shards that must be open, and lets those rest that need not. Takes as long as there
    /// are shards, and waits for none of them.
    pub fn tend<'a>(&mut self, shards: impl Iterator<Item = &'a ShardHandle>, clock: &dyn Clock) {
        while self.looks.try_join_next().is_some() {}
        let now = clock.now();
        let mut open = Vec::new();
        for shard in shards {
            if let Some(bytes) = shard.memory_bytes() {
                open.push((shard.supervised.unneeded_for(), bytes, shard));
            } else if self.looks.len() < LOOKS && shard.is_resting() && shard.resting.must_open(now)
            {
                let shard = shard.clone();
                self.looks.spawn(async move { shard.look(Instant::now() + LOOK_PATIENCE).await });
            }
        }
        let used = open.iter().map(|(unneeded, bytes, _)| (*unneeded, *bytes)).collect::<Vec<_>>();
        for place in to_rest(&used, self.rest_after, self.memory_bytes) {
            open[place].2.supervised.rest();
        }
    }
}

/// Returns the places of the shards that are to rest, of all open ones: for how long nobody has
/// needed each, and its memory.
fn to_rest(open: &[(Option<Duration>, u64)], after: Duration, memory_bytes: u64) -> Vec<usize> {
    let mut taken: u64 = open.iter().map(|(_, bytes)| bytes).sum();
    let idle = |place: &usize| open[*place].0.unwrap_or_default();
    let mut unneeded: Vec<usize> =
        (0..open.len()).filter(|place| open[*place].0.is_some()).collect();
    unneeded.sort_by_key(|place| std::cmp::Reverse(idle(place)));
    let rests = unneeded.into_iter().take_while(|place| {
        let is_over = taken > memory_bytes && idle(place) >= LEAST_OPEN;
        taken = taken.saturating_sub(open[*place].1);
        is_over || idle(place) >= after
    });
    rests.collect()
}

impl ShardHandle {
    /// Opens the shard, which does what is left to do in it, and waits until it is open. It rests
    /// afterwards, unless somebody else needs it.
    async fn look(&self, deadline: Instant) {
        let _needed = self.supervised.look();
        if let Err(error) = self.started(deadline).await {
            let (corpus, shard, error) = (&self.corpus, self.shard, Error::chain(&error));
            tracing::warn!(%corpus, %shard, error, "the shard was not opened; tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Option<Duration> {
        Some(Duration::from_secs(secs))
    }

    #[test]
    fn what_nobody_needs_for_long_rests_and_under_pressure_what_was_needed_last_rests_last() {
        let after = Duration::from_secs(600);
        let open =
            [(secs(5), 10), (None, 10), (secs(700), 10), (secs(90), 10), (Some(Duration::MAX), 10)];
        assert_eq!(to_rest(&open, after, 100), [4, 2]);
        assert_eq!(to_rest(&open, after, 30), [4, 2], "room for the rest");
        assert_eq!(to_rest(&open, after, 20), [4, 2, 3]);
        assert_eq!(to_rest(&open, after, 0), [4, 2, 3, 0], "somebody needs the other");
        let just_used = [(secs(0), 10), (secs(1), 10)];
        assert_eq!(to_rest(&just_used, after, 0), [1]);
        assert_eq!(to_rest(&[], after, 0), Vec::<usize>::new());
    }
}
