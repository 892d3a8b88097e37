//! Walks of summary trees and of the corpus tree above them.

use std::collections::{BTreeSet, HashMap};

use clew_core::{CorpusTreeKey, DocumentId, DocumentShape, ShardIndex, TreeNode, TreeNodeId};
use lancedb::query::{QueryBase, Select};

use crate::boxed;
use crate::catalogue::corpus_tree::SeenUpper;
use crate::error::Result;
use crate::read::reader::ShardView;
use crate::read::structure::nodes::{live, nodes};
use crate::read::view::Snapshot;
use crate::table::engine::scan;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::nodes::{NodeColumns, StoredNode};
use crate::values::nodes::CorpusTreeRow;

impl ShardView {
    /// Returns the nodes through which all documents with trees can be reached: the root, or the
    /// nodes below it that exist and that the caller sees. If there are more than `limit`, nodes
    /// that cover one of the documents `first` come first. They have the stored vectors of their
    /// summaries by the model with the fingerprint `encoder`, if it is given.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn tree_tops(
        &self,
        shard: ShardIndex,
        first: &[DocumentId],
        limit: usize,
        encoder: Option<&str>,
    ) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        let tree = snapshot.catalogue.upper();
        let seen = SeenUpper::new(tree, self.access());
        let mut tops = Vec::new();
        let mut todo: Vec<CorpusTreeKey> = tree.root().into_iter().collect();
        while let Some(key) = todo.pop() {
            match tree.get(&key) {
                Some(_) if seen.get(&key).is_some() && tree.rows().contains(&key) => {
                    tops.push(key);
                }
                Some(node) => todo.extend(node.children.iter().rev()),
                None if seen.sees_document(&key) => tops.push(key),
                None => {}
            }
        }
        if tops.len() > limit {
            let firsts: BTreeSet<&DocumentId> =
                first.iter().filter(|id| tree.has_document(id)).collect();
            let covers = |key: &CorpusTreeKey| match tree.get(key) {
                Some(node) => {
                    firsts.range::<&DocumentId, _>(node.first..=node.last).next().is_some()
                }
                None => tree.document(key).is_some_and(|id| firsts.contains(id)),
            };
            // The sort is stable, so the rest stays in the order of documents.
            tops.sort_by_key(|key| !covers(key));
            tops.truncate(limit);
        }
        let mut shown = shown(&snapshot, shard, &tops, encoder).await?;
        Ok(tops.iter().filter_map(|key| shown.remove(key)).collect())
    }

    /// Returns the roots of these documents' trees, with vectors as [`Self::tree_tops`] does.
    /// Documents without a tree are left out.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn tree_roots(
        &self,
        ids: &[DocumentId],
        encoder: Option<&str>,
    ) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        let seen = ids.iter().filter(|id| snapshot.catalogue.sees(self.access(), id));
        roots(&snapshot, seen, encoder).await.map(|roots| roots.into_values().collect())
    }

    /// Returns the children of a node, in order, with vectors as [`Self::tree_tops`] does. A
    /// segment has none, and neither has a node that is not visible any more.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn tree_children(
        &self,
        shard: ShardIndex,
        node: &TreeNodeId,
        encoder: Option<&str>,
    ) -> Result<Vec<TreeNode>> {
        let snapshot = self.snapshot();
        match node {
            TreeNodeId::Upper { key, .. } => {
                let seen = SeenUpper::new(snapshot.catalogue.upper(), self.access());
                let children = seen.get(key).map_or(&[][..], |node| node.children);
                let mut shown = shown(&snapshot, shard, children, encoder).await?;
                Ok(children.iter().filter_map(|key| shown.remove(key)).collect())
            }
            TreeNodeId::Document { document_id, version, level, ordinal } => {
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
                let columns = NodeColumns::with_vectors_of(encoder);
                let mut children = nodes(&snapshot, vec![document_id], place, columns).await?;
                children.sort_by_key(|child| child.row.ordinal);
                let shown = |child| tree_node(&snapshot, child, encoder);
                Ok(live(&snapshot, children).map(shown).collect())
            }
        }
    }
}

async fn roots<'a>(
    snapshot: &Snapshot,
    ids: impl Iterator<Item = &'a DocumentId>,
    encoder: Option<&str>,
) -> Result<HashMap<DocumentId, TreeNode>> {
    let ids: Vec<&DocumentId> = ids.collect();
    let mut found = Vec::new();
    if !ids.is_empty() {
        let query = snapshot.nodes.query().only_if_expr(filter::roots(ids));
        let columns = NodeColumns::with_vectors_of(encoder).names();
        scan(TableKind::Nodes, query.select(Select::columns(&columns)), |batch| {
            found.extend(Rows::new(TableKind::Nodes, batch).nodes()?);
            Ok(())
        })
        .await?;
    }
    let shown = live(snapshot, found).map(|root| {
        let id = root.document_id.clone();
        (id, tree_node(snapshot, root, encoder))
    });
    Ok(shown.collect())
}

/// Returns the nodes of these keys that exist, roots of documents or nodes of the corpus tree. They
/// have the stored vectors of `encoder`.
pub(super) async fn shown(
    snapshot: &Snapshot,
    shard: ShardIndex,
    keys: &[CorpusTreeKey],
    encoder: Option<&str>,
) -> Result<HashMap<CorpusTreeKey, TreeNode>> {
    let tree = snapshot.catalogue.upper();
    let (upper, documents): (Vec<CorpusTreeKey>, Vec<CorpusTreeKey>) =
        keys.iter().copied().partition(|key| tree.get(key).is_some());
    let mut shown = HashMap::new();
    let ids = documents.iter().filter_map(|key| Some((*key, tree.document(key)?)));
    let ids: Vec<(CorpusTreeKey, &DocumentId)> = ids.collect();
    let mut of_documents = roots(snapshot, ids.iter().map(|(_, id)| *id), encoder).await?;
    shown.extend(ids.iter().filter_map(|(key, id)| Some((*key, of_documents.remove(*id)?))));
    if upper.is_empty() {
        return Ok(shown);
    }
    let columns = NodeColumns::with_vectors_of(encoder).names();
    let query = snapshot.nodes.query().only_if_expr(filter::upper(&upper));
    let mut rows = Vec::new();
    scan(TableKind::Nodes, query.select(Select::columns(&columns)), |batch| {
        rows.extend(Rows::new(TableKind::Nodes, batch).upper_nodes()?);
        Ok(())
    })
    .await?;
    for CorpusTreeRow { key, summary, vector, .. } in rows {
        let Some(node) = tree.get(&key) else { continue };
        let node = TreeNode {
            id: TreeNodeId::Upper { shard, key },
            title: String::new(),
            summary,
            span: None,
            documents: (node.first.clone(), node.last.clone()),
            bytes: node.bytes,
            children: node.children.len() as u32,
            vector: vector.and_then(|vector| vector.by(encoder)),
        };
        shown.insert(key, node);
    }
    Ok(shown)
}

fn tree_node(snapshot: &Snapshot, node: StoredNode, encoder: Option<&str>) -> TreeNode {
    let StoredNode { document_id, version, title, row, .. } = node;
    let below = match row.level {
        0 => 0,
        _ => children_of(snapshot, &document_id, row.level, row.ordinal),
    };
    TreeNode {
        id: TreeNodeId::Document {
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
        vector: row.vector.and_then(|vector| vector.by(encoder)),
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
