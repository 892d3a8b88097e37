//! Search over all shards of a corpus: embed once, have every shard rank, fuse, and read the texts
//! of the best.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::fusion::{self, Rule};
use clew_core::{
    Account, CandidateQuery, Candidates, ChunkRef, ChunkText, Cost, Encoders, Error, Evidence,
    Grouping, Hit, Limits, Partial, Priority, Query, Retrieved, Retriever, SearchMode, Shard,
    ShardIndex, TextKind,
};
use clew_runtime::fair_queue::FairQueue;
use clew_runtime::timing::{Part, measured};

use clew_telemetry::child;
use tracing::Instrument;

use crate::Backends;
use crate::shards::Shards;

/// Retriever of one corpus.
#[derive(Clone)]
pub(crate) struct Scatter {
    pub shards: Shards,
    pub encoders: Arc<dyn Encoders>,
    /// Fair queue of searches. A search holds its slot while its question is embedded and its
    /// shards are asked, and waits for nothing that needs another slot.
    pub queue: FairQueue,
    pub limits: Limits,
}

impl Scatter {
    /// Creates a search of `shards` on `account`, with the components that the services share.
    pub(crate) fn over(backends: &Backends, shards: Shards, account: &Account) -> Self {
        let (encoders, queue) = (backends.encoders_on(account), backends.search_queue.clone());
        Self { shards, encoders, queue, limits: backends.limits }
    }
}

#[async_trait]
impl Retriever for Scatter {
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error> {
        query.check(&self.limits)?;
        let shards = self.shards.corpus.shards().len();
        let span = child(|| tracing::info_span!("search", shards, k = query.k));
        self.search(query, deadline).instrument(span).await
    }
}

