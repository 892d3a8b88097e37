//! Clues from a corpus' compressed memories or, where it has none, from its tree.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, ClueQuery, Clues, Cost, DraftedClues, Error, ErrorKind, Evidence, Memory, Partial,
    Planner,
};
use clew_strategy::TreeMemory;

use crate::structure::CorpusStructure;

/// Maximum number of memories whose answers are kept. Each answer is read beside the evidence, and
/// most memories know nothing of a question.
const MOST_ANSWERS: usize = 8;

/// The compressed memories of all shards. A model that has read the corpus drafts search queries
/// from them (MemoRAG, section 2.3). Where none can be asked, a planner drafts from the summaries
/// at the top of the tree.
pub(crate) struct CompressedMemory<'a> {
    pub structure: &'a CorpusStructure,
    pub planner: &'a dyn Planner,
    /// Account of the question.
    pub account: &'a Account,
}

#[async_trait]
impl Memory for CompressedMemory<'_> {
    async fn clues(
        &self,
        query: &ClueQuery,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<Partial<(Clues, Cost)>, Error> {
        let Partial { found: drafted, shards_missing } =
            match self.structure.corpus.settings().memory {
                Some(_) => match self.drafted(query, deadline).await {
                    // Without drafts, the tree still helps.
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        tracing::warn!(error = error.chain(), "no memory drafts");
                        let shards = self.structure.corpus.shards().iter();
                        Partial::default().missing(shards.map(|shard| shard.index()))
                    }
                    drafted => drafted?,
                },
                None => Partial::default(),
            };
        let is_drafted = drafted.clues != Clues::default();
        if is_drafted {
            let clues = shortened(drafted.clues, most);
            return Ok(Partial { found: (clues, drafted.cost), shards_missing });
        }
        let tree = TreeMemory { tree: self.structure, planner: self.planner };
        let planned = tree.clues(query, near, most, deadline).await?;
        let planned = planned.missing(shards_missing);
        Ok(planned.map(|(clues, mut cost)| {
            cost += drafted.cost;
            (clues, cost)
        }))
    }
}

impl CompressedMemory<'_> {
    /// Returns the drafts of all shards, interleaved, because each shard has seen another part of
    /// the corpus. A model may draft until the question's deadline: the search that comes first has
    /// already found out which shards do not answer.
    async fn drafted(
        &self,
        query: &ClueQuery,
        deadline: Instant,
    ) -> Result<Partial<DraftedClues>, Error> {
        let shards = &self.structure.shards;
        // Drafts of memory models are not calls of a language model, so no budget bounds them.
        let drafts = shards.ask_all_for_once(|shard| async move {
            let drafted = shard.clues(query, deadline).await?;
            self.account.ledger().add_aside(Cost { shards_searched: 0, ..drafted.cost });
            Ok(drafted)
        });
        Ok(drafts.await?.map(DraftedClues::united))
    }
}

/// Shortens clues to `most`: queries and clues together, in equal parts where there are enough of
/// both, and key points by themselves.
fn shortened(mut clues: Clues, most: usize) -> Clues {
    let half = most.div_ceil(2);
    let queries = clues.queries.len().min(half.max(most.saturating_sub(clues.clues.len())));
    clues.queries.truncate(queries);
    clues.clues.truncate(most - queries);
    clues.key_points.truncate(most);
    clues.answers.truncate(MOST_ANSWERS);
    clues
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize, kind: &str) -> Vec<String> {
        (0..count).map(|n| format!("{kind} {n}")).collect()
    }

    #[test]
    fn as_many_queries_as_clues_are_kept_where_there_are_enough() {
        for (queries, clues, most, kept) in [
            (9, 9, 6, (3, 3)),
            (9, 1, 6, (5, 1)),
            (1, 9, 6, (1, 5)),
            (2, 1, 6, (2, 1)),
            (5, 5, 0, (0, 0)),
        ] {
            let (queries, clues) = (texts(queries, "q"), texts(clues, "c"));
            let short = shortened(Clues { queries, clues, ..Clues::default() }, most);
            assert_eq!((short.queries.len(), short.clues.len()), kept);
        }
    }
}
