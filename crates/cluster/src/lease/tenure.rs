//! What may be believed of a lease. Pure: time is an argument.

use std::time::{Duration, Instant};

/// What a lease is worth at the moment it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Redis confirmed it within the last two thirds of its time to live: nobody else was given the
    /// shard. (Redis may be emptied and give it to another all the same, which the fence of the shard's
    /// tables survives.)
    Held,
    /// Redis does not answer, or it had forgotten the lease and gave it anew, see [`Lapse`]. Another may
    /// have or have had the shard: ask the storage before reading.
    Unconfirmed,
    /// Another has the shard, or it was given back. It stays so.
    Lost,
}

/// A time in which another may have had the shard without our knowing: Redis had forgotten the lease,
/// because it was emptied or because we were away for longer than the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lapse(u64);

/// Of a lease's time to live, the part for which a confirmation is believed: the rest is for clocks that
/// run at different speeds, and for acting on what was believed.
fn trusted_part(time_to_live: Duration) -> Duration {
    time_to_live.saturating_mul(2) / 3
}

/// The time in which a shard is ours.
#[derive(Debug)]
pub(crate) struct Tenure {
    trusted_for: Duration,
    /// When the latest request was *sent* that Redis confirmed: the time to live began after it.
    confirmed: Instant,
    lapses: u64,
    settled: u64,
    is_over: bool,
}

impl Tenure {
    /// Redis gave the shard in reply to a request of `sent`.
    pub(crate) fn begun(sent: Instant, time_to_live: Duration) -> Self {
        let trusted_for = trusted_part(time_to_live);
        Self { trusted_for, confirmed: sent, lapses: 0, settled: 0, is_over: false }
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let is_fresh = now.saturating_duration_since(self.confirmed) < self.trusted_for;
        if self.is_over {
            Standing::Lost
        } else if is_fresh && self.lapse().is_none() {
            Standing::Held
        } else {
            Standing::Unconfirmed
        }
    }

    /// When the standing changes by itself, if it does.
    pub(crate) fn trusted_until(&self) -> Option<Instant> {
        self.confirmed.checked_add(self.trusted_for)
    }

    /// Redis still had the lease and renewed it.
    pub(crate) fn renewed(&mut self, sent: Instant) {
        self.confirmed = self.confirmed.max(sent);
    }

    /// Redis had forgotten the lease and gave it anew.
    pub(crate) fn taken_anew(&mut self, sent: Instant) {
        self.renewed(sent);
        self.lapses += 1;
    }

    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    pub(crate) fn lapse(&self) -> Option<Lapse> {
        (self.lapses > self.settled).then_some(Lapse(self.lapses))
    }

    /// Nobody had the shard during `lapse` and those before it.
    pub(crate) fn settle(&mut self, Lapse(lapse): Lapse) {
        self.settled = self.settled.max(lapse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(9);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn it_is_believed_for_two_thirds_of_the_time_to_live() {
        let start = Instant::now();
        let mut tenure = Tenure::begun(start, TTL);
        assert_eq!(tenure.standing(start + secs(5)), Standing::Held);
        assert_eq!(tenure.standing(start + secs(6)), Standing::Unconfirmed);
        // A reply counts from when its request was sent, however late it is read.
        tenure.renewed(start + secs(3));
        assert_eq!(tenure.standing(start + secs(8)), Standing::Held);
        assert_eq!(tenure.standing(start + secs(3600)), Standing::Unconfirmed);
        tenure.renewed(start + secs(1));
        assert_eq!(tenure.standing(start + secs(8)), Standing::Held, "replies may overtake");
        assert_eq!(tenure.trusted_until(), Some(start + secs(9)));
    }

    #[test]
    fn what_was_forgotten_is_not_believed_until_it_is_settled() {
        let start = Instant::now();
        let mut tenure = Tenure::begun(start, TTL);
        tenure.taken_anew(start);
        let first = tenure.lapse().unwrap();
        assert_eq!(tenure.standing(start), Standing::Unconfirmed);
        // Forgotten again while the storage was asked about the first time.
        tenure.taken_anew(start);
        tenure.settle(first);
        assert_eq!(tenure.standing(start), Standing::Unconfirmed);
        tenure.settle(tenure.lapse().unwrap());
        assert_eq!(tenure.standing(start), Standing::Held);
        assert_eq!(tenure.lapse(), None);
    }

    #[test]
    fn the_end_is_final() {
        let start = Instant::now();
        let mut tenure = Tenure::begun(start, TTL);
        tenure.end();
        tenure.renewed(start);
        tenure.taken_anew(start);
        assert_eq!(tenure.standing(start), Standing::Lost);
    }
}
