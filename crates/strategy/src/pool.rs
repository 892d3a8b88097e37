//! Fusion of several rankings of passages into one.

use std::collections::BTreeMap;

use clew_core::fusion::RECIPROCAL_RANK_BASE;
use clew_core::{ChunkId, Evidence};

/// Passages of several rankings, scored by the sum of their reciprocal ranks ("Reciprocal Rank
/// Fusion outperforms Condorcet and individual Rank Learning Methods").
///
/// Scores of different searches are not comparable; ranks are.
#[derive(Debug, Default)]
pub(crate) struct Pool(BTreeMap<ChunkId, (Evidence, f32)>);

impl Pool {
    /// Adds a ranking, best first. Its ranks count with `weight`.
    pub(crate) fn add(&mut self, ranking: Vec<Evidence>, weight: f32) {
        for (place, evidence) in ranking.into_iter().enumerate() {
            let score = weight / (RECIPROCAL_RANK_BASE + 1.0 + place as f32);
            self.0.entry(evidence.chunk_id).or_insert((evidence, 0.0)).1 += score;
        }
    }

    /// Returns the `k` best passages, best first, equal ones in order of chunk ids. Their scores
    /// are the sums.
    pub(crate) fn best(self, k: usize) -> Vec<Evidence> {
        let scored = self.0.into_values().map(|(evidence, score)| Evidence { score, ..evidence });
        let mut best: Vec<Evidence> = scored.collect();
        best.sort_by(|a, b| b.score.total_cmp(&a.score));
        best.truncate(k);
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::evidence;

    #[test]
    fn what_several_rankings_have_comes_first() {
        let passage = |start| evidence("d", start, start + 9, 0.5);
        let mut pool = Pool::default();
        pool.add(vec![passage(0), passage(10)], 1.0);
        pool.add(vec![passage(20), passage(10)], 1.0);
        let best = pool.best(2);
        let starts: Vec<usize> = best.iter().map(|evidence| evidence.span.start).collect();
        assert_eq!(starts[0], 10);
        assert!((best[0].score - 2.0 / 62.0).abs() < 1e-6);
        assert_eq!(best.len(), 2);
    }
}
