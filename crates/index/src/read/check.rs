//! Checks a shard: invariants of the stored data, as predicates over its tables.
//!
//! A check only reads. It works on one view of the shard, so writes may go on meanwhile. Rows that
//! the owner knows it has to sweep and documents that wait to be indexed are not breaches.

mod invariants;
mod state;
mod stored;

use clew_core::{Access, Breach, CheckQuery, Checked, Invariant};

use crate::error::Result;
use crate::read::check::invariants::{document_breaches, tree_breach};
use crate::read::check::state::{state_breach, unknown_breaches};
use crate::read::check::stored::read;
use crate::read::view::Snapshot;

/// Approximate bytes of documents that are read at once.
const PAGE_BYTES: u64 = 16 << 20;

/// Checks a page of the documents that a caller sees; see [`clew_core::ShardAdmin::check`].
pub(crate) async fn check(
    snapshot: &Snapshot,
    access: &Access,
    query: &CheckQuery,
) -> Result<Checked> {
    let mut breaches = Vec::new();
    // If a document is unknown, so are its labels.
    if query.after.is_none() && access.is_all() {
        breaches.extend(unknown_breaches(snapshot).await?);
    }
    let mut bytes = 0;
    let mut page = Vec::new();
    let records = snapshot.catalogue.after(query.after.as_ref());
    for record in records.filter(|record| record.is_seen_by(access)).take(query.limit) {
        bytes += record.facts.sources.iter().map(|source| source.bytes).sum::<u64>();
        if bytes > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(record);
    }
    let mut rows = read(snapshot, page.iter().map(|record| &record.id)).await?;
    let mut chunks = 0;
    for record in &page {
        let rows = rows.remove(&record.id).unwrap_or_default();
        chunks += rows.chunks.len() as u64;
        breaches.extend(state_breach(&record.id, &record.facts, &rows.facts));
        let (corpus, vectors) = (&snapshot.corpus, &snapshot.vectors);
        breaches.extend(document_breaches(corpus, vectors, record, &rows));
        let tree = tree_breach(record, &rows, snapshot.max_children);
        breaches.extend(tree.map(|detail| Breach {
            invariant: Invariant::TreeTrue,
            document_id: record.id.clone(),
            detail,
        }));
    }
    Ok(Checked {
        documents: page.len() as u64,
        chunks,
        breaches,
        last: page.last().map(|record| record.id.clone()),
    })
}
