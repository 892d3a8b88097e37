//! Search over all shards of a corpus: embed once, have every shard rank, fuse, and read the texts
//! of the best. Several searches go through these steps together.
//!
//! A page of a search ([`crate::pages`]) is made anew: the question is embedded (from the cache, if
//! there is one), every shard ranks as many candidates as all pages so far have results, this one
//! included, and what earlier pages returned is left out. Only the texts of the page are read. So a
//! page costs as much as a search for that many results, without their texts, and reading `n`
//! results by pages of `k` has each shard rank `n²/2k` candidates.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::fusion::{self, Rule};
use clew_core::{
    Account, CandidateQuery, Candidates, ChunkRef, ChunkText, Cost, Embedding, Encoders, Error,
    Evidence, Grouping, Hit, Limits, Partial, Priority, Query, Retrieved, Retriever, SearchMode,
    SearchedView, Shard, ShardIndex, TextKind, ViewName,
};
use clew_runtime::fair_queue::FairQueue;
use clew_runtime::timing::{Part, measured};

use clew_telemetry::child;
use tracing::Instrument;

use crate::Backends;
use crate::pages::PageStart;
use crate::shards::Shards;

/// Page of the results of a search.
#[derive(Debug)]
pub(crate) struct Page {
    /// Results of the page.
    pub retrieved: Retrieved,
    /// Where the next page begins; `None` if this one is the last.
    pub next: Option<PageStart>,
}

/// Retriever of one corpus.
#[derive(Clone)]
pub(crate) struct Scatter {
    pub shards: Shards,
    pub encoders: Arc<dyn Encoders>,
    /// Fair queue of searches. A search holds its slot while its question is embedded and its
    /// shards are asked, and waits for nothing that needs another slot. A batch of searches takes
    /// as many turns as it has searches.
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
        Ok(self.one(query, None, deadline).await?.retrieved)
    }

    async fn retrieve_all(
        &self,
        queries: &[Query],
        deadline: Instant,
    ) -> Result<Vec<Retrieved>, Error> {
        Query::check_all(queries, &self.limits)?;
        let pages = self.search(queries, None, deadline).await?.into_iter();
        Ok(pages.map(|page| page.retrieved).collect())
    }
}

impl Scatter {
    /// Returns the page of up to `query.k` results that begins at `start`. No page goes beyond as
    /// many results as one search may have ([`Limits::results`]), those of earlier pages included.
    ///
    /// # Errors
    /// Returns the errors of [`Retriever::retrieve`].
    pub async fn page(
        &self,
        query: &Query,
        start: &PageStart,
        deadline: Instant,
    ) -> Result<Page, Error> {
        query.check(&self.limits)?;
        let k = query.k.min(self.limits.results.saturating_sub(start.len()));
        self.one(&Query { k, ..query.clone() }, Some(start), deadline).await
    }

    /// Does one search, or makes the page of it that begins at `start`.
    async fn one(
        &self,
        query: &Query,
        start: Option<&PageStart>,
        deadline: Instant,
    ) -> Result<Page, Error> {
        let found = self.search(std::slice::from_ref(query), start, deadline).await?.pop();
        found.ok_or_else(|| Error::internal("a search returned nothing"))
    }

