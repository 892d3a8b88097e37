//! Trees and nodes that are to be made, and what exists of them.

use std::collections::{HashMap, HashSet};

use clew_core::{CorpusTreeKey, DocumentId, ShardIndex, Timestamp, Version};

use crate::boxed;
use crate::catalogue::corpus_tree::UpperNode;
use crate::error::Result;
use crate::read::reader::ShardReader;
use crate::read::structure::nodes::nodes;
use crate::read::structure::tree::shown;
use crate::table::rows::nodes::NodeColumns;
use crate::values::due::DueDocument;
use crate::values::nodes::{MissingNode, NodeRow};

impl ShardReader {
    /// Returns the documents whose tree and graph are to be made now, as [`ShardReader::due`] does
    /// for chunks.
    pub fn structure_due(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
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
    #[boxed]
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
        for node in nodes(&snapshot, ids, None, NodeColumns::WithVectors).await? {
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
    #[boxed]
    pub async fn missing_tree_nodes(&self, limit: usize) -> Result<Vec<MissingNode>> {
        let snapshot = self.snapshot();
        let tree = snapshot.catalogue.upper();
        let is_there = |key: &CorpusTreeKey| tree.get(key).is_none() || tree.rows().contains(key);
        let missing = tree.missing().filter_map(|key| Some((key, tree.get(key)?)));
        let gaps = missing.filter(|(_, node)| node.children.iter().all(is_there));
        let gaps: Vec<(&CorpusTreeKey, UpperNode<'_>)> = gaps.take(limit).collect();
        let children: Vec<CorpusTreeKey> =
            gaps.iter().flat_map(|(_, node)| node.children.iter().copied()).collect();
        let shown = shown(&snapshot, ShardIndex(0), &children, None).await?;
        let gap = |(key, node): (&CorpusTreeKey, UpperNode<'_>)| {
            let parts: Option<Vec<String>> = node
                .children
                .iter()
                .map(|child| shown.get(child).map(|node| node.summary.clone()))
                .collect();
            parts.map(|parts| MissingNode { key: *key, level: node.level, parts })
        };
        Ok(gaps.into_iter().filter_map(gap).collect())
    }
}
