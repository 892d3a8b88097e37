//! Means with their intervals, and times by their quantiles.

use serde::Serialize;

use crate::bootstrap::intervals_95;
use crate::report::BOOTSTRAP_SEED;

/// Mean of a metric or a cost, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MetricMean {
    /// Number of questions, or of pairs.
    pub n: usize,
    /// Mean; of a metric, from 0 to 1.
    pub mean: f64,
    /// Lower and upper end of the 95 % interval (percentile bootstrap).
    pub ci95: [f64; 2],
}

impl MetricMean {
    /// Computes the mean of `scores`. Returns `None` if there are none.
    pub(crate) fn of(scores: &[f64]) -> Option<Self> {
        let rows: Vec<_> = scores.iter().map(|&score| vec![score]).collect();
        let ci95 = *intervals_95(&rows, BOOTSTRAP_SEED).first()?;
        Some(Self { n: scores.len(), mean: scores.iter().sum::<f64>() / scores.len() as f64, ci95 })
    }

    /// Computes the share of `claims` that hold. Returns `None` if there are none.
    pub(crate) fn share(claims: impl IntoIterator<Item = bool>) -> Option<Self> {
        let scores: Vec<f64> = claims.into_iter().map(|is| f64::from(u8::from(is))).collect();
        Self::of(&scores)
    }
}

/// Quantiles of the time that a question takes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AnswerLatency {
    /// Time within which half of the questions were done.
    pub median: f64,
    /// Time within which 95 % of the questions were done.
    pub p95: f64,
}

impl AnswerLatency {
    /// Computes the quantiles of `seconds` by nearest ranks. Returns `None` if there are none.
    pub(crate) fn of(seconds: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut seconds: Vec<f64> = seconds.into_iter().collect();
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * seconds.len() as f64).ceil() as usize;
            seconds.get(rank.saturating_sub(1)).copied()
        };
        Some(Self { median: at(0.5)?, p95: at(0.95)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_quantiles_match_values_computed_by_hand() {
        let share = MetricMean::share([true, false, true, true]).unwrap();
        assert_eq!((share.n, share.mean), (4, 0.75));
        assert!(share.ci95[0] <= 0.75 && share.ci95[1] >= 0.75);
        assert_eq!(MetricMean::of(&[]), None);
        let latency = |seconds: &[f64]| AnswerLatency::of(seconds.iter().copied());
        assert_eq!(latency(&[]), None);
        assert_eq!(latency(&[3.0]), Some(AnswerLatency { median: 3.0, p95: 3.0 }));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(latency(&hundred), Some(AnswerLatency { median: 50.0, p95: 95.0 }));
    }
}
