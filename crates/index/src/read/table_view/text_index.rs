//! The text index of a table, with the rows that it does not cover yet.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::try_join_all;
use lance::Dataset;
use lance::index::DatasetIndexInternalExt;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::inverted::document_tokenizer::LanceTokenizer;
use lance_index::scalar::inverted::query::{
    FtsSearchParams, Operator, Tokens, collect_query_tokens,
};
use lance_index::scalar::inverted::{InvertedIndex, MemBM25Scorer, Scorer, prepare_bm25_query};
use roaring::RoaringBitmap;

use crate::error::{Operation, Result};
use crate::read::resident::fragment::Fragment;
use crate::read::resident::masks::Allowed;
use crate::read::resident::{parts, row_at};
use crate::read::table_view::segments::{masked, segments_and_coverage};
use crate::table::engine::run;
use crate::table::kind::TableKind;

/// Saturation of word counts (k1) in the engine's BM25.
const K1: f32 = 1.2;

/// Rows that hold words of a query, best first, with their BM25 scores.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    pub rows: Vec<(u64, f32)>,
    /// Whether no other row holds any of the words.
    pub is_all: bool,
    /// Score that no row can exceed, if any row holds any of the words.
    ///
    /// BM25 gives a word of the query at most `idf * (k1 + 1)`, however often a row holds it. The
    /// sum over the query's words that any row holds bounds every score. A row's share of that
    /// bound says how much of the query the row covers, whatever the words and the size of the
    /// table.
    pub attainable: Option<f32>,
}

/// Text index of a table: its segments, in the order in which they were built.
#[derive(Debug)]
pub(crate) struct TextIndex {
    kind: TableKind,
    segments: Vec<Arc<InvertedIndex>>,
    /// Fragments that the segments cover.
    covered: RoaringBitmap,
}

impl TextIndex {
    /// Opens the text index of a table, if it has one.
    pub(crate) async fn open(kind: TableKind, dataset: &Dataset) -> Result<Option<Self>> {
        let Some(wanted) = kind.text_index() else { return Ok(None) };
        let open = async {
            let (stored, covered) = segments_and_coverage(dataset, &wanted.name()).await?;
            let mut segments = Vec::with_capacity(stored.len());
            for segment in &stored {
                let metrics = &NoOpMetricsCollector;
                let index =
                    dataset.open_scalar_index(&wanted.column, &segment.uuid, metrics).await?;
                if let Some(index) = index.as_any().downcast_ref::<InvertedIndex>() {
                    segments.push(Arc::new(index.clone()));
                }
            }
            Ok((segments, covered))
        };
        let (segments, covered) = run(kind, Operation::Search, open).await?;
        Ok((!segments.is_empty()).then_some(Self { kind, segments, covered }))
    }

    /// Returns whether the index covers the rows of a fragment.
    pub(crate) fn covers(&self, fragment: u32) -> bool {
        self.covered.contains(fragment)
    }

    /// Returns what splits texts into words as the index does.
    pub(crate) fn tokenizer(&self) -> Box<dyn LanceTokenizer> {
        self.segments[0].tokenizer()
    }

    /// Returns the best `limit` of the allowed rows for the words of a text, best first. `fresh`
    /// are the fragments that the index does not cover; their words are in memory. All rows are
    /// scored by the statistics of all.
    pub(crate) async fn matching(
        &self,
        text: &str,
        fresh: &[Arc<Fragment>],
        allowed: &Allowed,
        limit: usize,
    ) -> Result<Matching> {
        let tokens = collect_query_tokens(text, &mut self.tokenizer());
        if tokens.is_empty() {
            return Ok(Matching { is_all: true, ..Matching::default() });
        }
        let params = FtsSearchParams::new().with_limit(Some(limit));
        let prepare = async {
            let prepared =
                prepare_bm25_query(&self.segments, tokens.clone(), &params, None, None).await?;
            let Some(scorer) = with_fresh(prepared.scorer(), &tokens, fresh) else {
                return Ok(prepared);
            };
            let scorer = Some(Arc::new(scorer));
            Ok(prepare_bm25_query(&self.segments, tokens.clone(), &params, None, scorer).await?)
        };
        let prepared = Arc::new(run(self.kind, Operation::Search, prepare).await?);
        let scorer = Arc::clone(prepared.scorer());
        let params = Arc::new(params);
        let filter = masked(allowed);
        let searching = self.segments.iter().map(|segment| {
            let (prepared, params) = (Arc::clone(&prepared), Arc::clone(&params));
            let (filter, metrics) = (filter.clone(), Arc::new(NoOpMetricsCollector));
            segment.bm25_search_prepared(prepared, params, Operator::Or, filter, metrics)
        });
        let searching = async { Ok(try_join_all(searching).await?) };
        let found = run(self.kind, Operation::Search, searching).await?;
        // Counted with the rows of fragments that a segment covers no more, which took a place.
        let mut count: usize = found.iter().map(|(rows, _)| rows.len()).sum();
        let found = found.into_iter().flat_map(|(rows, scores)| rows.into_iter().zip(scores));
        let mut rows: Vec<(u64, f32)> =
            found.filter(|(row, _)| self.covers(parts(*row).0)).collect();
        for fragment in fresh {
            let matching = matching_in(fragment, &tokens, &scorer, allowed);
            count += matching.len();
            rows.extend(matching);
        }
        rows.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        rows.truncate(limit);
        Ok(Matching { rows, is_all: count < limit, attainable: attainable(&tokens, &scorer) })
    }
}

/// Adds the fragments' statistics to those of the index. Returns `None` if they have none.
fn with_fresh(
    indexed: &MemBM25Scorer,
    tokens: &Tokens,
    fresh: &[Arc<Fragment>],
) -> Option<MemBM25Scorer> {
    let words = || fresh.iter().filter_map(|fragment| fragment.words.get());
    let (rows, total) = words()
        .map(|words| words.size())
        .fold((0, 0), |(rows, total), (more, length)| (rows + more, total + length));
    if rows == 0 {
        return None;
    }
    let mut scorer = indexed.clone();
    scorer.num_docs += rows;
    scorer.total_tokens += total;
    let distinct: BTreeSet<&String> = tokens.into_iter().collect();
    for word in distinct {
        let more: usize = words().map(|words| words.frequency(word)).sum();
        *scorer.token_docs.entry(word.clone()).or_default() += more;
    }
    Some(scorer)
}

/// Returns the allowed rows of a fragment that hold any of the words, with their scores.
fn matching_in(
    fragment: &Fragment,
    tokens: &Tokens,
    scorer: &MemBM25Scorer,
    allowed: &Allowed,
) -> Vec<(u64, f32)> {
    let Some(words) = fragment.words.get() else { return Vec::new() };
    let mut scores = HashMap::new();
    let is_allowed = |place| allowed.has(row_at(fragment.id(), place));
    // A word that a query repeats counts as often, as it does in the index.
    for word in tokens {
        words.score(word, scorer, is_allowed, &mut scores);
    }
    scores.into_iter().map(|(place, score)| (row_at(fragment.id(), place), score)).collect()
}

fn attainable(tokens: &Tokens, scorer: &MemBM25Scorer) -> Option<f32> {
    let distinct: BTreeSet<&String> = tokens.into_iter().collect();
    let score: f32 = distinct.into_iter().map(|word| (K1 + 1.0) * scorer.query_weight(word)).sum();
    (score > 0.0).then_some(score)
}
