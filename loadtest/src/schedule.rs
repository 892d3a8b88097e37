//! Schedule of requests: an open loop, which does not wait for answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Process by which requests arrive.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Independently of each other, as from many users: gaps are exponentially distributed.
    #[default]
    Poisson,
    /// At equal intervals.
    Uniform,
}

/// Times at which requests are due, from the beginning of a phase: ascending, all before its end.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    per_sec: f64,
    end_secs: f64,
    random: fastrand::Rng,
    number: u64,
    at_secs: f64,
}

impl Schedule {
    /// Creates a schedule of `per_sec` requests per second, on average, for `length`. The same seed
    /// gives the same times.
    pub fn new(arrivals: Arrivals, per_sec: f64, length: Duration, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let end_secs = length.as_secs_f64();
        Self { arrivals, per_sec, end_secs, random, number: 0, at_secs: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Written so that NaN also counts as no rate: then nothing is ever due.
        if self.per_sec.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
            return None;
        }
        match self.arrivals {
            Arrivals::Uniform => self.at_secs = self.number as f64 / self.per_sec,
            // 1 - u is never 0, so the logarithm is finite.
            Arrivals::Poisson => self.at_secs += -(1.0 - self.random.f64()).ln() / self.per_sec,
        }
        self.number += 1;
        (self.at_secs < self.end_secs).then(|| Duration::from_secs_f64(self.at_secs))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(arrivals: Arrivals, per_sec: f64, secs: u64, seed: u64) -> Vec<Duration> {
        Schedule::new(arrivals, per_sec, Duration::from_secs(secs), seed).collect()
    }

    proptest! {
        #[test]
        fn times_ascend_and_lie_within_the_phase(
            per_sec in 0.1_f64..2000.0,
            secs in 1_u64..20,
            seed: u64,
            is_uniform: bool,
        ) {
            let arrivals = if is_uniform { Arrivals::Uniform } else { Arrivals::Poisson };
            let times = times(arrivals, per_sec, secs, seed);
            prop_assert!(times.is_sorted());
            prop_assert!(times.iter().all(|time| *time < Duration::from_secs(secs)));
        }

        #[test]
        fn as_many_are_due_as_the_rate_says(per_sec in 1_f64..2000.0, secs in 1_u64..20, seed: u64) {
            let expected = per_sec * secs as f64;
            let uniform = times(Arrivals::Uniform, per_sec, secs, seed).len() as f64;
            prop_assert!((uniform - expected).abs() <= 1.0, "{} of {}", uniform, expected);
            // The number of arrivals of a Poisson process has a standard deviation of the square
            // root of its mean. It deviates by more than seven of them once in 10^11 cases. A mean
            // of 1 has a longer tail, hence the 5.
            let poisson = times(Arrivals::Poisson, per_sec, secs, seed).len() as f64;
            let bound = 7.0 * expected.sqrt() + 5.0;
            prop_assert!((poisson - expected).abs() <= bound, "{} of {}", poisson, expected);
        }

        #[test]
        fn a_seed_decides(per_sec in 50_f64..500.0, seed: u64) {
            let of = |seed| times(Arrivals::Poisson, per_sec, 2, seed);
            prop_assert_eq!(of(seed), of(seed));
            prop_assert_ne!(of(seed), of(seed.wrapping_add(1)));
        }
    }

    #[test]
    fn gaps_of_independent_arrivals_vary_as_much_as_they_last() {
        let times = times(Arrivals::Poisson, 500.0, 40, 7);
        let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        let gaps: Vec<f64> = gaps.collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Mean and standard deviation of an exponential distribution are equal.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{} to {mean}", variance.sqrt());
    }

    #[test]
    fn no_rate_means_that_nothing_is_due() {
        for rate in [0.0, -1.0, f64::NAN] {
            assert!(times(Arrivals::Poisson, rate, 5, 1).is_empty());
        }
    }
}
