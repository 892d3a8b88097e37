//! Reranking after a search: a cross-encoder scores the best candidates against the question.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, Error, Evidence, Grouping, Limits, Query, Reranker, Retrieved, Retriever, Scored,
};
use clew_telemetry::{child, metrics};
use tracing::Instrument;

use crate::Backends;

/// Bytes of a query that a reranker reads. With the shortest windows in use, 512 tokens, this
/// leaves as much room for a passage. Queries that strategies form on their way may be longer.
const QUERY_BYTES: usize = 1000;

/// Retriever that reranks the first results of `inner`, for queries that want it.
pub(crate) struct Reranked<R> {
    inner: R,
    /// Reranker that counts tokens on the caller's account.
    reranker: Arc<dyn Reranker>,
    /// Number of results that are reranked for a query that does not say how many. `None` means
    /// that such a query is not reranked.
    candidates: Option<usize>,
    limits: Limits,
}

impl<R: Retriever> Reranked<R> {
    /// Creates a retriever that reranks results of `inner` on `account`: as many as a query says,
    /// otherwise `candidates`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if no reranker is configured, and errors of
    /// asking for its model.
    pub async fn over(
        inner: R,
        backends: &Backends,
        candidates: Option<usize>,
        account: &Account,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let reranker = account.reranking(Arc::clone(&backends.reranker));
        if reranker.reranker_model(deadline).await?.is_none() {
            let problem = "expected none, since no reranker is configured: name one in `reranker.model` or \
                           `reranker.endpoint` of the encoders";
            return Err(Error::invalid("rerank", problem));
        }
        Ok(Self { inner, reranker, candidates, limits: backends.limits })
    }

    async fn rerank(
        &self,
        query: &Query,
        found: Vec<Evidence>,
        deadline: Instant,
    ) -> Result<(Vec<Evidence>, u64), Error> {
        if found.is_empty() {
            return Ok((found, 0));
        }
        let asked = &query.text[..query.text.floor_char_boundary(QUERY_BYTES)];
        let passages = found.iter().map(|item| item.text.clone()).collect();
        let Scored { scores, tokens } = self.reranker.score(asked, passages, deadline).await?;
        if scores.len() != found.len() {
            return Err(Error::internal(
                "the reranker returned another number of scores than passages",
            ));
        }
        let scored = found.into_iter().zip(scores);
        let mut ranked: Vec<Evidence> =
            scored.map(|(item, score)| Evidence { score, ..item }).collect();
        // The sort is stable: equal scores keep the order of the search.
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked.truncate(query.k);
        Ok((ranked, tokens))
    }
}

impl<R: Retriever> Reranked<R> {
    /// Returns how many results of a query are reranked, if any are. More documents than are
    /// reranked are a set, whose order does not matter.
    fn candidates(&self, query: &Query) -> Option<usize> {
        let candidates = query.rerank.or(self.candidates)?;
        let is_set = query.grouping == Grouping::Documents && query.k > candidates;
        (!is_set).then_some(candidates)
    }

    /// Returns the query that finds what is reranked for `query`.
    fn wide(&self, query: &Query) -> Query {
        let k = self.candidates(query).map_or(query.k, |candidates| candidates.max(query.k));
        Query { k, rerank: None, ..query.clone() }
    }

    /// Reranks what the wide query found.
    async fn best_of(
        &self,
        query: &Query,
        retrieved: Retrieved,
        deadline: Instant,
    ) -> Result<Retrieved, Error> {
        let Some(candidates) = self.candidates(query) else { return Ok(retrieved) };
        let Retrieved { mut evidence, shards_missing, mut cost } = retrieved;
        let rest = evidence.split_off(candidates.min(evidence.len()));
        let span = child(|| tracing::info_span!("rerank", passages = evidence.len(), k = query.k));
        let ranking = self.rerank(query, evidence, deadline).instrument(span);
        let (mut evidence, tokens) = metrics::stage("rerank", ranking).await?;
        // Passages that were not reranked follow, with the lowest score that a reranker gives.
        evidence.extend(rest.into_iter().map(|item| Evidence { score: 0.0, ..item }));
        evidence.truncate(query.k);
        cost.reranked_tokens += tokens;
        Ok(Retrieved { evidence, shards_missing, cost })
    }
}

