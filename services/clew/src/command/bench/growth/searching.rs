//! Measurements of searches.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use clew_core::{
    CandidateQuery, ChunkId, DocumentState, Filter, Grouping, ListQuery, SearchMode, SearchedView,
};
use clew_index::ShardView;
use tokio::task::JoinHandle;

use crate::command::bench::growth::cost::{self, WorkCost};
use crate::command::bench::growth::documents::{tenth_of_all, under_a_condition};
use crate::command::bench::growth::encoder::embed;
use crate::command::bench::growth::measured::{Measured, REPEATS};
use crate::command::bench::growth::report::{Amount, CALM_SEARCH, RECALL};

/// Number of searches of a kind.
const SEARCHES: u64 = 200;
/// Number of searches before those, which read what later ones find in memory.
const WARM_UP: u64 = 20;
/// Number of questions by which recall is measured.
const QUESTIONS: u64 = 50;
/// Number of the first of them. None of them decides how much of the index searches read.
const UNASKED: u64 = 1 << 32;
/// Results by which recall is measured.
const NEAREST: usize = 10;
/// Candidates of a ranking, as many as a search for ten passages asks a shard for.
const CANDIDATES: usize = 100;
/// Documents of a page.
const PAGE: usize = 100;
/// Share of the nearest chunks that searches are to find: the default of a retriever.
const WANTED_RECALL: f32 = 0.99;
/// Least number of searches whose p99 says something.
const FEW: usize = 20;

impl Measured {
    /// Measures lists of documents.
    pub async fn measure_lists(&mut self) -> anyhow::Result<()> {
        let cost = self.list_due();
        self.add("list due work while nothing waits", cost);
        for (work, state) in [
            ("list a page of 100 documents", None),
            (
                "list the documents that were set aside, of which there are none",
                Some(DocumentState::SetAside),
            ),
        ] {
            let query = ListQuery { after: None, limit: PAGE, state };
            let reader = self.reader();
            let cost = self.meter.average(REPEATS, || drop(reader.list(&query)));
            self.add(work, cost);
        }
        Ok(())
    }

    /// Measures searches of each kind.
    pub async fn measure_searches(&mut self) -> anyhow::Result<()> {
        let cost = self.search(&self.view(), &self.query(0)?).await?;
        self.add("hybrid search, the first after opening", cost);
        let none = Filter::default;
        for (mode, filter, half, most) in [
            (SearchMode::Dense, none(), "dense search, p50", "dense search, p99"),
            (SearchMode::Sparse, none(), "sparse search, p50", "sparse search, p99"),
            (SearchMode::Hybrid, none(), "hybrid search, p50", CALM_SEARCH),
            (
                SearchMode::Hybrid,
                tenth_of_all(3)?,
                "hybrid search in a tenth of the documents, p50",
                "hybrid search in a tenth of the documents, p99",
            ),
            (
                SearchMode::Hybrid,
                under_a_condition(3)?,
                "hybrid search under a condition that a tenth meets, p50",
                "hybrid search under a condition that a tenth meets, p99",
            ),
        ] {
            let of = |query| CandidateQuery { mode, filter: filter.clone(), ..query };
            let view = self.view();
            if !filter.is_empty() {
                let cost = self.search(&view, &of(self.query(0)?)).await?;
                let first = match filter.condition {
                    None => "hybrid search, the first with a filter",
                    Some(_) => "hybrid search, the first with a condition",
                };
                self.add(first, cost);
            }
            self.warm_up(&view, &of).await?;
            let mut costs = Vec::with_capacity(SEARCHES as usize);
            for number in WARM_UP..WARM_UP + SEARCHES {
                costs.push(self.search(&view, &of(self.query(number)?)).await?);
            }
            let (at_half, at_most) = cost::half_and_most(costs);
            self.add(half, at_half);
            self.add(most, at_most);
        }
        Ok(())
    }

