//! Exponential back-off with jitter, so that tasks that failed together do not retry together.

use std::time::Duration;

/// Delays between attempts. Before jitter, each is twice the last; jitter takes away up to half of
/// it.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates delays that grow from `base`, before jitter, up to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: 0 }
    }

    /// Returns the delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let delay = Self::delay_after(self.base, self.max, self.failures);
        self.failures = self.failures.saturating_add(1);
        delay.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Forgets the failures, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the delay, without jitter, after `failures` earlier failures.
    pub fn delay_after(base: Duration, max: Duration, failures: u32) -> Duration {
        base.saturating_mul(1u32 << failures.min(20)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_bound_and_start_over_after_a_success() {
        let (base, max) = (Duration::from_millis(100), Duration::from_secs(5));
        let mut backoff = Backoff::new(base, max);
        for failures in 0..40 {
            let delay = backoff.next_delay();
            let whole = Backoff::delay_after(base, max, failures);
            assert!(whole / 2 <= delay && delay <= whole, "{failures}: {delay:?}");
            assert!(delay <= max);
        }
        backoff.reset();
        assert!(backoff.next_delay() <= base);
    }
}
