//! What probabilities tell by their order alone.

use serde::Serialize;

use super::Forecast;
use crate::bootstrap::interval_95_of;
use crate::report::BOOTSTRAP_SEED;

/// Area under the receiver operating characteristic: the probability that of two forecasts, one of
/// which came true, that one has the higher probability; equal ones count half (Fawcett, "An
/// Introduction to ROC Analysis", 2006, section 7). 0.5 is chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AreaUnderRoc {
    /// The area, 0 to 1.
    pub area: f64,
    /// Lower and upper end of its 95 % interval (percentile bootstrap).
    pub ci95: [f64; 2],
}

impl AreaUnderRoc {
    /// Computes the area. Returns `None` unless some forecasts came true and others did not.
    pub fn of(forecasts: &[Forecast]) -> Option<Self> {
        let ascending = ascending(forecasts);
        let area = area(&ascending, &vec![1; ascending.len()])?;
        let ci95 =
            interval_95_of(ascending.len(), BOOTSTRAP_SEED, |drawn| self::area(&ascending, drawn))?;
        Some(Self { area, ci95 })
    }
}

/// Threshold above which a stated share of forecasts comes true.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChosenThreshold {
    /// Threshold: forecasts of at least this probability are acted on.
    pub threshold: f64,
    /// Share of them that came true.
    pub precision: f64,
    /// Share of all forecasts that they are.
    pub acted_on: f64,
}

impl ChosenThreshold {
    /// Returns the lowest of the forecasts' probabilities such that of the forecasts that are as
    /// high or higher, a share of at least `precision` came true. Returns `None` if there is none.
    pub fn for_precision(forecasts: &[Forecast], precision: f64) -> Option<Self> {
        let mut ascending = ascending(forecasts);
        let (all, mut so) = (ascending.len() as f64, 0);
        let (mut n, mut chosen) = (0, None);
        while let Some(forecast) = ascending.pop() {
            n += 1;
            so += usize::from(forecast.is_so);
            // A threshold cannot part equal forecasts.
            let is_last =
                ascending.last().is_none_or(|next| next.probability < forecast.probability);
            let reached = so as f64 / f64::from(n);
            if is_last && reached >= precision {
                let (threshold, acted_on) = (forecast.probability, f64::from(n) / all);
                chosen = Some(Self { threshold, precision: reached, acted_on });
            }
        }
        chosen
    }
}

fn ascending(forecasts: &[Forecast]) -> Vec<Forecast> {
    let mut ascending = forecasts.to_vec();
    ascending.sort_by(|one, other| one.probability.total_cmp(&other.probability));
    ascending
}

/// Returns the area of forecasts in ascending order, each of which counts as often as it was drawn.
fn area(ascending: &[Forecast], drawn: &[u32]) -> Option<f64> {
    let (mut area, mut so, mut not_so) = (0.0, 0.0, 0.0);
    let mut drawn = drawn.iter().copied().map(f64::from);
    for equal in ascending.chunk_by(|one, other| one.probability == other.probability) {
        let (mut so_here, mut not_so_here) = (0.0, 0.0);
        for (forecast, drawn) in equal.iter().zip(&mut drawn) {
            *if forecast.is_so { &mut so_here } else { &mut not_so_here } += drawn;
        }
        area += so_here * (not_so + not_so_here / 2.0);
        so += so_here;
        not_so += not_so_here;
    }
    (so > 0.0 && not_so > 0.0).then(|| area / (so * not_so))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forecasts(given: &[(f64, bool)]) -> Vec<Forecast> {
        given.iter().map(|&(probability, is_so)| Forecast { probability, is_so }).collect()
    }

    fn check(given: &[(f64, bool)], expected: Option<f64>) {
        assert_eq!(AreaUnderRoc::of(&forecasts(given)).map(|of| of.area), expected, "{given:?}");
    }

    #[test]
    fn areas_match_values_computed_by_hand() {
        check(&[(0.9, true), (0.1, false)], Some(1.0));
        check(&[(0.1, true), (0.9, false)], Some(0.0));
        check(&[(0.5, true), (0.5, false), (0.5, false)], Some(0.5));
        // Of four pairs, one is in order, one is equal and two are not in order.
        check(&[(0.4, true), (0.7, true), (0.4, false), (0.8, false)], Some(0.375));
        check(&[(0.4, true)], None);
        check(&[(0.4, false)], None);
        check(&[], None);
    }

    #[test]
    fn a_draw_counts_as_that_many_forecasts() {
        let few = forecasts(&[(0.1, true), (0.4, false), (0.7, true)]);
        let many = forecasts(&[(0.1, true), (0.1, true), (0.4, false), (0.4, false), (0.4, false)]);
        assert_eq!(area(&few, &[2, 3, 0]), area(&many, &[1; 5]));
    }

    #[test]
    fn the_lowest_threshold_that_is_precise_enough_is_chosen() {
        let given = forecasts(&[
            (0.9, true),
            (0.8, false),
            (0.7, true),
            (0.6, true),
            (0.6, false),
            (0.3, false),
        ]);
        let chosen = |precision| ChosenThreshold::for_precision(&given, precision);
        let of = |threshold, precision, acted_on| {
            Some(ChosenThreshold { threshold, precision, acted_on })
        };
        assert_eq!(chosen(1.0), of(0.9, 1.0, 1.0 / 6.0));
        // Two of three at 0.7. One of the two at 0.6 would be too few.
        assert_eq!(chosen(0.65), of(0.7, 2.0 / 3.0, 0.5));
        assert_eq!(chosen(0.5), of(0.3, 0.5, 1.0));
        assert_eq!(ChosenThreshold::for_precision(&forecasts(&[(0.9, false)]), 0.1), None);
        assert_eq!(ChosenThreshold::for_precision(&[], 0.1), None);
    }

    proptest! {
        #[test]
        fn what_did_not_come_true_mirrors_the_area_and_intervals_contain_it(
            given in prop::collection::vec((0u8..20, any::<bool>()), 2..25),
        ) {
            let of = |so: bool| {
                let of = |&(step, is): &(u8, bool)| (f64::from(step) / 20.0, is == so);
                AreaUnderRoc::of(&forecasts(&given.iter().map(of).collect::<Vec<_>>()))
            };
            match (of(true), of(false)) {
                (Some(one), Some(other)) => {
                    prop_assert!((one.area + other.area - 1.0).abs() < 1e-12);
                    prop_assert!(one.ci95[0] <= one.ci95[1] && one.ci95[0] >= 0.0);
                    prop_assert!(one.ci95[1] <= 1.0);
                }
                (one, other) => prop_assert!(one.is_none() && other.is_none()),
            }
        }

        #[test]
        fn a_chosen_threshold_keeps_its_promise(
            given in prop::collection::vec((0u8..20, any::<bool>()), 1..40),
            precision in 0.0..=1.0,
        ) {
            let of = |&(step, is_so): &(u8, bool)| (f64::from(step) / 20.0, is_so);
            let given = forecasts(&given.iter().map(of).collect::<Vec<_>>());
            if let Some(chosen) = ChosenThreshold::for_precision(&given, precision) {
                let acted_on: Vec<_> =
                    given.iter().filter(|one| one.probability >= chosen.threshold).collect();
                let so = acted_on.iter().filter(|one| one.is_so).count();
                prop_assert!(so as f64 / acted_on.len() as f64 >= precision);
                prop_assert_eq!(acted_on.len() as f64 / given.len() as f64, chosen.acted_on);
            } else {
                prop_assert!(precision > 0.0);
            }
        }
    }
}
