//! Writes and reads summary trees and the extractions of their segments.
//!
//! A document's rows may be written in several commits, so that the work on a long document is not
//! repeated after a crash. They are visible once all of them exist, and only while they belong to
//! the version that searches find. Nodes of the corpus tree are rows without a document. They are
//! visible while they are part of the tree that the documents with trees call for
//! ([`clew_core::UpperTree`]).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use clew_core::{
    DocumentId, DocumentShape, Extraction, NodeId, SegmentId, ShardIndex, Span, StoredDocument,
    TreeNode, UpperKey, UpperNode, Version,
};
use lancedb::query::{QueryBase, Select};

use crate::catalogue::corpus_tree::SeenUpper;
use crate::error::{Error, Result};
use crate::read::reader::{ShardReader, ShardView, read_sources};
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::nodes::StoredNode;
use crate::values::nodes::{
    DocumentSegments, NodeRow, SegmentNode, StructuredDocument, UpperGap, UpperRow,
};

impl ShardReader {
    /// Returns the documents whose tree and graph are to be made now, as [`ShardReader::due`] does
    /// for chunks.
    pub fn structure_due(
        &self,
        now: clew_core::Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<crate::DueDocument> {
        self.snapshot().catalogue.structure_due(now, limit, busy)
    }

    /// Returns how many nodes exist already of the trees that are to be made of these versions.
    pub fn nodes_made(&self, wanted: &[(DocumentId, Version)]) -> Vec<u64> {
        let snapshot = self.snapshot();
        let of = |(id, version): &(DocumentId, Version)| {
            let record = snapshot.catalogue.get(id);
            record.map_or(0, |record| record.nodes_made(*version, snapshot.catalogue.wanted()))
        };
        wanted.iter().map(of).collect()
    }

    /// Returns all nodes of these documents by the wanted recipe, of any version. They need not be
    /// made again.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn made_nodes(
        &self,
        ids: &[DocumentId],
    ) -> Result<HashMap<(DocumentId, Version), Vec<NodeRow>>> {
        let snapshot = self.snapshot();
        let wanted = snapshot.catalogue.wanted().structure;
        let mut made: HashMap<(DocumentId, Version), Vec<NodeRow>> = HashMap::new();
        let has_nodes = |id: &&DocumentId| {
            snapshot.catalogue.get(id).is_some_and(|record| !record.facts.nodes.is_empty())
        };
        let ids: Vec<&DocumentId> = ids.iter().filter(has_nodes).collect();
        for node in nodes(&snapshot, ids, None).await? {
            if Some(node.recipe) == wanted {
                made.entry((node.document_id, node.version)).or_default().push(node.row);
            }
        }
        Ok(made)
    }

