//! Metrics of retrieval: how well one ranking finds the evidence of one question.
//!
//! For gold units G and a ranking r, with ranks from 1:
//!
//! - `any@k` is 1 if the first k contain a unit of G, and 0 otherwise;
//! - `frac@k` = |G in the first k| / |G|, which is the R@k of the HippoRAG papers and LoCoMo's
//!   recall;
//! - `all@k` is 1 if the first k contain all of G, and 0 otherwise, which is LongMemEval's
//!   recall_all;
//! - `ndcg@k` = DCG / ideal DCG with binary gains and discount 1 / log2(rank + 1), over the first
//!   k; the ideal ranking has min(k, |G|) hits on top. k is 5 and 10, whatever the cut-offs.
//!   (LongMemEval's own script discounts ranks 1 and 2 alike, so its figures differ.)
//! - `mrr` is the mean of 1 / rank of the first unit of G, and 0 if the ranking has none.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use clew_core::DocumentId;

use crate::Error;

const NDCG_DEPTHS: [usize; 2] = [5, 10];
const MOST_CUTOFFS: usize = 16;
const LARGEST_CUTOFF: usize = 1000;

/// Cut-offs, the k of `any@k`, `frac@k` and `all@k`: 1 to 16 different ones from 1 to 1000,
/// ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cutoffs(Vec<usize>);

impl Cutoffs {
    /// Creates cut-offs: sorts them and keeps each once.
    ///
    /// # Errors
    /// Returns [`Error::BadCutoffs`] if there are none or too many, or one is out of range.
    pub fn try_new(mut cutoffs: Vec<usize>) -> Result<Self, Error> {
        cutoffs.sort_unstable();
        cutoffs.dedup();
        let are_in_range = cutoffs.iter().all(|k| (1..=LARGEST_CUTOFF).contains(k));
        if !are_in_range || !(1..=MOST_CUTOFFS).contains(&cutoffs.len()) {
            return Err(bad_cutoffs(&Self(cutoffs).to_string()));
        }
        Ok(Self(cutoffs))
    }

    /// Returns the number of units that a ranking needs, if there are that many, so that every
    /// metric is exact except `mrr`, which uses the whole ranking.
    pub fn depth(&self) -> usize {
        self.0.iter().copied().chain(NDCG_DEPTHS).fold(0, usize::max)
    }

    /// Returns the names of the metrics, in the order of [`Scores::in_order`].
    pub(crate) fn metric_names(&self) -> Vec<String> {
        let at_cutoffs = ["any", "frac", "all"]
            .into_iter()
            .flat_map(|metric| self.0.iter().map(move |k| format!("{metric}@{k}")));
        let ndcg = NDCG_DEPTHS.iter().map(|k| format!("ndcg@{k}"));
        at_cutoffs.chain(ndcg).chain(["mrr".to_owned()]).collect()
    }
}

impl Default for Cutoffs {
    /// Returns 2, 5 and 10.
    fn default() -> Self {
        Self(vec![2, 5, 10])
    }
}

impl FromStr for Cutoffs {
    type Err = Error;

    /// Parses `2,5,10`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let cutoffs: Result<Vec<usize>, _> =
            text.split(',').map(|number| number.trim().parse()).collect();
        Self::try_new(cutoffs.map_err(|_| bad_cutoffs(text))?).map_err(|_| bad_cutoffs(text))
    }
}

impl fmt::Display for Cutoffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

fn bad_cutoffs(given: &str) -> Error {
    Error::BadCutoffs { given: given.to_owned(), most: MOST_CUTOFFS, largest: LARGEST_CUTOFF }
}

/// Metrics of one question, each from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// `any@k` for each cut-off.
    pub any: Vec<f64>,
    /// `frac@k` for each cut-off.
    pub frac: Vec<f64>,
    /// `all@k` for each cut-off.
    pub all: Vec<f64>,
    /// `ndcg@5` and `ndcg@10`.
    pub ndcg: [f64; 2],
    /// 1 / rank of the first gold unit.
    pub reciprocal_rank: f64,
}

impl Scores {
    /// Scores `ranking`, best first, against `gold`.
    ///
    /// A unit that is ranked more than once, as when several of its chunks are found, counts at its
    /// best rank and takes no other. Without gold, every score is 0.
    pub fn of(ranking: &[DocumentId], gold: &[DocumentId], cutoffs: &Cutoffs) -> Self {
        let gold: HashSet<_> = gold.iter().collect();
        let hit_ranks = hit_ranks(ranking, &gold);
        let found: Vec<usize> = cutoffs
            .0
            .iter()
            .map(|&k| hit_ranks.iter().take_while(|&&rank| rank <= k).count())
            .collect();
        let each = |score: fn(usize, usize) -> f64| {
            found.iter().map(|&found| score(found, gold.len())).collect()
        };
        let ndcg = |depth: usize| {
            let ideal: f64 = (1..=depth.min(gold.len())).map(gain_at).sum();
            let hits = hit_ranks.iter().take_while(|&&rank| rank <= depth);
            let gained: f64 = hits.map(|&rank| gain_at(rank)).sum();
            if gold.is_empty() { 0.0 } else { gained / ideal }
        };
        Self {
            any: each(|found, _| f64::from(u8::from(found > 0))),
            frac: each(|found, gold| found as f64 / gold.max(1) as f64),
            all: each(|found, gold| f64::from(u8::from(gold > 0 && found == gold))),
            ndcg: NDCG_DEPTHS.map(ndcg),
            reciprocal_rank: hit_ranks.first().map_or(0.0, |&rank| 1.0 / rank as f64),
        }
    }

