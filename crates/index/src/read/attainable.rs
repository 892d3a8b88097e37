//! Upper bound of the BM25 score that a query can reach in a table.
//!
//! BM25 (k1 = 1.2, as the storage engine computes it) gives a word of the query at most
//! `idf * (k1 + 1)`, however often a row holds it. The sum over the query's words that the text
//! index knows bounds every score. A row's share of that bound says how much of the query the row
//! covers, whatever the words and the size of the table.

use std::collections::BTreeSet;

use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::inverted::InvertedIndex;
use lance_index::scalar::inverted::query::collect_query_tokens;
use lancedb::Table;

use crate::error::{Operation, Result};
use crate::table::engine::failed;
use crate::table::kind::TableKind;

/// Saturation of word counts (k1) in the engine's BM25.
const K1: f32 = 1.2;

/// Returns the score that no row of `table` can exceed for `text`, or `None` if the text index
/// knows none of its words.
pub(crate) async fn attainable_score(
    kind: TableKind,
    table: &Table,
    text: &str,
) -> Result<Option<f32>> {
    let Some(wanted) = kind.text_index() else { return Ok(None) };
    let Some(native) = table.dataset() else { return Ok(None) };
    let failed = || failed(kind, Operation::Search);
    let dataset = native.get().await.map_err(failed())?;
    let segments = dataset
        .load_indices_by_name(&wanted.name())
        .await
        .map_err(|error| failed()(error.into()))?;
    let mut rows = 0;
    let mut words: Vec<String> = Vec::new();
    let mut frequencies: Vec<usize> = Vec::new();
    for segment in segments {
        let opened = dataset
            .open_generic_index(&wanted.column, &segment.uuid, &NoOpMetricsCollector)
            .await
            .map_err(|error| failed()(error.into()))?;
        let Some(index) = opened.as_any().downcast_ref::<InvertedIndex>() else { continue };
        if words.is_empty() {
            let tokens = collect_query_tokens(text, &mut index.tokenizer());
            let distinct: BTreeSet<String> =
                (&tokens).into_iter().map(ToString::to_string).collect();
            words = distinct.into_iter().collect();
            frequencies = vec![0; words.len()];
        }
        let (_, segment_rows, counts) = index
            .bm25_stats_for_terms(&words, None)
            .await
            .map_err(|error| failed()(error.into()))?;
        rows += segment_rows;
        for (total, count) in frequencies.iter_mut().zip(counts) {
            *total += count;
        }
    }
    let known = frequencies.into_iter().filter(|&frequency| frequency > 0);
    let score: f32 =
        known.map(|frequency| (K1 + 1.0) * inverse_document_frequency(frequency, rows)).sum();
    Ok((score > 0.0).then_some(score))
}

/// Returns `ln(1 + (N - df + 0.5) / (df + 0.5))`, as the engine's BM25 does.
fn inverse_document_frequency(frequency: usize, rows: usize) -> f32 {
    let (frequency, rows) = (frequency as f32, rows as f32);
    ((rows - frequency + 0.5) / (frequency + 0.5)).max(0.0).ln_1p()
}
