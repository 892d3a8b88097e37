//! Probabilities held against what came true: calibration, ranking, and the choice of a threshold.

mod fit;
mod ranking;

pub use fit::LogitFit;
pub use ranking::{AreaUnderRoc, ChosenThreshold};
use serde::Serialize;

use crate::MetricMean;
use crate::table::{Table, interval, per_cent};

/// Number of bins of a [`Calibration`], each as wide as the others.
const BINS: usize = 10;

/// Probability of something, and whether it was so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Probability, 0 to 1.
    pub probability: f64,
    /// Whether it was so.
    pub is_so: bool,
}

/// Agreement of probabilities with what came true.
///
/// The forecasts are put into ten bins by their probability: `[0, 0.1)`, …, `[0.9, 1]`. The
/// expected calibration error is the mean over all forecasts of the difference in their bin between
/// the mean probability and the share that came true (Naeini, Cooper and Hauskrecht, "Obtaining
/// Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Number of forecasts.
    pub n: usize,
    /// Expected calibration error, 0 to 1. Lower is better.
    pub ece: f64,
    /// Mean probability.
    pub confidence: f64,
    /// Share that came true.
    pub right: MetricMean,
    /// Bins that hold a forecast, ascending.
    pub bins: Vec<CalibrationBin>,
}

/// Forecasts of similar probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Lowest probability of the bin.
    pub from: f64,
    /// End of the bin: the lowest probability of the next one, or 1.
    pub to: f64,
    /// Number of forecasts.
    pub n: usize,
    /// Mean probability.
    pub confidence: f64,
    /// Share that came true.
    pub right: MetricMean,
}

impl Calibration {
    /// Compares `forecasts` with what came true. Returns `None` if there are none.
    pub fn of(forecasts: &[Forecast]) -> Option<Self> {
        let mut binned: [Vec<Forecast>; BINS] = Default::default();
        for forecast in forecasts {
            binned[bin_of(forecast.probability)].push(*forecast);
        }
        let bins: Vec<CalibrationBin> =
            binned.iter().enumerate().filter_map(|(bin, of)| CalibrationBin::of(bin, of)).collect();
        let gap = |bin: &CalibrationBin| bin.n as f64 * (bin.confidence - bin.right.mean).abs();
        Some(Self {
            n: forecasts.len(),
            ece: bins.iter().map(gap).sum::<f64>() / forecasts.len() as f64,
            confidence: mean_probability(forecasts),
            right: share_so(forecasts)?,
            bins,
        })
    }

    /// Returns the table of calibrations by name, in per cent: the error, the means, and the share
    /// of each bin that came true with the number of forecasts below.
    pub(crate) fn table(first: &str, calibrations: &[(&str, &Self)]) -> Table {
        let header = [first, "n", "ece", "confidence", "right"].map(str::to_owned);
        let header = header.into_iter().chain(Self::bin_names()).collect();
        let mut rows: Vec<Vec<String>> = vec![header];
        for (name, calibration) in calibrations {
            let Self { n, ece, confidence, right, .. } = calibration;
            let mut means = vec![(*name).to_owned(), n.to_string()];
            means.extend([*ece, *confidence, right.mean].map(per_cent));
            let mut counts = vec![String::new(); 4];
            counts.push(interval(right.ci95));
            for bin in calibration.all_bins() {
                means.push(bin.map_or_else(String::new, |bin| per_cent(bin.right.mean)));
                counts.push(bin.map_or_else(String::new, |bin| format!("of {}", bin.n)));
            }
            rows.extend([means, counts]);
        }
        Table::of(rows)
    }

    /// Returns the names of all bins, in per cent.
    pub(crate) fn bin_names() -> impl Iterator<Item = String> {
        (0..BINS).map(|bin| format!("{}-{}", 10 * bin, 10 * (bin + 1)))
    }

    /// Returns all bins, of which some may hold nothing.
    pub(crate) fn all_bins(&self) -> impl Iterator<Item = Option<&CalibrationBin>> {
        (0..BINS).map(|bin| self.bins.iter().find(|known| bin_of(known.from) == bin))
    }
}

impl CalibrationBin {
    fn of(bin: usize, forecasts: &[Forecast]) -> Option<Self> {
        let edge = |bin: usize| bin as f64 / BINS as f64;
        Some(Self {
            from: edge(bin),
            to: edge(bin + 1),
            n: forecasts.len(),
            confidence: mean_probability(forecasts),
            right: share_so(forecasts)?,
        })
    }
}

/// Returns the bin of a probability. The last one contains 1.
fn bin_of(probability: f64) -> usize {
    ((probability * BINS as f64) as usize).min(BINS - 1)
}

fn mean_probability(forecasts: &[Forecast]) -> f64 {
    forecasts.iter().map(|forecast| forecast.probability).sum::<f64>() / forecasts.len() as f64
}

fn share_so(forecasts: &[Forecast]) -> Option<MetricMean> {
    MetricMean::share(forecasts.iter().map(|forecast| forecast.is_so))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forecasts(given: &[(f64, bool)]) -> Vec<Forecast> {
        given.iter().map(|&(probability, is_so)| Forecast { probability, is_so }).collect()
    }

    #[test]
    fn the_error_matches_a_value_computed_by_hand() {
        let given =
            [(0.0, false), (0.05, true), (0.1, false), (0.95, true), (1.0, true), (0.9, false)];
        let calibration = Calibration::of(&forecasts(&given)).unwrap();
        let bins: Vec<_> = calibration.bins.iter().map(|bin| (bin.from, bin.to, bin.n)).collect();
        assert_eq!(bins, [(0.0, 0.1, 2), (0.1, 0.2, 1), (0.9, 1.0, 3)]);
        // Gaps: 2 * |0.025 - 0.5|, 1 * |0.1 - 0| and 3 * |0.95 - 2/3|.
        let expected = (2.0 * 0.475 + 0.1 + 3.0 * (0.95 - 2.0 / 3.0)) / 6.0;
        assert!((calibration.ece - expected).abs() < 1e-12, "{calibration:?}");
        assert_eq!((calibration.n, calibration.right.mean), (6, 0.5));
        assert_eq!(Calibration::of(&[]), None);
        let all: Vec<_> = calibration.all_bins().map(|bin| bin.map_or(0, |bin| bin.n)).collect();
        assert_eq!(all, [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]);
        let names: Vec<_> = Calibration::bin_names().collect();
        assert_eq!((names.len(), &*names[0], &*names[9]), (10, "0-10", "90-100"));
    }

    #[test]
    fn every_edge_of_a_bin_belongs_to_the_bin_that_it_begins() {
        for bin in 0..BINS {
            assert_eq!(bin_of(bin as f64 / BINS as f64), bin);
        }
        assert_eq!(bin_of(1.0), BINS - 1);
    }

    proptest! {
        #[test]
        fn the_error_bounds_the_difference_of_the_means_and_is_bounded(
            given in prop::collection::vec((0.0..=1.0, any::<bool>()), 1..60),
        ) {
            let calibration = Calibration::of(&forecasts(&given)).unwrap();
            let difference = (calibration.confidence - calibration.right.mean).abs();
            // Tolerance for sums in another order.
            prop_assert!(calibration.ece >= difference - 1e-9, "{calibration:?}");
            prop_assert!(calibration.ece <= 1.0 + 1e-9);
            let n: usize = calibration.bins.iter().map(|bin| bin.n).sum();
            prop_assert_eq!(n, given.len());
            prop_assert!(calibration.bins.iter().all(|bin| bin.n > 0));
        }
    }
}