    /// Searches for queries that are checked, all at once. Takes as many turns in the fair queue
    /// as there are queries, with one slot: the encoder and the shards, which do the work, have
    /// queues of their own. With `start`, makes the page of each that begins there.
    async fn search(
        &self,
        queries: &[Query],
        start: Option<&PageStart>,
        deadline: Instant,
    ) -> Result<Vec<Page>, Error> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let shards = self.shards.corpus.shards().len();
        let k = queries.iter().map(|query| query.k).sum::<usize>();
        let span = child(|| tracing::info_span!("search", queries = queries.len(), shards, k));
        self.search_within(queries, start, deadline).instrument(span).await
    }

    async fn search_within(
        &self,
        queries: &[Query],
        start: Option<&PageStart>,
        deadline: Instant,
    ) -> Result<Vec<Page>, Error> {
        let corpus = &self.shards.corpus;
        let whose = corpus.settings().name.takes_turns_as();
        // Queue before embedding, so that a refused search costs nothing.
        let entering = self.queue.enter_for(queries.len(), whose, deadline);
        let _slot = measured(Part::Queue, entering).await?;
        let embeddings = self.embedded(queries, deadline).await?;
        let fingerprint = corpus.settings().encoder.fingerprint();
        let (mut asked, mut pages) = (Vec::new(), Vec::new());
        for (query, embedding) in queries.iter().zip(embeddings) {
            let cost = Cost {
                embedded_tokens: embedding.as_ref().map_or(0, |it| u64::from(it.tokens)),
                shards_searched: corpus.shards().len() as u64,
                ..Cost::default()
            };
            let retrieved = Retrieved { cost, ..Retrieved::default() };
            pages.push(Page { retrieved, next: None });
            asked.push(CandidateQuery {
                encoder: fingerprint.clone(),
                text: query.text.clone(),
                vector: embedding.map(|embedding| embedding.vector),
                mode: query.mode,
                filter: query.filter.clone(),
                grouping: query.grouping,
                limit: self.candidates(query, start),
                exact: query.exact,
                with_texts: false,
                view: SearchedView::Newest,
            });
        }
        let mut places: Vec<usize> = (0..queries.len()).collect();
        for with_texts in [false, true] {
            let these: Vec<&Query> = places.iter().map(|place| &queries[*place]).collect();
            let read = self.ranked_and_read(&these, &asked, start, deadline).await?;
            let (mut outdated, mut unread) = (Vec::new(), Vec::new());
            for ((place, asked), read) in places.into_iter().zip(asked).zip(read) {
                match read {
                    Some(Passages {
                        found: Partial { found, shards_missing },
                        views,
                        has_more,
                    }) => {
                        let returned = start.map_or(0, PageStart::len) + found.len();
                        let has_more = has_more && returned < self.limits.results;
                        let grouping = queries[place].grouping;
                        let after = |start: &PageStart| start.after(&found, grouping, views);
                        pages[place].next = start.filter(|_| has_more).map(after);
                        pages[place].retrieved.evidence = found;
                        pages[place].retrieved.shards_missing = shards_missing;
                    }
                    None if with_texts => {
                        return Err(Error::internal("a shard returned passages without texts"));
                    }
                    // Some passages were replaced or forgotten between the two steps. In one step,
                    // all are of one state of their shard.
                    None => {
                        outdated.push(place);
                        unread.push(CandidateQuery { with_texts: true, ..asked });
                    }
                }
            }
            (places, asked) = (outdated, unread);
            if places.is_empty() {
                break;
            }
        }
        Ok(pages)
    }

    /// Returns how many candidates of each ranking a query needs, or its page that begins at
    /// `start`. One more than a page has of a ranking that is not fused, which shows whether there
    /// is another page.
    fn candidates(&self, query: &Query, start: Option<&PageStart>) -> usize {
        let Some(start) = start else { return fusion::candidates_for(query.mode, query.k) };
        let wanted = start.len() + query.k;
        match query.mode {
            SearchMode::Dense | SearchMode::Sparse => (wanted + 1).min(self.limits.results),
            SearchMode::Hybrid => fusion::candidates_for(query.mode, wanted),
        }
    }

    /// Embeds the texts of those queries whose modes need it, in one call.
    async fn embedded(
        &self,
        queries: &[Query],
        deadline: Instant,
    ) -> Result<Vec<Option<Embedding>>, Error> {
        let texts: Vec<String> = queries
            .iter()
            .filter(|query| query.mode.uses_embeddings())
            .map(|query| query.text.clone())
            .collect();
        let wanted = texts.len();
        let mut embeddings = Vec::new();
        if wanted > 0 {
            let encoder = self.encoders.of(&self.shards.corpus.settings().encoder, deadline);
            let encoder = encoder.await?;
            embeddings =
                encoder.embed(texts, TextKind::Query, Priority::Interactive, deadline).await?;
        }
        if embeddings.len() != wanted {
            return Err(Error::internal("the encoder returned another number of vectors"));
        }
        let mut embeddings = embeddings.into_iter();
        let embedding =
            |query: &Query| query.mode.uses_embeddings().then(|| embeddings.next()).flatten();
        Ok(queries.iter().map(embedding).collect())
    }

    /// Has all shards rank for each query, fuses the rankings, and reads what is shown of the best
    /// passages, on the page that begins at `start`. Returns `None` for a query if some of its
    /// passages are gone by then.
    async fn ranked_and_read(
        &self,
        queries: &[&Query],
        asked: &[CandidateQuery],
        start: Option<&PageStart>,
        deadline: Instant,
    ) -> Result<Vec<Option<Passages>>, Error> {
        // A shard that does not answer costs its part of the results, not the whole.
        let until = self.shards.deadline(deadline);
        let asking = |shard: Arc<dyn Shard>| async move {
            let found = match start {
                None => shard.candidates_of_all(asked, until).await?,
                Some(start) => {
                    let view = SearchedView::after(start.views.get(&shard.index()).copied());
                    let of_view = |asked: &CandidateQuery| CandidateQuery { view, ..asked.clone() };
                    let asked: Vec<CandidateQuery> = asked.iter().map(of_view).collect();
                    shard.candidates_of_all(&asked, until).await?
                }
            };
            match found.len() == asked.len() {
                true => Ok((shard.index(), found)),
                false => Err(Error::internal("a shard returned another number of results")),
            }
        };
        let Partial { found, shards_missing } = self.shards.ask_all(asking).await?;
        let missing: BTreeSet<ShardIndex> = shards_missing.into_iter().collect();
        let mut of_queries: Vec<Vec<(ShardIndex, Candidates)>> =
            queries.iter().map(|_| Vec::new()).collect();
        for (shard, candidates) in found {
            for (of_query, candidates) in of_queries.iter_mut().zip(candidates) {
                of_query.push((shard, candidates));
            }
        }
        let mut rankings: Vec<Ranking> = queries
            .iter()
            .zip(asked)
            .zip(of_queries)
            .map(|((query, asked), found)| {
                let views = found.iter().filter_map(|(shard, of)| Some((*shard, of.view?)));
                let views = views.collect();
                let is_full = |hits: &[Hit]| hits.len() >= asked.limit;
                let is_cut = |of: &Candidates| is_full(&of.dense) || is_full(&of.sparse);
                let reaches_end = start.map_or(0, PageStart::len) + query.k >= asked.limit;
                let may_lack = reaches_end && found.iter().any(|(_, of)| is_cut(of));
                let is_new = |found: &Found| {
                    start.is_none_or(|start| !start.has_returned(&found.hit, query.grouping))
                };
                let fused: Vec<Found> =
                    fuse(gather(found), query).into_iter().filter(is_new).collect();
                Ranking {
                    rest: fused.into_iter(),
                    wanted: query.k,
                    read: Vec::with_capacity(query.k),
                    missing: missing.clone(),
                    is_outdated: false,
                    views,
                    may_lack,
                }
            })
            .collect();
        loop {
            let best: Vec<Vec<Found>> = rankings.iter_mut().map(Ranking::next_best).collect();
            if best.iter().all(Vec::is_empty) {
                return Ok(rankings.into_iter().map(Ranking::finish).collect());
            }
            // Only a page has names of views, and it comes alone.
            let views: BTreeMap<ShardIndex, ViewName> =
                rankings.iter().flat_map(|ranking| ranking.views.clone()).collect();
            let (texts, silent) = self.texts(best.iter().flatten(), &views, deadline).await?;
            let silent: BTreeSet<ShardIndex> = silent.into_iter().collect();
            for (ranking, best) in rankings.iter_mut().zip(best) {
                ranking.take(best, &texts, &silent);
            }
        }
    }

    /// Reads what is shown of hits that came without it: each chunk once, and asking each shard
    /// once, for the state of `views` in which it found them. Also returns the shards that do not
    /// answer.
    async fn texts(
        &self,
        best: impl Iterator<Item = &Found>,
        views: &BTreeMap<ShardIndex, ViewName>,
        deadline: Instant,
    ) -> Result<(HashMap<ChunkRef, ChunkText>, Vec<ShardIndex>), Error> {
        let mut unread: BTreeMap<ShardIndex, Vec<ChunkRef>> = BTreeMap::new();
        let mut known = HashSet::new();
        for found in best.filter(|found| found.hit.shown.is_none()) {
            if known.insert(found.chunk()) {
                unread.entry(found.shard).or_default().push(found.chunk());
            }
        }
        if unread.is_empty() {
            return Ok((HashMap::new(), Vec::new()));
        }
        let (until, wanted) = (self.shards.deadline(deadline), &unread);
        let asking = |shard: Arc<dyn Shard>| async move {
            let wanted = wanted.get(&shard.index()).map_or(&[][..], Vec::as_slice);
            shard.chunks(wanted, views.get(&shard.index()).copied(), until).await
        };
        let concerned = |shard| wanted.contains_key(&shard);
        let Partial { found, shards_missing } = self.shards.ask(concerned, asking).await?;
        Ok((found.into_iter().flatten().collect(), shards_missing))
    }
}

