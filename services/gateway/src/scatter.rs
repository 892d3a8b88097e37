//! The retriever seam over all shards of a corpus: embed once, ask every shard, fuse.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::fusion;
use clew_core::{
    Cost, Encoder, Error, Evidence, Limits, Priority, Query, Retrieved, Retriever, ShardIndex,
    TextKind,
};
use clew_index::{CandidateQuery, Candidates, Hit};
use clew_retriever::Corpus;

/// Searches one corpus.
pub(crate) struct Scatter {
    pub corpus: Arc<Corpus>,
    pub encoder: Arc<dyn Encoder>,
    pub limits: Limits,
}

#[async_trait]
impl Retriever for Scatter {
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error> {
        query.check(&self.limits)?;
        let mut cost = Cost::default();
        let vector = if query.mode.uses_embeddings() {
            let texts = vec![query.text.clone()];
            let embedded = self
                .encoder
                .embed(texts, TextKind::Query, Priority::Interactive, deadline)
                .await?
                .pop()
                .ok_or_else(|| Error::internal("the encoder returned no vector"))?;
            cost.embedded_tokens += u64::from(embedded.tokens);
            Some(embedded.vector)
        } else {
            None
        };
        let asked = CandidateQuery {
            text: &query.text,
            vector: vector.as_deref(),
            mode: query.mode,
            filter: &query.filter,
            grouping: query.grouping,
            limit: fusion::candidates_for(query.mode, query.k),
            exact: query.exact,
        };
        let shards = self.corpus.shards();
        let answers =
            futures::future::join_all(shards.iter().map(|shard| shard.candidates(&asked, deadline)))
                .await;
        cost.shards_searched += shards.len() as u64;
        let (candidates, shards_missing) = gather(shards.iter().map(|s| s.index()).zip(answers))?;
        Ok(Retrieved { evidence: fuse(candidates, query), shards_missing, cost })
    }
}

/// Unites the shards' candidates. Shards that failed are named; only if all did it is an error.
fn gather(
    answers: impl Iterator<Item = (ShardIndex, Result<Candidates, Error>)>,
) -> Result<(Candidates, Vec<ShardIndex>), Error> {
    let mut all = Candidates::default();
    let mut missing = Vec::new();
    let mut first_error = None;
    let mut answered = 0;
    for (shard, answer) in answers {
        match answer {
            Ok(candidates) => {
                answered += 1;
                all.dense.extend(candidates.dense);
                all.sparse.extend(candidates.sparse);
            }
            Err(error) => {
                tracing::warn!(%shard, error = error.chain(), "a shard did not answer a search");
                missing.push(shard);
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if answered == 0 => Err(error),
        _ => {
            let best_first = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score);
            all.dense.sort_by(best_first);
            all.sparse.sort_by(best_first);
            Ok((all, missing))
        }
    }
}