    /// Returns up to `limit` nodes of the corpus tree that are to be made and whose children all
    /// exist.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn upper_gaps(&self, limit: usize) -> Result<Vec<UpperGap>> {
        let snapshot = self.snapshot();
        let view = snapshot.upper();
        let there = snapshot.catalogue.upper();
        let is_there = |key: &UpperKey| view.tree.get(key).is_none() || there.contains(key);
        let mut gaps: Vec<(&UpperKey, &UpperNode)> = view
            .tree
            .nodes()
            .filter(|(key, node)| !there.contains(key) && node.children.iter().all(is_there))
            .collect();
        gaps.sort_by_key(|(_, node)| (node.level, node.documents.start));
        gaps.truncate(limit);
        let children: Vec<UpperKey> =
            gaps.iter().flat_map(|(_, node)| node.children.iter().copied()).collect();
        let shown = shown(&snapshot, ShardIndex(0), &children).await?;
        let gap = |(key, node): (&UpperKey, &UpperNode)| {
            let parts: Option<Vec<String>> = node
                .children
                .iter()
                .map(|child| shown.get(child).map(|node| node.summary.clone()))
                .collect();
            parts.map(|parts| UpperGap { key: *key, level: node.level, parts })
        };
        Ok(gaps.into_iter().filter_map(gap).collect())
    }

    /// Returns the number of changes of the shard's state so far.
    pub fn revision(&self) -> u64 {
        self.snapshot().catalogue.revision()
    }

    /// Returns the documents whose tree and graph are visible, with the number of the state that
    /// was read.
    pub fn structured(&self) -> (u64, Vec<StructuredDocument>) {
        let snapshot = self.snapshot();
        let documents = snapshot.catalogue.structured().filter_map(|(record, _)| {
            let structure = record.structure()?;
            Some(StructuredDocument {
                document_id: record.id.clone(),
                version: structure.version,
                recipe: structure.recipe,
                labels: record.needs().clone(),
            })
        });
        (snapshot.catalogue.revision(), documents.collect())
    }

    /// Returns the visible segments of these documents, with titles and extractions.
    ///
    /// # Errors
    /// Returns a storage error. Returns [`Error::Corrupt`] if an extraction cannot be read.
    pub async fn read_segments(&self, ids: &[DocumentId]) -> Result<Vec<DocumentSegments>> {
        let snapshot = self.snapshot();
        let place = Some((0, 0..u32::MAX));
        let rows = nodes(&snapshot, ids.iter().collect(), place).await?;
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
    /// Returns the nodes through which all documents with trees can be reached: the root, or the
    /// nodes below it that exist and that the caller sees. If there are more than `limit`, nodes
    /// that cover one of the documents `first` come first.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn tree_tops(
        &self,
        shard: ShardIndex,
        first: &[DocumentId],
        limit: usize,
    ) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        let view = snapshot.upper();
        let seen = SeenUpper::new(snapshot.upper(), self.access());
        let mut tops = Vec::new();
        let mut todo: Vec<UpperKey> = view.tree.root().into_iter().collect();
        while let Some(key) = todo.pop() {
            match view.tree.get(&key) {
                Some(_)
                    if seen.get(&key).is_some() && snapshot.catalogue.upper().contains(&key) =>
                {
                    tops.push(key);
                }
                Some(node) => todo.extend(node.children.iter().rev()),
                None if seen.sees_document(&key) => tops.push(key),
                None => {}
            }
        }
        if tops.len() > limit {
            let firsts: HashSet<usize> = first
                .iter()
                .filter_map(|id| view.documents.binary_search_by(|(known, _)| known.cmp(id)).ok())
                .collect();
            let covers = |key: &UpperKey| match view.tree.get(key) {
                Some(node) => firsts.iter().any(|place| node.documents.contains(place)),
                None => view.of_key.get(key).is_some_and(|place| firsts.contains(place)),
            };
            // The sort is stable, so the rest stays in the order of documents.
            tops.sort_by_key(|key| !covers(key));
            tops.truncate(limit);
        }
        let mut shown = shown(&snapshot, shard, &tops).await?;
        Ok(tops.iter().filter_map(|key| shown.remove(key)).collect())
    }

    /// Returns the roots of these documents' trees. Documents without a tree are left out.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn tree_roots(&self, ids: &[DocumentId]) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        let seen = ids.iter().filter(|id| snapshot.catalogue.sees(self.access(), id));
        roots(&snapshot, seen).await.map(|roots| roots.into_values().collect())
    }

    /// Returns the children of a node, in order. A segment has none, and neither has a node that is
    /// not visible any more.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn tree_children(&self, shard: ShardIndex, node: &NodeId) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        match node {
            NodeId::Upper { key, .. } => {
                let seen = SeenUpper::new(snapshot.upper(), self.access());
                let children = seen.get(key).map(|node| node.children.clone());
                let children = children.unwrap_or_default();
                let mut shown = shown(&snapshot, shard, &children).await?;
                Ok(children.iter().filter_map(|key| shown.remove(key)).collect())
            }
            NodeId::Document { document_id, version, level, ordinal } => {
                let record = snapshot.catalogue.get(document_id);
                let record = record.filter(|record| record.is_seen_by(self.access()));
                let Some(structure) = record.and_then(|record| record.structure()) else {
                    return Ok(Vec::new());
                };
                if structure.version != *version || *level == 0 {
                    return Ok(Vec::new());
                }
                let first = ordinal.saturating_mul(snapshot.max_children);
                let below = first..first.saturating_add(snapshot.max_children);
                let place = Some((level - 1, below));
                let mut children = nodes(&snapshot, vec![document_id], place).await?;
                children.sort_by_key(|child| child.row.ordinal);
                Ok(live(&snapshot, children).map(|child| tree_node(&snapshot, child)).collect())
            }
        }
    }

    /// Returns the visible segments of these ids, each with its range of its document.
    ///
    /// # Errors
    /// Returns a storage error.
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
        let rows = nodes(&snapshot, documents.into_iter().collect(), place).await?;
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

