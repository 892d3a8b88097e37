//! Trustworthiness of a lease over time. Pure functions: time is an argument.

use std::time::{Duration, Instant};

/// The standing of a lease at the moment of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Redis confirmed the lease within the last two thirds of its time to live, so no other node
    /// was given the shard. (If Redis was emptied, it may still have given the shard to another
    /// node. The fence of the shard's tables protects against that.)
    Held,
    /// Redis does not answer, or it had lost the lease and gave it anew, see [`Lapse`]. Another
    /// node may have the shard or may have had it: ask the storage before reading.
    Unconfirmed,
    /// Another node has the shard, or the lease was given back. This is final.
    Lost,
}

/// A period in which another node may have had the shard unnoticed. Redis had lost the lease,
/// because it was emptied or because this node was away for longer than the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lapse(u64);

/// The answer of Redis to the renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Redis still had the lease.
    Renewed,
    /// Redis had lost the lease and gave it anew.
    TakenAnew,
    /// Another node has the lease.
    Anothers,
}

/// Returns the part of a time to live for which a confirmation is trusted. The rest allows for
/// clocks of different speed and for the time to act.
fn trusted_part(time_to_live: Duration) -> Duration {
    time_to_live.saturating_mul(2) / 3
}

/// The period in which this node has a shard.
#[derive(Debug)]
pub(crate) struct Tenure {
    trusted_for: Duration,
    /// Time at which the latest request that Redis confirmed was *sent*: the time to live began
    /// after it.
    confirmed: Instant,
    lapses: u64,
    settled: u64,
    is_over: bool,
}

impl Tenure {
    /// Creates the tenure of a lease that Redis gave in reply to a request sent at `sent`.
    pub(crate) fn begun(sent: Instant, time_to_live: Duration) -> Self {
        let trusted_for = trusted_part(time_to_live);
        Self { trusted_for, confirmed: sent, lapses: 0, settled: 0, is_over: false }
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        if self.is_over {
            Standing::Lost
        } else if self.is_confirmed(now) && self.lapse().is_none() {
            Standing::Held
        } else {
            Standing::Unconfirmed
        }
    }

    /// Returns whether no other node has the shard now, whoever had it before.
    pub(crate) fn is_confirmed(&self, now: Instant) -> bool {
        !self.is_over && now.saturating_duration_since(self.confirmed) < self.trusted_for
    }

    /// Returns when the standing changes by itself, if it does.
    pub(crate) fn trusted_until(&self) -> Option<Instant> {
        self.confirmed.checked_add(self.trusted_for)
    }

    /// Records the answer of Redis to a renewal that was sent at `sent`.
    pub(crate) fn answered(&mut self, sent: Instant, renewal: Renewal) {
        match renewal {
            Renewal::Renewed => self.confirmed = self.confirmed.max(sent),
            Renewal::TakenAnew => {
                self.confirmed = self.confirmed.max(sent);
                self.lapses += 1;
            }
            Renewal::Anothers => self.end(),
        }
    }

    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    pub(crate) fn lapse(&self) -> Option<Lapse> {
        (self.lapses > self.settled).then_some(Lapse(self.lapses))
    }

    /// Records that nothing that another node wrote during `lapse` and those before it is missed.
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
        tenure.answered(start + secs(3), Renewal::Renewed);
        assert_eq!(tenure.standing(start + secs(8)), Standing::Held);
        assert_eq!(tenure.standing(start + secs(3600)), Standing::Unconfirmed);
        tenure.answered(start + secs(1), Renewal::Renewed);
        assert_eq!(tenure.standing(start + secs(8)), Standing::Held, "replies may overtake");
        assert_eq!(tenure.trusted_until(), Some(start + secs(9)));
    }

    #[test]
    fn what_was_forgotten_is_not_believed_until_it_is_settled() {
        let start = Instant::now();
        let mut tenure = Tenure::begun(start, TTL);
        tenure.answered(start, Renewal::TakenAnew);
        let first = tenure.lapse().unwrap();
        assert_eq!(tenure.standing(start), Standing::Unconfirmed);
        assert!(tenure.is_confirmed(start) && !tenure.is_confirmed(start + TTL));
        // Redis loses the lease again while the storage is asked about the first lapse.
        tenure.answered(start, Renewal::TakenAnew);
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
        tenure.answered(start, Renewal::Renewed);
        tenure.answered(start, Renewal::TakenAnew);
        assert_eq!(tenure.standing(start), Standing::Lost);
        assert!(!tenure.is_confirmed(start));
    }
}
