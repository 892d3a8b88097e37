//! The single task that renews and gives back all leases of a process.
//!
//! There is only one such task, so that a renewal can never overtake a give-back and re-create a
//! lease that no node has.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clew_core::Error;

use super::lease_key;
use super::registry::{Registry, Slot};
use super::rhythm::Rhythm;
use super::tenure::{Renewal, Standing};
use crate::connection::Redis;
use crate::membership::millis;

/// KEYS: leases. ARGV: time to live in ms, then the token of each lease. Returns for each lease: 1
/// if it was renewed, 2 if it was absent and taken anew, 0 if another node has it.
const RENEW: &str = r"
local results = {}
for i, key in ipairs(KEYS) do
    local held = redis.call('GET', key)
    if held and held ~= ARGV[i + 1] then
        results[i] = 0
    else
        redis.call('SET', key, ARGV[i + 1], 'PX', ARGV[1])
        results[i] = held and 1 or 2
    end
end
return results
";

/// KEYS: leases. ARGV: the token of each. Deletes those that still hold their token.
const GIVE_BACK: &str = r"
for i, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[i] then
        redis.call('DEL', key)
    end
end
return #KEYS
";

/// Number of leases in one script. All leases of a node go into one pipeline, but no single script
/// blocks Redis for long.
const CHUNK: usize = 128;

pub(super) struct Keeper {
    pub(super) redis: Arc<Redis>,
    pub(super) registry: Arc<Registry>,
    pub(super) time_to_live: Duration,
    pub(super) interval: Duration,
}

impl Keeper {
    pub(super) async fn run(self) {
        let mut is_reached = true;
        let mut rhythm = Rhythm::new(Instant::now(), self.interval);
        loop {
            let next = rhythm.next();
            let wake = self.next_change().map_or(next, |change| change.min(next));
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                () = self.registry.work.notified() => {}
            }
            self.publish();
            let returned = self.give_back().await;
            let is_awaited = self.registry.is_awaited.swap(false, Ordering::AcqRel);
            let now = Instant::now();
            if now < next && !is_awaited {
                continue;
            }
            let renewed = self.renew().await.and(returned);
            self.publish();
            rhythm.attempted(now, renewed.is_ok());
            match &renewed {
                Err(error) if is_reached => {
                    tracing::warn!(error = error.chain(), "leases could not be renewed");
                }
                Ok(()) if !is_reached => tracing::info!("leases are renewed again"),
                Ok(()) | Err(_) => {}
            }
            is_reached = renewed.is_ok();
        }
    }

    /// Returns the earliest time at which one of the leases ceases to be [`Standing::Held`] by
    /// itself.
    fn next_change(&self) -> Option<Instant> {
        let is_believed = |slot: &Arc<Slot>| *slot.published.borrow() == Standing::Held;
        let held = self.registry.held().into_iter().filter(is_believed);
        held.filter_map(|slot| slot.with_tenure(|tenure| tenure.trusted_until())).min()
    }

    fn publish(&self) {
        let now = Instant::now();
        for slot in self.registry.held() {
            slot.publish(now);
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        let slots = self.registry.held();
        if slots.is_empty() {
            return Ok(());
        }
        let mut renewals = redis::pipe();
        for slots in slots.chunks(CHUNK) {
            self.command(&mut renewals, RENEW, slots, Some(self.time_to_live));
        }
        let sent = Instant::now();
        let results: Vec<Vec<u64>> = self.redis.query("renewing leases", &renewals).await?;
        for (slot, result) in slots.iter().zip(results.into_iter().flatten()) {
            let renewal = match result {
                1 => Renewal::Renewed,
                2 => Renewal::TakenAnew,
                _ => Renewal::Anothers,
            };
            slot.with_tenure(|tenure| tenure.answered(sent, renewal));
            match renewal {
                Renewal::Renewed => {}
                Renewal::TakenAnew => {
                    tracing::warn!(shard = %slot.shard, "Redis had forgotten a lease; taken anew");
                }
                Renewal::Anothers => {
                    tracing::warn!(shard = %slot.shard, "another node has the lease");
                    self.registry.lose(slot);
                }
            }
            slot.answer(sent);
        }
        Ok(())
    }

    async fn give_back(&self) -> Result<(), Error> {
        let (mut slots, now) = (Vec::new(), Instant::now());
        for (since, slot) in self.registry.returning() {
            if now.saturating_duration_since(since) < self.time_to_live {
                slots.push(slot);
            } else {
                self.registry.returned(&slot);
            }
        }
        if slots.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for slots in slots.chunks(CHUNK) {
            self.command(&mut commands, GIVE_BACK, slots, None);
        }
        let _counts: Vec<u64> = self.redis.query("giving leases back", &commands).await?;
        for slot in &slots {
            self.registry.returned(slot);
        }
        Ok(())
    }

    fn command(
        &self,
        pipeline: &mut redis::Pipeline,
        script: &str,
        slots: &[Arc<Slot>],
        first: Option<Duration>,
    ) {
        pipeline.cmd("EVAL").arg(script).arg(slots.len());
        for slot in slots {
            pipeline.arg(lease_key(&self.redis, &slot.shard));
        }
        if let Some(duration) = first {
            pipeline.arg(millis(duration));
        }
        for slot in slots {
            pipeline.arg(&slot.token);
        }
    }
}