/// Returns rows of nodes of documents, of every version. If `place` is given, only nodes of that
/// level and range of ordinals.
async fn nodes(
    snapshot: &Snapshot,
    ids: Vec<&DocumentId>,
    place: Option<(u32, Range<u32>)>,
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
    scan(TableKind::Nodes, snapshot.nodes.query().only_if_expr(predicate), |batch| {
        found.extend(Rows::new(TableKind::Nodes, batch).nodes()?);
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Keeps the rows that are visible.
fn live(snapshot: &Snapshot, rows: Vec<StoredNode>) -> impl Iterator<Item = StoredNode> {
    rows.into_iter().filter(|node| {
        let record = snapshot.catalogue.get(&node.document_id);
        record.and_then(|record| record.structure()).is_some_and(|structure| {
            (structure.version, structure.recipe) == (node.version, node.recipe)
        })
    })
}

fn tree_node(snapshot: &Snapshot, node: StoredNode) -> TreeNode {
    let StoredNode { document_id, version, title, row, .. } = node;
    let below = match row.level {
        0 => 0,
        _ => children_of(snapshot, &document_id, row.level, row.ordinal),
    };
    TreeNode {
        id: NodeId::Document {
            document_id: document_id.clone(),
            version,
            level: row.level,
            ordinal: row.ordinal,
        },
        title,
        summary: row.summary,
        bytes: row.span.len() as u64,
        span: Some(row.span),
        documents: (document_id.clone(), document_id),
        children: below,
    }
}

fn children_of(snapshot: &Snapshot, id: &DocumentId, level: u32, ordinal: u32) -> u32 {
    let structure = snapshot.catalogue.get(id).and_then(|record| record.structure());
    let nodes = structure.map_or(0, |structure| structure.nodes);
    let Some(segments) = segments_of(nodes, snapshot.max_children) else { return 0 };
    let children = DocumentShape::new(segments, snapshot.max_children).children(level, ordinal);
    children.end - children.start
}

/// Returns the number of segments of a tree with so many nodes: more segments mean more nodes.
fn segments_of(nodes: u64, max_children: u32) -> Option<u32> {
    let (mut low, mut high) = (1_u64, nodes.max(1));
    while low < high {
        let middle = low.midpoint(high);
        let of_middle = DocumentShape::new(u32::try_from(middle).ok()?, max_children).nodes();
        match u64::from(of_middle) < nodes {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    u32::try_from(low).ok()
}

async fn roots<'a>(
    snapshot: &Snapshot,
    ids: impl Iterator<Item = &'a DocumentId>,
) -> Result<HashMap<DocumentId, TreeNode>> {
    let ids: Vec<&DocumentId> = ids.collect();
    let mut found = Vec::new();
    if !ids.is_empty() {
        let query = snapshot.nodes.query().only_if_expr(filter::roots(ids));
        scan(TableKind::Nodes, query, |batch| {
            found.extend(Rows::new(TableKind::Nodes, batch).nodes()?);
            Ok(())
        })
        .await?;
    }
    let shown = live(snapshot, found).map(|root| {
        let id = root.document_id.clone();
        (id, tree_node(snapshot, root))
    });
    Ok(shown.collect())
}

/// Returns the nodes of these keys that exist, roots of documents or nodes of the corpus tree.
async fn shown(
    snapshot: &Snapshot,
    shard: ShardIndex,
    keys: &[UpperKey],
) -> Result<HashMap<UpperKey, TreeNode>> {
    let view = snapshot.upper();
    let (upper, documents): (Vec<UpperKey>, Vec<UpperKey>) =
        keys.iter().copied().partition(|key| view.tree.get(key).is_some());
    let mut shown = HashMap::new();
    let places = documents.iter().filter_map(|key| Some((*key, *view.of_key.get(key)?)));
    let ids: Vec<(UpperKey, &DocumentId)> =
        places.map(|(key, place)| (key, &view.documents[place].0)).collect();
    let mut of_documents = roots(snapshot, ids.iter().map(|(_, id)| *id)).await?;
    shown.extend(ids.iter().filter_map(|(key, id)| Some((*key, of_documents.remove(*id)?))));
    if upper.is_empty() {
        return Ok(shown);
    }
    let columns = [column::DOCUMENT_ID, column::VERSION, column::RECIPE, column::LEVEL];
    let columns: Vec<&str> = columns.into_iter().chain([column::KEY, column::SUMMARY]).collect();
    let query = snapshot.nodes.query().only_if_expr(filter::upper(&upper));
    let mut rows = Vec::new();
    scan(TableKind::Nodes, query.select(Select::columns(&columns)), |batch| {
        rows.extend(Rows::new(TableKind::Nodes, batch).upper_nodes()?);
        Ok(())
    })
    .await?;
    for UpperRow { key, summary, .. } in rows {
        let Some(node) = view.tree.get(&key) else { continue };
        let document = |place: usize| view.documents.get(place).map(|(id, _)| id.clone());
        let last = node.documents.end.saturating_sub(1);
        let Some(documents) = document(node.documents.start).zip(document(last)) else { continue };
        let node = TreeNode {
            id: NodeId::Upper { shard, key },
            title: String::new(),
            summary,
            span: None,
            documents,
            bytes: view.bytes_of(&node.documents),
            children: node.children.len() as u32,
        };
        shown.insert(key, node);
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_number_of_nodes_tells_that_of_segments(segments in 1_u32..5000, max in 2_u32..20) {
            let nodes = DocumentShape::new(segments, max).nodes();
            prop_assert_eq!(segments_of(u64::from(nodes), max), Some(segments));
        }
    }
}
