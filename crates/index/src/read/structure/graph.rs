//! Segments of documents, of which graphs are made.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clew_core::{DocumentId, Extraction, SegmentId, Span, StoredDocument, Version};

use crate::boxed;
use crate::catalogue::record::DocumentRecord;
use crate::error::{Error, Result};
use crate::read::reader::{ShardReader, ShardView, read_sources};
use crate::read::structure::nodes::{live, nodes};
use crate::table::kind::TableKind;
use crate::table::rows::nodes::{NodeColumns, StoredNode};
use crate::values::nodes::{
    DocumentSegments, NodeRow, SegmentNode, StructureChanges, StructuredDocument,
};

impl ShardReader {
    /// Returns the number of changes of the shard's state so far.
    pub fn revision(&self) -> u64 {
        self.snapshot().catalogue.revision()
    }

    /// Returns what changed of the visible trees and graphs since the state of a revision: at least
    /// the documents that changed, and those of `also`. Without a revision, and if it was too long
    /// ago, returns all documents with a tree and graph.
    pub fn structure_changes(
        &self,
        revision: Option<u64>,
        also: &[DocumentId],
    ) -> StructureChanges {
        let catalogue = &self.snapshot().catalogue;
        let of = |record: &DocumentRecord| {
            let structure = record.structure()?;
            Some(StructuredDocument {
                version: structure.version,
                recipe: structure.recipe,
                labels: record.needs().clone(),
            })
        };
        let changed = revision.and_then(|revision| catalogue.structure_changes(revision));
        let is_whole = changed.is_none();
        let documents = match changed {
            Some(changed) => {
                let changed: BTreeSet<&DocumentId> = changed.chain(also).collect();
                let now = |id| catalogue.get(id).and_then(|record| of(record));
                changed.into_iter().map(|id| (id.clone(), now(id))).collect()
            }
            None => catalogue.structured().map(|it| (it.id.clone(), of(it))).collect(),
        };
        StructureChanges { revision: catalogue.revision(), is_whole, documents }
    }

    /// Returns the visible segments of these documents, with titles and extractions.
    ///
    /// # Errors
    /// Returns a storage error. Returns [`Error::Corrupt`] if an extraction cannot be read.
    #[boxed]
    pub async fn read_segments(&self, ids: &[DocumentId]) -> Result<Vec<DocumentSegments>> {
        let snapshot = self.snapshot();
        let place = Some((0, 0..u32::MAX));
        let rows = nodes(&snapshot, ids.iter().collect(), place, NodeColumns::Plain).await?;
        let mut documents: HashMap<DocumentId, DocumentSegments> = HashMap::new();
        for StoredNode { document_id, version, recipe, title, row } in live(&snapshot, rows) {
            let NodeRow { ordinal, span, .. } = row;
            let extraction = extraction_of(&row.extraction)?;
            let empty = || {
                let segments = Vec::new();
                DocumentSegments {
                    document_id: document_id.clone(),
                    version,
                    recipe,
                    title,
                    segments,
                }
            };
            let of = documents.entry(document_id.clone()).or_insert_with(empty);
            of.segments.push(SegmentNode { ordinal, span, extraction });
        }
        let mut documents: Vec<DocumentSegments> = documents.into_values().collect();
        for document in &mut documents {
            document.segments.sort_by_key(|segment| segment.ordinal);
        }
        Ok(documents)
    }
}

impl ShardView {
    /// Returns the visible segments of these ids, each with its range of its document.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn segment_texts(
        &self,
        ids: &[SegmentId],
    ) -> Result<Vec<(SegmentId, Span, Arc<StoredDocument>)>> {
        let snapshot = self.snapshot();
        let wanted: HashSet<&SegmentId> = ids.iter().collect();
        let documents: HashSet<&DocumentId> = ids
            .iter()
            .map(|id| &id.document_id)
            .filter(|id| snapshot.catalogue.sees(self.access(), id))
            .collect();
        let most = ids.iter().map(|id| id.ordinal).max().unwrap_or(0);
        let least = ids.iter().map(|id| id.ordinal).min().unwrap_or(0);
        let place = Some((0, least..most.saturating_add(1)));
        let mut found = Vec::new();
        let documents = documents.into_iter().collect();
        let rows = nodes(&snapshot, documents, place, NodeColumns::Plain).await?;
        for node in live(&snapshot, rows) {
            let StoredNode { document_id, version, row, .. } = node;
            let id = SegmentId { document_id, version, ordinal: row.ordinal };
            if wanted.contains(&id) {
                found.push((id, row.span));
            }
        }
        let versions: HashSet<(DocumentId, Version)> =
            found.iter().map(|(id, _)| (id.document_id.clone(), id.version)).collect();
        let versions: Vec<_> = versions.into_iter().collect();
        let texts: HashMap<DocumentId, Arc<StoredDocument>> = read_sources(&snapshot, &versions)
            .await?
            .into_iter()
            .map(|stored| (stored.document.id.clone(), Arc::new(stored)))
            .collect();
        let with_text = |(id, span): (SegmentId, Span)| {
            let stored = texts.get(&id.document_id)?;
            Some((id, span, Arc::clone(stored)))
        };
        Ok(found.into_iter().filter_map(with_text).collect())
    }
}

/// Decodes the extraction of a segment.
fn extraction_of(text: &str) -> Result<Extraction> {
    serde_json::from_str(text).map_err(|error| Error::Corrupt {
        what: format!("table `{}`", TableKind::Nodes),
        source: error.into(),
    })
}
