//! Reads nodes of documents' trees from their table.

use std::ops::Range;

use clew_core::DocumentId;
use lancedb::query::{QueryBase, Select};

use crate::error::Result;
use crate::read::view::Snapshot;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::nodes::{NodeColumns, StoredNode};

/// Returns rows of nodes of documents, of every version. If `place` is given, only nodes of that
/// level and range of ordinals.
pub(super) async fn nodes(
    snapshot: &Snapshot,
    ids: Vec<&DocumentId>,
    place: Option<(u32, Range<u32>)>,
    columns: NodeColumns,
) -> Result<Vec<StoredNode>> {
    let mut found = Vec::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let of_documents = filter::documents(ids);
    let predicate = match place {
        Some((level, ordinals)) => of_documents.and(filter::nodes(level, ordinals)),
        None => of_documents,
    };
    let query = snapshot.nodes.query().only_if_expr(predicate);
    scan(TableKind::Nodes, query.select(Select::columns(&columns.names())), |batch| {
        found.extend(Rows::new(TableKind::Nodes, batch).nodes()?);
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Keeps the rows that are visible.
pub(super) fn live(snapshot: &Snapshot, rows: Vec<StoredNode>) -> impl Iterator<Item = StoredNode> {
    rows.into_iter().filter(|node| {
        let record = snapshot.catalogue.get(&node.document_id);
        record.and_then(|record| record.structure()).is_some_and(|structure| {
            (structure.version, structure.recipe) == (node.version, node.recipe)
        })
    })
}
