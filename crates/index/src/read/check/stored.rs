//! Reads the rows that are checked.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{Float32Type, UInt32Type};
use clew_core::{ChunkText, DocumentId, Labels, StoredDocument};
use lancedb::query::{QueryBase, Select};

use crate::catalogue::reading::Reading;
use crate::error::Result;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::chunks::ChunkKey;
use crate::table::rows::nodes::{NodeColumns, StoredNode};
use crate::table::vectors::is_of_vectors;
use crate::values::facts::{Facts, SourceFacts};

/// Rows of the tables about one document.
#[derive(Debug, Default)]
pub(super) struct DocumentRows {
    pub sources: Vec<(StoredDocument, SourceFacts)>,
    pub chunks: Vec<StoredChunk>,
    pub nodes: Vec<StoredNode>,
    /// What they add up to, as far as it is known without the table of failures.
    pub facts: Facts,
}

/// Row of `chunks` that is checked.
#[derive(Debug)]
pub(super) struct StoredChunk {
    pub id: String,
    pub key: ChunkKey,
    pub row: ChunkText,
    pub labels: Labels,
    pub tokens: u32,
    /// Euclidean lengths of its vectors, by column. Columns with a null are left out.
    pub lengths: BTreeMap<String, f32>,
}

/// Reads the rows about documents.
pub(super) async fn read<'a>(
    snapshot: &Snapshot,
    ids: impl Iterator<Item = &'a DocumentId> + Clone,
) -> Result<HashMap<DocumentId, DocumentRows>> {
    let mut found: HashMap<DocumentId, DocumentRows> = HashMap::new();
    if ids.clone().next().is_none() {
        return Ok(found);
    }
    let mut reading = Reading::default();
    let sources = snapshot.sources.query().only_if_expr(filter::documents(ids.clone()));
    scan(TableKind::Sources, sources, |batch| {
        reading.add(TableKind::Sources, batch)?;
        let rows = Rows::new(TableKind::Sources, batch);
        for (stored, (id, facts)) in rows.documents()?.into_iter().zip(rows.source_facts()?) {
            found.entry(id).or_default().sources.push((stored, facts));
        }
        Ok(())
    })
    .await?;
    let nodes = snapshot.nodes.query().only_if_expr(filter::documents(ids.clone()));
    let mut columns = NodeColumns::Plain.names();
    columns.push(column::NODES);
    scan(TableKind::Nodes, nodes.select(Select::columns(&columns)), |batch| {
        reading.add(TableKind::Nodes, batch)?;
        for node in Rows::new(TableKind::Nodes, batch).nodes()? {
            found.entry(node.document_id.clone()).or_default().nodes.push(node);
        }
        Ok(())
    })
    .await?;
    let chunks = snapshot.chunks.query().only_if_expr(filter::documents(ids));
    scan(TableKind::Chunks, chunks, |batch| {
        reading.add(TableKind::Chunks, batch)?;
        for chunk in stored_chunks(&Rows::new(TableKind::Chunks, batch))? {
            found.entry(chunk.key.document_id.clone()).or_default().chunks.push(chunk);
        }
        Ok(())
    })
    .await?;
    for (id, facts) in reading.finish().0 {
        found.entry(id).or_default().facts = facts;
    }
    Ok(found)
}

fn stored_chunks(rows: &Rows<'_>) -> Result<Vec<StoredChunk>> {
    let ids = rows.chunk_ids()?;
    let tokens = rows.values::<UInt32Type>(column::TOKENS)?;
    let mut lengths: Vec<BTreeMap<String, f32>> = vec![BTreeMap::new(); ids.len()];
    for name in rows.columns().filter(|name| is_of_vectors(name)) {
        let length = |vector: Vec<f32>| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (of_row, vector) in lengths.iter_mut().zip(rows.lists::<Float32Type>(name)?) {
            if !vector.is_empty() {
                of_row.insert(name.to_owned(), length(vector));
            }
        }
    }
    let with_rows = rows.chunk_keys()?.into_iter().zip(rows.chunk_texts()?);
    let measured = rows.label_sets()?.into_iter().zip(tokens.into_iter().zip(lengths));
    let parts = ids.into_iter().zip(with_rows).zip(measured);
    let chunk = |((id, (key, row)), (labels, (tokens, lengths)))| StoredChunk {
        id,
        key,
        row,
        labels,
        tokens,
        lengths,
    };
    Ok(parts.map(chunk).collect())
}