impl Scatter {
    async fn search(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error> {
        let corpus = &self.shards.corpus;
        let whose = corpus.settings().name.takes_turns_as();
        // Queue before embedding, so that a refused search costs nothing.
        let _slot = measured(Part::Queue, self.queue.enter(whose, deadline)).await?;
        let mut cost = Cost::default();
        let model = &corpus.settings().encoder;
        let vector = if query.mode.uses_embeddings() {
            let texts = vec![query.text.clone()];
            let embedded = self
                .encoders
                .of(model, deadline)
                .await?
                .embed(texts, TextKind::Query, Priority::Interactive, deadline)
                .await?
                .pop()
                .ok_or_else(|| Error::internal("the encoder returned no vector"))?;
            cost.embedded_tokens += u64::from(embedded.tokens);
            Some(embedded.vector)
        } else {
            None
        };
        let mut asked = CandidateQuery {
            encoder: model.fingerprint(),
            text: query.text.clone(),
            vector,
            mode: query.mode,
            filter: query.filter.clone(),
            grouping: query.grouping,
            limit: fusion::candidates_for(query.mode, query.k),
            exact: query.exact,
            with_texts: false,
        };
        cost.shards_searched += corpus.shards().len() as u64;
        let read = match self.ranked_and_read(query, &asked, deadline).await? {
            Some(read) => read,
            // Some passages were replaced or forgotten between the two steps. In one step, all are
            // of one state of their shard.
            None => {
                asked.with_texts = true;
                let read = self.ranked_and_read(query, &asked, deadline).await?;
                read.ok_or_else(|| Error::internal("a shard returned passages without texts"))?
            }
        };
        Ok(Retrieved { evidence: read.found, shards_missing: read.shards_missing, cost })
    }

    /// Has all shards rank, fuses the rankings, and reads what is shown of the best passages.
    /// Returns `None` if some of them are gone by then.
    async fn ranked_and_read(
        &self,
        query: &Query,
        asked: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Option<Partial<Vec<Evidence>>>, Error> {
        // A shard that does not answer costs its part of the result, not the whole.
        let until = self.shards.deadline(deadline);
        let asking = |shard: Arc<dyn Shard>| async move {
            Ok((shard.index(), shard.candidates(asked, until).await?))
        };
        let Partial { found, shards_missing } = self.shards.ask_all(asking).await?;
        let mut missing: BTreeSet<ShardIndex> = shards_missing.into_iter().collect();
        let mut rest = fuse(gather(found), query).into_iter();
        let mut read = Vec::with_capacity(query.k);
        loop {
            let of_answering = |found: &Found| !missing.contains(&found.shard);
            let wanted = query.k - read.len();
            let best: Vec<Found> = rest.by_ref().filter(of_answering).take(wanted).collect();
            if best.is_empty() {
                let missing: Vec<_> = missing.into_iter().collect();
                return Ok(Some(Partial::whole(read).missing(missing)));
            }
            let (mut texts, silent) = self.texts(&best, deadline).await?;
            missing.extend(silent);
            for found in best {
                let shown = found.hit.shown.clone().or_else(|| texts.remove(&found.chunk()));
                match shown {
                    Some(shown) => read.push(found.evidence(shown)),
                    None if missing.contains(&found.shard) => {}
                    None => return Ok(None),
                }
            }
        }
    }

    /// Reads what is shown of hits that came without it. Also returns the shards that do not
    /// answer.
    async fn texts(
        &self,
        best: &[Found],
        deadline: Instant,
    ) -> Result<(HashMap<ChunkRef, ChunkText>, Vec<ShardIndex>), Error> {
        let mut unread: BTreeMap<ShardIndex, Vec<ChunkRef>> = BTreeMap::new();
        for found in best.iter().filter(|found| found.hit.shown.is_none()) {
            unread.entry(found.shard).or_default().push(found.chunk());
        }
        if unread.is_empty() {
            return Ok((HashMap::new(), Vec::new()));
        }
        let (until, wanted) = (self.shards.deadline(deadline), &unread);
        let asking = |shard: Arc<dyn Shard>| async move {
            let wanted = wanted.get(&shard.index()).map_or(&[][..], Vec::as_slice);
            shard.chunks(wanted, until).await
        };
        let concerned = |shard| wanted.contains_key(&shard);
        let Partial { found, shards_missing } = self.shards.ask(concerned, asking).await?;
        Ok((found.into_iter().flatten().collect(), shards_missing))
    }
}

/// Candidates of all shards, and the number that fusion needs.
#[derive(Default)]
struct Gathered {
    dense: Vec<(ShardIndex, Hit)>,
    sparse: Vec<(ShardIndex, Hit)>,
    /// BM25 score that all words of the query would make together: the highest of the shards'
    /// attainable scores. `None` if a shard with hits does not know its own. A shard that lacks a
    /// word has a lower attainable score; by that measure its hits on the other words would look
    /// complete, and rank above a hit of the shard that has all words.
    attainable: Option<f32>,
}

/// Combines the candidates of the shards.
fn gather(found: Vec<(ShardIndex, Candidates)>) -> Gathered {
    let mut all = Gathered::default();
    let mut is_attainable_known = true;
    for (shard, candidates) in found {
        all.dense.extend(candidates.dense.into_iter().map(|hit| (shard, hit)));
        let attainable = candidates.attainable.filter(|attainable| *attainable > 0.0);
        is_attainable_known &= attainable.is_some() || candidates.sparse.is_empty();
        all.attainable = all.attainable.into_iter().chain(attainable).reduce(f32::max);
        all.sparse.extend(candidates.sparse.into_iter().map(|hit| (shard, hit)));
    }
    all.attainable = all.attainable.filter(|_| is_attainable_known);
    all
}

/// Hit with its place in the fused ranking.
struct Found {
    shard: ShardIndex,
    hit: Hit,
    score: f32,
    dense_score: Option<f32>,
    sparse_score: Option<f32>,
}

impl Found {
    fn chunk(&self) -> ChunkRef {
        let Hit { document_id, version, ordinal, .. } = &self.hit;
        ChunkRef { document_id: document_id.clone(), version: *version, ordinal: *ordinal }
    }

    fn evidence(self, shown: ChunkText) -> Evidence {
        let Hit { chunk_id, document_id, version, .. } = self.hit;
        let ChunkText { span, text, title, event_time } = shown;
        Evidence {
            chunk_id,
            document_id,
            version,
            title,
            span,
            text,
            event_time,
            score: self.score,
            dense_score: self.dense_score,
            sparse_score: self.sparse_score,
        }
    }
}

/// Fuses the candidates, best first.
fn fuse(gathered: Gathered, query: &Query) -> Vec<Found> {
    let Gathered { mut dense, mut sparse, attainable } = gathered;
    let rule = match attainable {
        None if !sparse.is_empty() => Rule::ReciprocalRank,
        _ => Rule::Coverage,
    };
    dense.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
    sparse.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));

