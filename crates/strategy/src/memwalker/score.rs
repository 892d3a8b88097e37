//! The scores of tree nodes for a question.

use clew_core::{Error, Evidence, TextKind, Tree, TreeNode};

use super::corpus::CorpusLevels;
use crate::work::{Work, cosine};

/// Maximum number of summaries that are compared with the question at once. More nodes than that
/// exist only at the top of a tree that is still being built. Of those, the ones found best are
/// compared by meaning, the others only by the search: their summaries may have to be embedded.
const MAX_COMPARED: usize = 128;

/// Share of the cosine of question and summary in a score. The rest is how well a passage was
/// found.
const COSINE_SHARE: f32 = 0.5;

/// Score of a node and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) value: f32,
    cosine: f32,
    found: f32,
}

impl Score {
    fn new(cosine: f32, found: f32) -> Self {
        Self { value: COSINE_SHARE * cosine + (1.0 - COSINE_SHARE) * found, cosine, found }
    }

    pub(super) fn reason(&self) -> String {
        format!("similar by {:.2}, found by {:.2}", self.cosine, self.found)
    }
}

/// Results of a search for the question, and the question's vector once it was needed.
#[derive(Debug, Default)]
pub(super) struct Scorer {
    hits: Vec<Evidence>,
    best: f32,
    question: Option<Vec<f32>>,
    /// Levels above the roots of shards.
    pub(super) levels: CorpusLevels,
}

impl Scorer {
    pub(super) fn new(hits: Vec<Evidence>) -> Self {
        let best = hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
        Self { hits, best, question: None, levels: CorpusLevels::default() }
    }

    /// Returns how well the search found the best passage that `node` covers: its score relative to
    /// the best one, 0 to 1.
    pub(super) fn found(&self, tree: &dyn Tree, node: &TreeNode) -> f32 {
        let covered = self.hits.iter().filter(|hit| self.levels.covers(tree, node, hit));
        let score = covered.map(|hit| hit.score).fold(0.0, f32::max);
        if self.best > 0.0 { score / self.best } else { 0.0 }
    }

    /// Returns the scores of `nodes`, in order.
    pub(super) async fn scores(
        &mut self,
        work: &mut Work<'_>,
        nodes: &[TreeNode],
    ) -> Result<Vec<Score>, Error> {
        let tree = work.seams.tree;
        let found: Vec<f32> = nodes.iter().map(|node| self.found(tree, node)).collect();
        let mut compared: Vec<usize> = (0..nodes.len()).collect();
        compared.sort_by(|&a, &b| found[b].total_cmp(&found[a]));
        compared.truncate(MAX_COMPARED);
        let summarised: Vec<&TreeNode> = compared.iter().map(|&index| &nodes[index]).collect();
        let vectors = work.summary_vectors(&summarised).await?;
        let question = self.question(work).await?;
        let mut scores: Vec<Score> = found.iter().map(|&found| Score::new(0.0, found)).collect();
        for (index, vector) in compared.into_iter().zip(vectors) {
            scores[index] = Score::new(cosine(question, &vector), found[index]);
        }
        Ok(scores)
    }

    async fn question(&mut self, work: &mut Work<'_>) -> Result<&[f32], Error> {
        if self.question.is_none() {
            let text = vec![work.question.text.clone()];
            self.question = work.embed(text, TextKind::Query).await?.pop();
        }
        Ok(self.question.as_deref().unwrap_or_default())
    }
}