    /// Returns all values, in the order of [`Cutoffs::metric_names`].
    pub(crate) fn in_order(&self) -> Vec<f64> {
        let at_cutoffs = [&self.any, &self.frac, &self.all].into_iter().flatten().copied();
        at_cutoffs.chain(self.ndcg).chain([self.reciprocal_rank]).collect()
    }
}

/// Returns the ranks, from 1 and ascending, of the gold units among the different units of
/// `ranking`.
fn hit_ranks(ranking: &[DocumentId], gold: &HashSet<&DocumentId>) -> Vec<usize> {
    let mut seen = HashSet::new();
    let different = ranking.iter().filter(|&id| seen.insert(id));
    (1..).zip(different).filter(|(_, id)| gold.contains(id)).map(|(rank, _)| rank).collect()
}

fn gain_at(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0).log2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(names: &str) -> Vec<DocumentId> {
        names.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    fn numbered(numbers: &[u8]) -> Vec<DocumentId> {
        numbers.iter().map(|number| number.to_string().parse().unwrap()).collect()
    }

    /// Checks any, frac and all at `k`, ndcg@5, ndcg@10 and the reciprocal rank.
    fn check(ranking: &str, gold: &str, k: usize, expected: [f64; 6]) {
        let cutoffs = Cutoffs::try_new(vec![k]).unwrap();
        let scores = Scores::of(&units(ranking), &units(gold), &cutoffs).in_order();
        for (score, expected) in scores.iter().zip(expected) {
            // The expected values below are written with 6 decimals.
            assert!((score - expected).abs() < 1e-6, "{ranking} for {gold}: {scores:?}");
        }
    }

    #[test]
    fn scores_match_values_computed_by_hand() {
        check("a b c", "a", 2, [1.0; 6]);
        check("x a b", "a b", 2, [1.0, 0.5, 0.0, 0.693426, 0.693426, 0.5]);
        check("x y z a", "a", 2, [0.0, 0.0, 0.0, 0.430677, 0.430677, 0.25]);
        check("x y", "a b", 5, [0.0; 6]);
        check("", "a", 1, [0.0; 6]);
        check("a", "", 1, [0.0; 6]);
        // Two chunks of x take one rank; naming a gold unit twice changes nothing.
        check("x x a", "a a", 2, [1.0, 1.0, 1.0, 0.630930, 0.630930, 0.5]);
        // Rank 6 is outside ndcg@5, rank 11 is outside ndcg@10, and neither is outside mrr.
        check("1 2 3 4 5 a", "a", 6, [1.0, 1.0, 1.0, 0.0, 0.356207, 0.166667]);
        check("1 2 3 4 5 6 7 8 9 10 a", "a", 11, [1.0, 1.0, 1.0, 0.0, 0.0, 0.090909]);
        // The ideal ranking of 12 gold units has 5 or 10 hits.
        check(
            "1 2 3 4 5 6 7 8 9 10",
            "1 2 3 4 5 6 7 8 9 10 11 12",
            10,
            [1.0, 0.833333, 0.0, 1.0, 1.0, 1.0],
        );
    }

    #[test]
    fn cutoffs_are_sorted_and_checked() {
        let cutoffs: Cutoffs = "10, 2,5,2".parse().unwrap();
        assert_eq!(cutoffs, Cutoffs::default());
        assert_eq!(cutoffs.to_string(), "2,5,10");
        assert_eq!(cutoffs.depth(), 10);
        assert_eq!("3,50".parse::<Cutoffs>().unwrap().depth(), 50);
        let many = (1..=17).map(|k| k.to_string()).collect::<Vec<_>>().join(",");
        for bad in ["", "0", "1001", "2;5", "-1", "two", &many] {
            let error = bad.parse::<Cutoffs>().unwrap_err().to_string();
            assert!(error.contains(&format!("got `{bad}`")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bounds_frac_bounds_all_and_all_grow_with_k(
            ranking in prop::collection::vec(0u8..30, 0..40),
            gold in prop::collection::vec(0u8..30, 1..8),
            cutoffs in prop::collection::vec(1usize..40, 1..6),
        ) {
            let cutoffs = Cutoffs::try_new(cutoffs).unwrap();
            let scores = Scores::of(&numbered(&ranking), &numbered(&gold), &cutoffs);
            for ((any, frac), all) in scores.any.iter().zip(&scores.frac).zip(&scores.all) {
                prop_assert!(any >= frac && frac >= all, "{scores:?}");
            }
            for metric in [&scores.any, &scores.frac, &scores.all] {
                prop_assert!(metric.is_sorted(), "{scores:?}");
            }
            prop_assert!(scores.in_order().iter().all(|score| (0.0..=1.0 + 1e-12).contains(score)));
        }

        #[test]
        fn what_lies_below_the_last_gold_unit_does_not_matter(
            above in prop::collection::vec(0u8..30, 0..12),
            below in Just((30u8..45).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let gold = numbered(&above[..above.len().min(3)]);
            let score = |tail: &[u8]| {
                Scores::of(&numbered(&[&above, tail].concat()), &gold, &Cutoffs::default())
            };
            prop_assert_eq!(score(&below), score(&(30..45).collect::<Vec<_>>()));
        }

        #[test]
        fn gold_on_top_in_any_order_is_perfect(
            gold in Just((0u8..14).collect::<Vec<_>>()).prop_shuffle(),
            count in 1usize..15,
        ) {
            let ranking = numbered(&gold);
            let scores = Scores::of(&ranking, &ranking[..count], &"14".parse().unwrap());
            for score in scores.in_order() {
                prop_assert!((score - 1.0).abs() < 1e-12, "{scores:?}");
            }
        }
    }
}
