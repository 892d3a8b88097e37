//! What is known of a corpus at large: by its compressed memories, or where it has none by its tree.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, ClueQuery, Clues, Cost, DraftedClues, Error, ErrorKind, Evidence, Memory, Partial,
    Planner,
};
use clew_strategy::TreeMemory;

use crate::memory::CorpusMemory;

/// Most memories whose answers are told: each is read beside the evidence, and most memories know nothing of a question.
const MOST_ANSWERS: usize = 8;

/// The compressed memories of all shards. A model that has read the corpus drafts out of them what to search for
/// (MemoRAG, section 2.3); where none may be asked, a planner drafts out of the summaries at the top of the tree.
pub(crate) struct CompressedMemory<'a> {
    pub memory: &'a CorpusMemory,
    pub planner: &'a dyn Planner,
    /// What the question is asked on.
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
        let Partial { found: drafted, shards_missing } = match self.memory.corpus.settings().memory
        {
            Some(_) => match self.drafted(query, deadline).await {
                // The tree is there all the same.
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(error = error.chain(), "no memory drafts");
                    let shards = self.memory.corpus.shards().iter();
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
        let tree = TreeMemory { tree: self.memory, planner: self.planner };
        let planned = tree.clues(query, near, most, deadline).await?;
        let planned = planned.missing(shards_missing);
        Ok(planned.map(|(clues, mut cost)| {
            cost += drafted.cost;
            (clues, cost)
        }))
    }
}

impl CompressedMemory<'_> {
    /// The drafts of all shards, in turn, since each has seen another part. A model may draft for as long as the question
    /// waits; a shard that is not there was found out by the search that comes first.
    async fn drafted(
        &self,
        query: &ClueQuery,
        deadline: Instant,
    ) -> Result<Partial<DraftedClues>, Error> {
        let shards = &self.memory.shards;
        // What memory models draft is no call of a language model, and no budget bounds it.
        let drafts = shards.ask_all_for_once(|shard| async move {
            let drafted = shard.clues(query, deadline).await?;
            self.account.ledger().add_aside(Cost { shards_searched: 0, ..drafted.cost });
            Ok(drafted)
        });
        Ok(drafts.await?.map(DraftedClues::united))
    }
}

/// At most so many queries and clues together, in equal parts, or key points.
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
