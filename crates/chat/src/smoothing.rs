//! Smoothing of scores over a session, so that the neighbours of a match count.

use std::collections::HashMap;

use clew_core::DocumentId;

/// The weights by which a unit of a conversation gains from other hits in its session.
///
/// Turns are elliptic: the answer to a question does not repeat its words, and the subject of two
/// people's conversation appears in the turns around. A unit's score is therefore
///
/// ```text
/// own + previous * score of the unit before + next * score of the unit after
///     + session * best of the session
/// ```
///
/// with scores counted from the lowest one found, and zero for units that were not found. This
/// needs no additional embedding. Rounds are as long as a passage, and their neighbours are about
/// other matters: on BEAM and LongMemEval, weights for neighbours lower the quality, and the effect
/// of a weight for the session is within the error of measurement.
///
/// The paper has nothing comparable: its values are rounds (LongMemEval, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothing {
    /// Weight of the unit before, from 0.
    pub previous: f32,
    /// Weight of the unit after, from 0.
    pub next: f32,
    /// Weight of the best unit of the session, which may be the unit itself, from 0.
    pub session: f32,
}

impl Smoothing {
    /// Weights for single turns. They raise the hybrid search of LoCoMo turns from 57 to 66 % of
    /// frac@5 and from 68 to 77 % of frac@10. With keys of date and facts they raise it from 64 to
    /// 71 % and from 72 to 80 %. With the default keys, which contain the turn before, they raise
    /// it from 71 to 72 % and from 80 to 82 %. They were chosen on two of five conversations as
    /// good for all of these keys. `BENCHMARKS.md`, section Keys, has other weights.
    pub const TURNS: Self = Self { previous: 0.2, next: 0.2, session: 0.5 };
}

/// The place of a unit in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitPosition<'a> {
    /// Session of the unit.
    pub session: &'a DocumentId,
    /// Number of units of the session that come before it.
    pub number: usize,
}

/// Returns the smoothed scores of the units that were found, in the order given. No two units may
/// have the same place.
///
/// A deeper search knows more neighbours: with the best 30 to 200 units, the quality of the first
/// ten is the same within a point. The cost is linear.
pub fn smoothed(found: &[(UnitPosition<'_>, f32)], smoothing: &Smoothing) -> Vec<f32> {
    let lowest = found.iter().map(|(_, score)| *score).fold(f32::INFINITY, f32::min);
    let mut best: HashMap<&DocumentId, f32> = HashMap::new();
    let mut gains: HashMap<UnitPosition<'_>, f32> = HashMap::with_capacity(found.len());
    for (place, score) in found {
        let gain = score - lowest;
        let best = best.entry(place.session).or_default();
        *best = best.max(gain);
        gains.insert(*place, gain);
    }
    let smooth = |(place, score): &(UnitPosition<'_>, f32)| {
        let UnitPosition { session, number } = *place;
        score - lowest
            + smoothing.previous * gain_at(&gains, session, number.checked_sub(1))
            + smoothing.next * gain_at(&gains, session, number.checked_add(1))
            + smoothing.session * best.get(session).copied().unwrap_or_default()
    };
    found.iter().map(smooth).collect()
}

/// Returns the gain of a place, or 0 if nothing was found there.
fn gain_at<'a>(
    gains: &HashMap<UnitPosition<'a>, f32>,
    session: &'a DocumentId,
    number: Option<usize>,
) -> f32 {
    let gain = number.and_then(|number| gains.get(&UnitPosition { session, number }));
    gain.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HALVES: Smoothing = Smoothing { previous: 0.5, next: 0.25, session: 0.0 };

    fn smooth(found: &[(&str, usize, f32)], smoothing: &Smoothing) -> Vec<f32> {
        let sessions: Vec<DocumentId> = found.iter().map(|unit| unit.0.parse().unwrap()).collect();
        let found: Vec<_> = sessions
            .iter()
            .zip(found)
            .map(|(session, &(_, number, score))| (UnitPosition { session, number }, score))
            .collect();
        smoothed(&found, smoothing)
    }

    #[test]
    fn a_unit_gains_from_the_units_beside_it() {
        let found = [("a", 1, 3.0), ("a", 2, 1.0), ("a", 0, 1.0), ("a", 4, 1.0), ("b", 2, 1.0)];
        assert_eq!(smooth(&found, &HALVES), [2.0, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn every_unit_of_a_session_gains_from_its_best() {
        let found = [("a", 0, 3.0), ("a", 9, 2.0), ("b", 1, 2.5), ("b", 3, 1.0)];
        let session = Smoothing { previous: 0.0, next: 0.0, session: 0.5 };
        assert_eq!(smooth(&found, &session), [3.0, 2.0, 2.25, 0.75]);
    }

    #[test]
    fn nothing_found_is_nothing_smoothed() {
        assert!(smooth(&[], &Smoothing::TURNS).is_empty());
        assert_eq!(smooth(&[("a", usize::MAX, 7.0)], &Smoothing::TURNS), [0.0]);
    }

    fn found() -> impl Strategy<Value = Vec<(&'static str, usize, f32)>> {
        let place = (prop::sample::select(vec!["a", "b"]), 0usize..12);
        proptest::collection::btree_map(place, 0u8..40, 0..16).prop_map(|scores| {
            // Quarters add up exactly, so the laws hold without a tolerance.
            scores.into_iter().map(|((s, n), score)| (s, n, f32::from(score) / 4.0)).collect()
        })
    }

    proptest! {
        #[test]
        fn each_score_is_the_same_in_any_order(
            (found, shuffled) in found().prop_flat_map(|found| (Just(found.clone()), Just(found).prop_shuffle()))
        ) {
            let scores = smooth(&found, &HALVES);
            for (unit, score) in shuffled.iter().zip(smooth(&shuffled, &HALVES)) {
                let place = found.iter().position(|other| other == unit).unwrap();
                prop_assert_eq!(score, scores[place]);
            }
        }

        #[test]
        fn only_differences_of_scores_matter(found in found()) {
            let higher: Vec<_> = found.iter().map(|(s, n, score)| (*s, *n, score + 2.0)).collect();
            prop_assert_eq!(smooth(&found, &HALVES), smooth(&higher, &HALVES));
        }

        #[test]
        fn without_weights_the_order_stays(found in found()) {
            let none = Smoothing { previous: 0.0, next: 0.0, session: 0.0 };
            let scores = smooth(&found, &none);
            for (a, score_a) in found.iter().zip(&scores) {
                for (b, score_b) in found.iter().zip(&scores) {
                    prop_assert_eq!(a.2 < b.2, score_a < score_b);
                }
            }
        }
    }
}
