//! Reads what is shown of ranked rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use clew_core::{Candidates, ChunkId, ChunkRef, ChunkText, Hit, SearchedView};
use lance::dataset::ProjectionRequest;

use crate::error::{Error, Operation, Result};
use crate::read::resident::fragment::RowOwner;
use crate::read::search::{Ranked, Search, Seen};
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::run;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

/// Returns what is shown of chunks. Leaves out those that a search would not find.
pub(crate) async fn chunks(
    snapshot: &Snapshot,
    seen: &Seen,
    wanted: &[ChunkRef],
) -> Result<Vec<(ChunkRef, ChunkText)>> {
    let fragments = snapshot.chunk_rows.fragments().await?;
    let row_of = |chunk: &ChunkRef| {
        let is_it = |owner: &RowOwner, ordinal| {
            (owner.version, ordinal) == (chunk.version, chunk.ordinal)
                && seen.shows(snapshot, owner)
        };
        let mut rows = fragments.rows_of(&chunk.document_id);
        rows.find(|(_, owner, ordinal)| is_it(owner, *ordinal)).map(|(row, ..)| row)
    };
    let rows: BTreeMap<u64, &ChunkRef> =
        wanted.iter().filter_map(|chunk| Some((row_of(chunk)?, chunk))).collect();
    let texts = read_rows(snapshot, rows.keys().copied().collect()).await?;
    let chunk = |(row, chunk): (u64, &ChunkRef)| {
        Some((chunk.clone(), texts.get(&row).map(Arc::as_ref).cloned()?))
    };
    Ok(rows.into_iter().filter_map(chunk).collect())
}

/// Returns what is shown of rows, from memory if it was shown lately.
async fn read_rows(
    snapshot: &Snapshot,
    mut rows: BTreeSet<u64>,
) -> Result<HashMap<u64, Arc<ChunkText>>> {
    let mut texts = snapshot.chunk_rows.texts_in_memory(&rows);
    rows.retain(|row| !texts.contains_key(row));
    if !rows.is_empty() {
        let read = read_from_files(snapshot, rows.into_iter().collect()).await?;
        snapshot.chunk_rows.keep_texts(&read);
        texts.extend(read);
    }
    Ok(texts)
}

async fn read_from_files(
    snapshot: &Snapshot,
    rows: Vec<u64>,
) -> Result<Vec<(u64, Arc<ChunkText>)>> {
    use column::*;
    let dataset = snapshot.chunk_rows.dataset();
    let columns = [SPAN_START, SPAN_END, TEXT, TITLE, EVENT_TIME];
    let read = async {
        let columns = ProjectionRequest::from_columns(columns, dataset.schema());
        Ok(dataset.take_builder(&rows, columns)?.execute().await?)
    };
    let batch = run(TableKind::Chunks, Operation::Search, read).await?;
    let texts = Rows::new(TableKind::Chunks, &batch).chunk_texts()?;
    if texts.len() != rows.len() {
        return Err(lost());
    }
    Ok(rows.into_iter().zip(texts.into_iter().map(Arc::new)).collect())
}

fn lost() -> Error {
    Error::Corrupt {
        what: format!("table `{}`", TableKind::Chunks),
        source: "a ranked row cannot be read".into(),
    }
}

impl Search<'_> {
    /// Makes hits of the ranked rows, with their texts if the query wants them.
    pub(super) async fn hits(
        &self,
        dense: Vec<Ranked<'_>>,
        sparse: Vec<Ranked<'_>>,
        attainable: Option<f32>,
    ) -> Result<Candidates> {
        let texts = match self.query.with_texts {
            true => {
                let rows = dense.iter().chain(&sparse).map(|ranked| ranked.row);
                Some(read_rows(self.snapshot, rows.collect()).await?)
            }
            false => None,
        };
        let hits = |ranked: Vec<Ranked<'_>>| {
            ranked.into_iter().map(|ranked| self.hit(&ranked, texts.as_ref())).collect()
        };
        let (dense, sparse): (Result<_>, Result<_>) = (hits(dense), hits(sparse));
        let view = match self.query.view {
            SearchedView::Newest => None,
            SearchedView::Kept | SearchedView::Named(_) => Some(self.snapshot.name),
        };
        Ok(Candidates { dense: dense?, sparse: sparse?, attainable, view })
    }

    fn hit(
        &self,
        ranked: &Ranked<'_>,
        texts: Option<&HashMap<u64, Arc<ChunkText>>>,
    ) -> Result<Hit> {
        let &Ranked { row, owner, ordinal, score } = ranked;
        let text = |texts: &HashMap<u64, Arc<ChunkText>>| texts.get(&row).map(Arc::as_ref).cloned();
        let shown = texts.map(|texts| text(texts).ok_or_else(lost)).transpose()?;
        let (document_id, version) = (owner.document_id.clone(), owner.version);
        let chunk_id = ChunkId::derive(&self.snapshot.corpus, &document_id, version, ordinal);
        Ok(Hit { chunk_id, document_id, version, ordinal, score, shown })
    }
}
