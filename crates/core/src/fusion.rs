//! Fusion of a dense and a sparse ranking into one: pure functions from candidate lists to an
//! order.
//!
//! BM25 scores and cosines have no common scale, and no fixed pair of rank weights suits every
//! collection: short chat turns need the words, multi-hop questions the meaning. The share of a
//! query's attainable BM25 score that a passage reaches does carry over, so the default rule is
//!
//! ```text
//! score(u, q) = bm25(u, q) / attainable(q)  +  DENSE_WEIGHT * cosine(u, q)
//! attainable(q) = (k1 + 1) * sum of idf(t) over the words t of q that the index knows
//! ```
//!
//! The first part is in [0, 1) and comes close to 1 only for passages that hold all rare words of
//! the query, which is when words should decide. `BENCHMARKS.md` compares this rule on five public
//! collections with the better of both rankings and with reciprocal rank fusion. It also shows how
//! the one constant was chosen by leaving each collection out in turn. If the index cannot say what
//! is attainable, reciprocal rank fusion (Cormack et al., "Reciprocal Rank Fusion outperforms
//! Condorcet and individual Rank Learning Methods", 2009) with its published base 60 takes its
//! place.

use std::collections::BTreeMap;

use crate::SearchMode;

/// Weight of the cosine relative to the share of the attainable BM25 score. Chosen by leave-one-out
/// over seven families of questions; 0.6 to 0.9 are equal within the error of measurement.
pub const DENSE_WEIGHT: f32 = 0.75;

/// Base of reciprocal rank fusion, added to ranks that start at 1.
pub const RECIPROCAL_RANK_BASE: f32 = 60.0;

/// Number of candidates of each ranking before fusion, and the step in which it grows with the
/// number of wanted items. 50 to 1000 give the same quality within the error of measurement.
const CANDIDATES: usize = 200;

/// Rule for fusing two rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Share of the attainable BM25 score plus weighted cosine. Sparse scores must be such shares.
    Coverage,
    /// Sum of reciprocal ranks.
    ReciprocalRank,
}

/// Candidate in the fused order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fused<K> {
    /// Key of what was ranked.
    pub key: K,
    /// Fused score.
    pub score: f32,
    /// Position in the dense ranking, from 0, if it is in it.
    pub dense: Option<usize>,
    /// Position in the sparse ranking, from 0, if it is in it.
    pub sparse: Option<usize>,
}

/// Returns how many candidates of each ranking a search for `k` items needs. The order of a fused
/// ranking depends a little on that number, so it grows in steps: the pages of a search are of one
/// order until the next step.
pub fn candidates_for(mode: SearchMode, k: usize) -> usize {
    match mode {
        SearchMode::Dense | SearchMode::Sparse => k,
        SearchMode::Hybrid => k.max(1).next_multiple_of(CANDIDATES),
    }
}

/// Fuses two rankings into their union, best first. Each ranking holds a key at most once, best
/// first. Scores are cosines and shares of the attainable BM25 score. Equal scores are ordered by
/// key.
///
/// A key that only the sparse ranking holds gets the lowest cosine of the dense one, because it is
/// no better than that. A key that only the dense ranking holds matched no word and gets 0.
pub fn fuse<K: Ord + Clone>(dense: &[(K, f32)], sparse: &[(K, f32)], rule: Rule) -> Vec<Fused<K>> {
    let lowest_cosine = dense.last().map_or(0.0, |(_, cosine)| *cosine);
    let mut places: BTreeMap<&K, (Option<usize>, Option<usize>)> = BTreeMap::new();
    for (place, (key, _)) in dense.iter().enumerate() {
        places.entry(key).or_default().0 = Some(place);
    }
    for (place, (key, _)) in sparse.iter().enumerate() {
        places.entry(key).or_default().1 = Some(place);
    }
    let mut fused: Vec<Fused<K>> = places
        .into_iter()
        .map(|(key, (in_dense, in_sparse))| {
            let score = match rule {
                Rule::Coverage => {
                    let cosine = in_dense.map_or(lowest_cosine, |place| dense[place].1);
                    let share = in_sparse.map_or(0.0, |place| sparse[place].1);
                    share + DENSE_WEIGHT * cosine
                }
                Rule::ReciprocalRank => reciprocal_rank(in_dense) + reciprocal_rank(in_sparse),
            };
            Fused { key: key.clone(), score, dense: in_dense, sparse: in_sparse }
        })
        .collect();
    // The sort is stable and the map was ordered by key.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

/// Fuses any number of rankings by the sum of reciprocal ranks, best first. Each ranking holds a
/// key at most once, best first. Equal sums are ordered by key.
pub fn fuse_ranks<K: Ord + Clone>(rankings: &[Vec<K>]) -> Vec<(K, f32)> {
    // Ranks are summed in order, best first, so that the order of the rankings does not show in the
    // last bit.
    let mut places: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for ranking in rankings {
        for (place, key) in ranking.iter().enumerate() {
            places.entry(key).or_default().push(place);
        }
    }
    let sum = |mut places: Vec<usize>| {
        places.sort_unstable();
        places.into_iter().map(|place| reciprocal_rank(Some(place))).sum()
    };
    let mut fused: Vec<(K, f32)> =
        places.into_iter().map(|(key, places)| (key.clone(), sum(places))).collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1));
    fused
}