/// Passages of one query.
struct Passages {
    found: Partial<Vec<Evidence>>,
    /// Names of the states of the shards that were ranked.
    views: BTreeMap<ShardIndex, ViewName>,
    /// Whether there may be others, which rank behind these.
    has_more: bool,
}

/// Fused ranking of one query while its passages are read.
struct Ranking {
    /// Hits that were not looked at yet, best first.
    rest: std::vec::IntoIter<Found>,
    /// Number of passages that are wanted.
    wanted: usize,
    /// Passages that were read, best first.
    read: Vec<Evidence>,
    /// Shards that did not rank, or did not show a passage of this ranking.
    missing: BTreeSet<ShardIndex>,
    /// Whether a shard that answers did not show a passage.
    is_outdated: bool,
    /// Names of the states of the shards that were ranked.
    views: BTreeMap<ShardIndex, ViewName>,
    /// Whether a shard may have hits behind those that it returned, all of which are needed.
    may_lack: bool,
}

impl Ranking {
    /// Takes as many of the best hits as passages are lacking.
    fn next_best(&mut self) -> Vec<Found> {
        let lacking = if self.is_outdated { 0 } else { self.wanted - self.read.len() };
        let missing = &self.missing;
        let of_answering = |found: &Found| !missing.contains(&found.shard);
        self.rest.by_ref().filter(of_answering).take(lacking).collect()
    }

    /// Takes up what is shown of hits, in their order.
    fn take(
        &mut self,
        best: Vec<Found>,
        texts: &HashMap<ChunkRef, ChunkText>,
        silent: &BTreeSet<ShardIndex>,
    ) {
        for found in best {
            let shown = found.hit.shown.clone().or_else(|| texts.get(&found.chunk()).cloned());
            match shown {
                Some(shown) => self.read.push(found.evidence(shown)),
                None if silent.contains(&found.shard) => {
                    self.missing.insert(found.shard);
                }
                None => self.is_outdated = true,
            }
        }
    }

    /// Returns the passages, unless some of them are gone.
    fn finish(mut self) -> Option<Passages> {
        if self.is_outdated {
            return None;
        }
        let is_left = self.rest.any(|found| !self.missing.contains(&found.shard));
        let has_more = is_left || self.may_lack;
        let missing: Vec<ShardIndex> = self.missing.into_iter().collect();
        let found = Partial::whole(self.read).missing(missing);
        Some(Passages { found, views: self.views, has_more })
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
