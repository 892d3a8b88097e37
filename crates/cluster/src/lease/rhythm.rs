//! When leases are renewed. Pure functions: time is an argument.

use std::time::{Duration, Instant};

/// When a node renews its leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    interval: Duration,
    next: Instant,
}

impl Rhythm {
    pub(crate) fn new(now: Instant, interval: Duration) -> Self {
        Self { interval, next: now + interval }
    }

    /// Returns when the leases are to be renewed next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Records an attempt that began at `now`. A failed attempt is repeated soon, while the leases
    /// are still valid.
    pub(crate) fn attempted(&mut self, now: Instant, has_succeeded: bool) {
        self.next = now + if has_succeeded { self.interval } else { self.interval / 3 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_renewal_is_tried_twice_more_before_the_next_would_be_due() {
        let (start, interval) = (Instant::now(), Duration::from_secs(3));
        let mut rhythm = Rhythm::new(start, interval);
        assert_eq!(rhythm.next(), start + interval);
        rhythm.attempted(start + interval, false);
        assert_eq!(rhythm.next(), start + interval * 4 / 3);
        rhythm.attempted(start + interval * 4 / 3, true);
        assert_eq!(rhythm.next(), start + interval * 7 / 3);
    }
}