fn reciprocal_rank(place: Option<usize>) -> f32 {
    place.map_or(0.0, |place| 1.0 / (RECIPROCAL_RANK_BASE + place as f32 + 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(fused: &[Fused<&str>]) -> Vec<String> {
        fused.iter().map(|item| item.key.to_owned()).collect()
    }

    #[test]
    fn rare_words_that_are_all_there_win_over_a_similar_passage() {
        let dense = [("similar", 0.62), ("exact", 0.41), ("other", 0.40)];
        let sparse = [("exact", 0.8), ("similar", 0.2)];
        assert_eq!(keys(&fuse(&dense, &sparse, Rule::Coverage)), ["exact", "similar", "other"]);
    }

    #[test]
    fn without_matching_words_meaning_decides() {
        let dense = [("near", 0.5), ("far", 0.1)];
        assert_eq!(keys(&fuse(&dense, &[], Rule::Coverage)), ["near", "far"]);
    }

    #[test]
    fn reciprocal_ranks_start_at_one() {
        let fused = fuse(&[("a", 0.9)], &[("a", 0.1), ("b", 0.1)], Rule::ReciprocalRank);
        assert_eq!(fused[0].score, 2.0 / 61.0);
        assert_eq!(fused[1].score, 1.0 / 62.0);
    }

    #[test]
    fn what_several_rankings_have_leads_what_one_has_first() {
        let fused = fuse_ranks(&[vec!["a", "b"], vec!["c", "b"], vec!["d", "b"]]);
        let order: Vec<_> = fused.iter().map(|(key, _)| *key).collect();
        assert_eq!(order, ["b", "a", "c", "d"]);
        assert_eq!(fused[1].1, 1.0 / 61.0);
        assert!(fuse_ranks::<u8>(&[]).is_empty());
    }

    fn ranking() -> impl Strategy<Value = Vec<(u8, f32)>> {
        proptest::collection::btree_map(0u8..40, 0.0f32..1.0, 0..30).prop_map(|scores| {
            let mut ranking: Vec<_> = scores.into_iter().collect();
            ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
            ranking
        })
    }

    proptest! {
        #[test]
        fn fusion_is_the_union_ordered_by_score(dense in ranking(), sparse in ranking()) {
            for rule in [Rule::Coverage, Rule::ReciprocalRank] {
                let fused = fuse(&dense, &sparse, rule);
                let mut union: Vec<u8> =
                    dense.iter().chain(&sparse).map(|(key, _)| *key).collect();
                union.sort_unstable();
                union.dedup();
                let mut found: Vec<u8> = fused.iter().map(|item| item.key).collect();
                prop_assert!(fused.windows(2).all(|pair| pair[0].score >= pair[1].score));
                found.sort_unstable();
                prop_assert_eq!(found, union);
            }
        }

        #[test]
        fn fused_ranks_do_not_hang_on_the_order_of_the_rankings(
            (rankings, shuffled) in proptest::collection::vec(ranking(), 0..4)
                .prop_flat_map(|rankings| (Just(rankings.clone()), Just(rankings).prop_shuffle()))
        ) {
            let keys = |rankings: &[Vec<(u8, f32)>]| -> Vec<Vec<u8>> {
                rankings.iter().map(|one| one.iter().map(|(key, _)| *key).collect()).collect()
            };
            let fused = fuse_ranks(&keys(&rankings));
            prop_assert_eq!(&fused, &fuse_ranks(&keys(&shuffled)));
            let union: std::collections::BTreeSet<u8> = keys(&rankings).concat().into_iter().collect();
            prop_assert_eq!(fused.len(), union.len());
            prop_assert!(fused.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        }

        #[test]
        fn two_fused_rankings_are_those_of_the_rule(dense in ranking(), sparse in ranking()) {
            let keys = [&dense, &sparse].map(|one| one.iter().map(|(key, _)| *key).collect());
            let fused = fuse(&dense, &sparse, Rule::ReciprocalRank);
            let expected: Vec<u8> = fused.iter().map(|item| item.key).collect();
            let found: Vec<u8> = fuse_ranks(&keys).into_iter().map(|(key, _)| key).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_leads_both_rankings_leads_the_fusion(dense in ranking(), sparse in ranking()) {
            let (Some((first, _)), Some((also_first, _))) = (dense.first(), sparse.first()) else {
                return Ok(());
            };
            if first == also_first {
                for rule in [Rule::Coverage, Rule::ReciprocalRank] {
                    let fused = fuse(&dense, &sparse, rule);
                    let leader = fused.iter().find(|item| item.key == *first).map(|item| item.score);
                    prop_assert_eq!(leader, Some(fused[0].score));
                }
            }
        }
    }
}
