//! Clock that changes only when a test sets it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clew_core::{Clock, Timestamp};

/// A [`Clock`] that returns the time it was last set to. Share it by `Arc` with the code that it
/// drives.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { micros: AtomicI64::new(now.as_micros()) }
    }

    /// Sets the clock, also backwards, as happens on real machines.
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
