//! Lists the chunks of a document.

use std::collections::BTreeMap;

use clew_core::{Access, ChunkKind, ChunkListQuery, ListedChunk, ListedChunks};
use lance::dataset::ProjectionRequest;

use crate::error::{Operation, Result};
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::run;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

/// Returns a page of the chunks of a document that searches find, or `None` if there is no document
/// of this id. `kind` says of what kind a chunk is, by its ordinal.
pub(crate) async fn chunks_of(
    snapshot: &Snapshot,
    access: &Access,
    query: &ChunkListQuery,
    kind: impl Fn(u32) -> ChunkKind,
) -> Result<Option<ListedChunks>> {
    let seen = snapshot.catalogue.get(&query.document_id);
    let Some(record) = seen.filter(|it| it.newest().is_some() && it.is_seen_by(access)) else {
        return Ok(None);
    };
    let Some(live) = record.live() else { return Ok(Some(ListedChunks::default())) };
    let fragments = snapshot.chunk_rows.fragments().await?;
    let rows = fragments.rows_of(&query.document_id);
    let shown = rows.filter(|(_, owner, _)| snapshot.shows(access, owner));
    let by_ordinal: BTreeMap<u32, u64> = shown.map(|(row, _, ordinal)| (ordinal, row)).collect();
    let mut rows: Vec<u64> =
        by_ordinal.range(query.from..).take(query.limit).map(|(_, row)| *row).collect();
    // Rows are read in the order in which they are stored.
    rows.sort_unstable();
    let mut chunks = read(snapshot, &rows, query.with_texts).await?;
    chunks.sort_unstable_by_key(|chunk| chunk.ordinal);
    for chunk in &mut chunks {
        chunk.kind = kind(chunk.ordinal);
    }
    Ok(Some(ListedChunks { version: Some(live.version), chunk_count: live.chunks, chunks }))
}

async fn read(snapshot: &Snapshot, rows: &[u64], with_texts: bool) -> Result<Vec<ListedChunk>> {
    use column::*;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let dataset = snapshot.chunk_rows.dataset();
    let mut columns = vec![ORDINAL, SPAN_START, SPAN_END, TOKENS];
    if with_texts {
        columns.extend([TEXT, KEY_TEXT]);
    }
    let read = async {
        let columns = ProjectionRequest::from_columns(columns, dataset.schema());
        Ok(dataset.take_builder(rows, columns)?.execute().await?)
    };
    let batch = run(TableKind::Chunks, Operation::Search, read).await?;
    Rows::new(TableKind::Chunks, &batch).listed_chunks(with_texts)
}