#[async_trait]
impl<R: Retriever> Retriever for Reranked<R> {
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error> {
        query.check(&self.limits)?;
        let found = self.inner.retrieve(&self.wide(query), deadline).await?;
        self.best_of(query, found, deadline).await
    }

    async fn retrieve_all(
        &self,
        queries: &[Query],
        deadline: Instant,
    ) -> Result<Vec<Retrieved>, Error> {
        Query::check_all(queries, &self.limits)?;
        let wide: Vec<Query> = queries.iter().map(|query| self.wide(query)).collect();
        let found = self.inner.retrieve_all(&wide, deadline).await?;
        // One after another: a reranker computes the passages of one query together.
        let mut best = Vec::with_capacity(queries.len());
        for (query, found) in queries.iter().zip(found) {
            best.push(self.best_of(query, found, deadline).await?);
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::{Budget, ChunkId, Cost, ErrorKind, Owner, ShardIndex, Span, Version};

    use super::*;

    /// Retriever that finds passages of these names, in this order, as many as are asked for.
    struct Finds(Vec<&'static str>);

    #[async_trait]
    impl Retriever for Finds {
        async fn retrieve(&self, query: &Query, _: Instant) -> Result<Retrieved, Error> {
            let corpus = "notes".parse().unwrap();
            let item = |name: &&str| {
                let document_id: clew_core::DocumentId = name.parse().unwrap();
                Evidence {
                    chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), 0),
                    document_id,
                    version: Version(1),
                    title: String::new(),
                    span: Span::new(0, 1),
                    text: (*name).to_owned(),
                    event_time: None,
                    score: 7.0,
                    dense_score: Some(0.5),
                    sparse_score: None,
                }
            };
            let cost = Cost { embedded_tokens: 2, ..Cost::default() };
            let evidence = self.0.iter().take(query.k).map(item).collect();
            Ok(Retrieved { evidence, shards_missing: vec![ShardIndex(3)], cost })
        }
    }

    /// Reranker that prefers later letters of the alphabet, scores pairs of letters alike, and
    /// times out on `x`.
    struct Alphabet;

    #[async_trait]
    impl Reranker for Alphabet {
        async fn reranker_model(&self, _: Instant) -> Result<Option<String>, Error> {
            Ok(Some("alphabet".to_owned()))
        }

        async fn score(
            &self,
            query: &str,
            passages: Vec<String>,
            _: Instant,
        ) -> Result<Scored, Error> {
            assert!(query.len() <= QUERY_BYTES);
            if passages.iter().any(|passage| passage == "x") {
                return Err(Error::deadline("reranking"));
            }
            let score = |passage: &String| f32::from((passage.as_bytes()[0] - b'a') / 2) / 13.0;
            let scores = passages.iter().map(score).collect();
            Ok(Scored { scores, tokens: passages.len() as u64 })
        }
    }

    fn reranked(found: &[&'static str], candidates: usize) -> (Reranked<Finds>, Account) {
        let account = Account::open(Owner::of(None), Budget::default());
        let reranker = account.reranking(Arc::new(Alphabet));
        let (inner, limits) = (Finds(found.to_vec()), Limits::default());
        let candidates = Some(candidates);
        (Reranked { inner, reranker, candidates, limits }, account)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn candidates_come_in_the_order_of_the_reranker_and_equal_ones_in_that_of_the_search() {
        let (retriever, account) = reranked(&["a", "d", "c", "b", "f", "z"], 5);
        let found = retriever.retrieve(&Query::new("q", 4), soon()).await.unwrap();
        let names: Vec<&str> = found.evidence.iter().map(|item| item.text.as_str()).collect();
        // `z` is not among the candidates.
        assert_eq!(names, ["f", "d", "c", "a"]);
        assert!(
            found.evidence.iter().all(|item| item.dense_score == Some(0.5) && item.score < 1.0)
        );
        assert_eq!(found.shards_missing, [ShardIndex(3)]);
        assert_eq!((found.cost.embedded_tokens, found.cost.reranked_tokens), (2, 5));
        assert_eq!(account.ledger().cost().reranked_tokens, 5);
    }

    #[tokio::test]
    async fn what_is_wanted_beyond_the_candidates_comes_behind_them() {
        let (retriever, account) = reranked(&["a", "d", "c", "b", "f"], 2);
        let found = retriever.retrieve(&Query::new("q", 4), soon()).await.unwrap();
        let found: Vec<(&str, bool)> =
            found.evidence.iter().map(|item| (item.text.as_str(), item.score > 0.0)).collect();
        assert_eq!(found, [("d", true), ("a", false), ("c", false), ("b", false)]);
        assert_eq!(account.ledger().cost().reranked_tokens, 2);
    }

    #[tokio::test]
    async fn a_long_query_leaves_room_for_passages_and_a_set_is_found_as_it_is() {
        let (retriever, account) = reranked(&["a", "d", "c"], 2);
        let long = format!("{}é", "q".repeat(QUERY_BYTES - 1));
        retriever.retrieve(&Query::new(long, 2), soon()).await.unwrap();
        let set = Query { grouping: Grouping::Documents, ..Query::new("q", 3) };
        let found = retriever.retrieve(&set, soon()).await.unwrap();
        let names: Vec<&str> = found.evidence.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(names, ["a", "d", "c"]);
        assert_eq!(account.ledger().cost().reranked_tokens, 2);
    }

    #[tokio::test]
    async fn in_a_batch_each_query_is_reranked_as_it_says_or_as_by_itself() {
        let (retriever, account) = reranked(&["a", "d", "c", "b", "f"], 2);
        let three = Query { rerank: Some(3), ..Query::new("q", 1) };
        let set = Query { grouping: Grouping::Documents, ..Query::new("q", 3) };
        let batch = [Query::new("q", 2), three, set];
        let found = retriever.retrieve_all(&batch, soon()).await.unwrap();
        for (query, found) in batch.iter().zip(&found) {
            assert_eq!(*found, retriever.retrieve(query, soon()).await.unwrap());
        }
        let costs: Vec<u64> = found.iter().map(|found| found.cost.reranked_tokens).collect();
        assert_eq!(costs, [2, 3, 0]);
        assert_eq!(account.ledger().cost().reranked_tokens, 10);
        let plain = Reranked { candidates: None, ..retriever };
        let found = plain.retrieve_all(&batch, soon()).await.unwrap();
        let costs: Vec<u64> = found.iter().map(|found| found.cost.reranked_tokens).collect();
        assert_eq!(costs, [0, 3, 0]);
        let bad = [Query::new("q", 1), Query::new("q", 0)];
        let error = plain.retrieve_all(&bad, soon()).await.unwrap_err();
        assert_eq!(error.violations()[0].field, "queries[1].k");
    }

    #[tokio::test]
    async fn nothing_found_asks_nobody_and_what_fails_finds_nothing() {
        let (nothing, account) = reranked(&[], 5);
        let found = nothing.retrieve(&Query::new("q", 4), soon()).await.unwrap();
        assert!(found.evidence.is_empty() && account.ledger().cost().tokens() == 0);
        let (late, _) = reranked(&["x"], 5);
        let error = late.retrieve(&Query::new("q", 4), soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        let (bad, _) = reranked(&["a"], 5);
        let error = bad.retrieve(&Query::new("q", 0), soon()).await.unwrap_err();
        assert_eq!(error.violations()[0].field, "query.k");
    }
}