    let key = |hit: &Hit| match query.grouping {
        Grouping::Chunks => (hit.document_id.clone(), Some(hit.chunk_id)),
        Grouping::Documents => (hit.document_id.clone(), None),
    };
    let dense_keys: Vec<_> = dense.iter().map(|(_, hit)| (key(hit), hit.score)).collect();
    let share = |hit: &Hit| hit.score / attainable.unwrap_or(1.0);
    let sparse_keys: Vec<_> = sparse.iter().map(|(_, hit)| (key(hit), share(hit))).collect();
    let fused = fusion::fuse(&dense_keys, &sparse_keys, rule).into_iter();
    let found = |item: fusion::Fused<_>| {
        let in_dense = item.dense.map(|place| &dense[place]);
        let in_sparse = item.sparse.map(|place| &sparse[place]);
        let (shard, hit) = in_dense.or(in_sparse)?;
        let score = match query.mode {
            SearchMode::Hybrid => item.score,
            // A ranking that is not fused keeps its own scores.
            SearchMode::Dense | SearchMode::Sparse => hit.score,
        };
        let score_of = |found: Option<&(ShardIndex, Hit)>| found.map(|(_, hit)| hit.score);
        Some(Found {
            shard: *shard,
            hit: hit.clone(),
            score,
            dense_score: score_of(in_dense),
            sparse_score: score_of(in_sparse),
        })
    };
    fused.filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::{
        ChunkId, Chunking, Corpus, CorpusSettings, Embedding, Encoder, EncoderIdentity, ErrorKind,
        OneEncoder, Span, Timestamp, Version,
    };
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    fn hit(document: &str, ordinal: u32, score: f32) -> Hit {
        let document_id: clew_core::DocumentId = document.parse().unwrap();
        let corpus = "notes".parse().unwrap();
        Hit {
            chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), ordinal),
            document_id,
            version: Version(1),
            ordinal,
            score,
            shown: None,
        }
    }

    fn found(dense: &[(&str, f32)], sparse: &[(&str, f32)], attainable: Option<f32>) -> Candidates {
        let hits = |list: &[(&str, f32)]| list.iter().map(|(d, s)| hit(d, 0, *s)).collect();
        Candidates { dense: hits(dense), sparse: hits(sparse), attainable }
    }

    fn order(answers: Vec<Candidates>, mode: SearchMode) -> Vec<String> {
        let mut query = Query::new("q", 10);
        query.mode = mode;
        let answers = (0..).map(ShardIndex).zip(answers).collect();
        let fused = fuse(gather(answers), &query).into_iter();
        fused.map(|found| found.hit.document_id.to_string()).collect()
    }

    #[test]
    fn a_shard_that_does_not_know_a_word_does_not_hide_what_another_knows() {
        // `a` has all words, in a long text. The shard of `b` lacks the rarest word, and `b` has
        // the others.
        let first = found(&[], &[("a", 9.0)], Some(12.0));
        let second = found(&[], &[("b", 4.5)], Some(5.0));
        for mode in [SearchMode::Sparse, SearchMode::Hybrid] {
            assert_eq!(order(vec![first.clone(), second.clone()], mode), ["a", "b"]);
        }
    }

    #[test]
    fn without_attainable_scores_ranks_decide() {
        let only = found(&[("a", 0.9), ("b", 0.8)], &[("b", 3.0)], None);
        assert_eq!(order(vec![only], SearchMode::Hybrid), ["b", "a"]);
    }

    #[test]
    fn scores_are_compared_where_not_all_shares_are_known() {
        // A shard does not know its attainable score while its text index is being built.
        let indexed = found(&[], &[("a", 4.0)], Some(5.0));
        let other = found(&[], &[("b", 1.9)], None);
        for mode in [SearchMode::Sparse, SearchMode::Hybrid] {
            assert_eq!(order(vec![indexed.clone(), other.clone()], mode), ["a", "b"]);
        }
    }

    #[test]
    fn one_ranking_alone_keeps_its_order() {
        let dense = found(&[("a", 0.9), ("b", 0.2)], &[], None);
        assert_eq!(order(vec![dense], SearchMode::Dense), ["a", "b"]);
        let sparse = found(&[], &[("b", 9.0), ("a", 2.0)], Some(10.0));
        assert_eq!(order(vec![sparse], SearchMode::Sparse), ["b", "a"]);
    }

    /// Encoder that reports each text, and embeds it only when a test permits.
    struct Held {
        identity: EncoderIdentity,
        asked: mpsc::UnboundedSender<String>,
        may: Semaphore,
    }

    #[async_trait]
    impl Encoder for Held {
        fn identity(&self) -> &EncoderIdentity {
            &self.identity
        }

        fn token_spans(&self, _: &str) -> Vec<Span> {
            Vec::new()
        }

        async fn embed(
            &self,
            texts: Vec<String>,
            _: TextKind,
            _: Priority,
            _: Instant,
        ) -> Result<Vec<Embedding>, Error> {
            self.asked.send(texts.concat()).unwrap();
            self.may.acquire().await.unwrap().forget();
            Ok(vec![Embedding { vector: vec![1.0], tokens: 1, truncated: false }])
        }
    }

    #[tokio::test]
    async fn a_storm_of_one_tenant_is_refused_before_it_is_embedded_and_another_has_its_turn() {
        let (asked, mut embedded) = mpsc::unbounded_channel();
        let identity = EncoderIdentity {
            model: "held".to_owned(),
            revision: "1".to_owned(),
            dimension: 1,
            max_tokens: 8,
        };
        let encoder = Arc::new(Held { identity, asked, may: Semaphore::new(0) });
        let queue = FairQueue::new("searches", 1, Duration::from_secs(60)).bounded_as("test", 2);
        let of = |tenant: &str| {
            let name = format!("{tenant}.notes").parse().unwrap();
            let chunking = Chunking::Tokens { max_tokens: 8, overlap_tokens: 0 };
            let (encoder_of, made) = (encoder.identity.clone(), Timestamp::from_micros(0));
            let settings = CorpusSettings::plain(name, 0, chunking, encoder_of, made);
            let corpus = Arc::new(Corpus::new(Arc::new(settings), Vec::new()));
            let encoders = Arc::new(OneEncoder(Arc::clone(&encoder) as Arc<dyn Encoder>));
            let shards = Shards::new(corpus, Duration::from_secs(60));
            Scatter { shards, encoders, queue: queue.clone(), limits: Limits::default() }
        };
        let search = |tenant: &'static str| {
            let scatter = of(tenant);
            let deadline = Instant::now() + Duration::from_secs(60);
            async move { scatter.retrieve(&Query::new(tenant, 1), deadline).await }
        };
        // One search is embedded and two wait; then comes one of another tenant.
        let mut storm: Vec<_> = (0..3).map(|_| tokio::spawn(search("stormy"))).collect();
        assert_eq!(embedded.recv().await.unwrap(), "stormy");
        while queue.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = search("stormy").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        assert!(refused.retry_after().is_some());
        storm.push(tokio::spawn(search("calm")));
        while queue.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        encoder.may.add_permits(4);
        for search in storm {
            search.await.unwrap().unwrap();
        }
        let rest: Vec<_> = std::iter::from_fn(|| embedded.try_recv().ok()).collect();
        // The refused search is not among them, and the tenants take turns.
        assert_eq!(rest, ["stormy", "calm", "stormy"]);
    }
}
