//! A clock that stands still until it is moved.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clew_core::{Clock, Timestamp};

/// A [`Clock`] that tells the time it was last given. Share it by `Arc` with what it drives.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { micros: AtomicI64::new(now.as_micros()) }
    }

    /// Sets the clock, also backwards, as machines' clocks do.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        self.micros.update(Ordering::SeqCst, Ordering::SeqCst, |micros| {
            Timestamp::from_micros(micros).saturating_add(duration).as_micros()
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_until_it_is_moved() {
        let clock = ManualClock::new(Timestamp::from_micros(5));
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_micros(3));
        assert_eq!(clock.now(), Timestamp::from_micros(8));
        clock.set(Timestamp::from_micros(1));
        assert_eq!(clock.now(), Timestamp::from_micros(1));
    }
}
