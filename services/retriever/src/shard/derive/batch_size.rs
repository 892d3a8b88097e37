//! Size of the batches that are derived: larger while the encoder is fast.
//!
//! Each batch is a commit, which costs some syncs of the disk whatever its size. Behind a slow
//! encoder nobody notices them, and small batches make documents searchable sooner. A GPU embeds a
//! small batch in less time than they take.

use std::time::Duration;

/// Time that a batch may take from its start to its commit, about. Documents become searchable a
/// batch at a time.
const BATCH_TIME: Duration = Duration::from_millis(500);
/// Maximum bytes of text in a batch that is larger than configured. Bounds the memory of the key
/// texts and vectors, and the time for which other commits wait.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes of text in the next batch.
#[derive(Debug)]
pub(crate) struct BatchSize {
    /// The configured size.
    least: u64,
    bytes: u64,
}

impl BatchSize {
    /// Begins with the configured size, which is also the smallest.
    pub(crate) fn new(least: u64) -> Self {
        Self { least, bytes: least }
    }

    /// Returns the size of the next batch.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes note of how long a batch took. The next one is as large as would take [`BATCH_TIME`]
    /// at this rate, within the limits, and at most twice as large as this one was to be.
    pub(crate) fn derived(&mut self, bytes: u64, took: Duration) {
        let in_time = bytes as f64 * BATCH_TIME.as_secs_f64() / took.as_secs_f64().max(1e-3);
        let most = MOST_BYTES.min(2 * self.bytes).max(self.least);
        self.bytes = (in_time as u64).clamp(self.least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 192 << 10;

    #[test]
    fn batches_grow_while_they_take_little_time_and_are_small_again_when_they_take_more() {
        let mut size = BatchSize::new(LEAST);
        let mut sizes = Vec::new();
        for millis in [100, 100, 100, 100, 400, 1_000, 60_000] {
            size.derived(size.bytes(), Duration::from_millis(millis));
            sizes.push(size.bytes());
        }
        let most = MOST_BYTES;
        assert_eq!(sizes, [2 * LEAST, 4 * LEAST, most, most, most, most / 2, LEAST]);
    }

    #[test]
    fn a_batch_of_few_bytes_makes_the_next_no_smaller_than_configured() {
        let mut size = BatchSize::new(LEAST);
        size.derived(100, Duration::from_millis(50));
        assert_eq!(size.bytes(), LEAST);
        size.derived(0, Duration::ZERO);
        assert_eq!(size.bytes(), LEAST);
    }

    #[test]
    fn a_configured_size_above_the_limit_stays_as_it_is() {
        let mut size = BatchSize::new(8 << 20);
        size.derived(8 << 20, Duration::from_millis(10));
        assert_eq!(size.bytes(), 8 << 20);
    }
}