    /// Measures the share of the ten nearest chunks that a search finds, against comparing all
    /// vectors of the shard.
    pub async fn measure_recall(&mut self, chunks: u64) -> anyhow::Result<()> {
        let nearest = |query| CandidateQuery { mode: SearchMode::Dense, limit: NEAREST, ..query };
        let view = self.view();
        self.warm_up(&view, &nearest).await?;
        let (mut found, mut all) = (0, 0);
        for number in 0..QUESTIONS {
            let query = nearest(self.query(UNASKED + number)?);
            let proposed = chunks_of(&view, &query).await?;
            let exact = chunks_of(&view, &CandidateQuery { exact: true, ..query }).await?;
            found += exact.intersection(&proposed).count();
            all += exact.len();
        }
        ensure!(all > 0, "expected searches to find something");
        let share = found as f64 / all as f64;
        eprintln!("{chunks} chunks: {RECALL}: {share:.3}");
        self.add_figure(RECALL, chunks, Amount::Share(share));
        Ok(())
    }

    /// Searches until what searches read is in memory, and does what they leave to be done, as a
    /// server does beside them.
    async fn warm_up(
        &self,
        view: &ShardView,
        of: &impl Fn(CandidateQuery) -> CandidateQuery,
    ) -> anyhow::Result<()> {
        for number in 0..WARM_UP {
            self.search(view, &of(self.query(number)?)).await?;
        }
        if view.reader().take_upkeep() {
            Box::pin(view.reader().upkeep(WANTED_RECALL)).await?;
        }
        Ok(())
    }

    async fn search(&self, view: &ShardView, query: &CandidateQuery) -> anyhow::Result<WorkCost> {
        let (found, cost) = Box::pin(self.meter.measure(view.candidates(query))).await;
        let found = found?;
        let is_empty = found.dense.is_empty() && found.sparse.is_empty();
        ensure!(!is_empty, "expected a search to find something");
        Ok(cost)
    }

    /// Returns a question about one of the documents that the shard was filled with.
    fn query(&self, number: u64) -> anyhow::Result<CandidateQuery> {
        let text = self.supply.question(self.filled, number)?;
        Ok(CandidateQuery {
            vector: Some(embed(&text)),
            text,
            encoder: String::new(),
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: CANDIDATES,
            exact: false,
            with_texts: false,
            view: SearchedView::Newest,
        })
    }

    /// Begins to search without a pause, until [`SearchesBeside::end`].
    ///
    /// # Errors
    /// Returns an error if a question cannot be made.
    pub fn search_beside(&self) -> anyhow::Result<SearchesBeside> {
        let queries: Vec<CandidateQuery> =
            (0..SEARCHES).map(|number| self.query(number)).collect::<anyhow::Result<_>>()?;
        let (view, is_over) = (self.view(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&is_over);
        let searching = async move {
            let mut costs = Vec::new();
            for query in queries.iter().cycle() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                Box::pin(view.candidates(query)).await?;
                let seconds = began.elapsed().as_secs_f64();
                costs.push(WorkCost { seconds, ..WorkCost::default() });
                if view.reader().take_upkeep() {
                    Box::pin(view.reader().upkeep(WANTED_RECALL)).await?;
                }
            }
            Ok(costs)
        };
        Ok(SearchesBeside { is_over, searching: tokio::spawn(searching) })
    }
}

/// Searches that go on beside other work.
pub struct SearchesBeside {
    is_over: Arc<AtomicBool>,
    searching: JoinHandle<anyhow::Result<Vec<WorkCost>>>,
}

impl SearchesBeside {
    /// Ends the searches. Returns the time that 99 % of them did not exceed, unless there were too
    /// few.
    ///
    /// # Errors
    /// Returns what a search returned.
    pub async fn end(self) -> anyhow::Result<Option<WorkCost>> {
        self.is_over.store(true, Ordering::Relaxed);
        let costs = self.searching.await.context("searching panicked")??;
        Ok((costs.len() >= FEW).then(|| cost::half_and_most(costs).1))
    }
}

async fn chunks_of(view: &ShardView, query: &CandidateQuery) -> anyhow::Result<HashSet<ChunkId>> {
    let found = Box::pin(view.candidates(query)).await?;
    Ok(found.dense.into_iter().map(|hit| hit.chunk_id).collect())
}
