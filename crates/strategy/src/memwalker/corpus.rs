//! The levels between the roots of shards and the root of their corpus.

use std::collections::HashMap;

use clew_core::{CorpusTreeKey, Evidence, SummaryLevel, SummaryTask, Tree, TreeNode, TreeNodeId};

/// Maximum number of children of a node above the roots of shards: the default of the shards'
/// trees.
pub const MAX_GROUPED: usize = 8;

/// Maximum number of bytes of the summary of such a node: the default of the shards' trees.
const SUMMARY_BYTES: usize = 800;

/// Nodes above the roots of a corpus' shards, so that the corpus has one root, and a walk chooses
/// among few children at the top, too.
///
/// A shard knows only its own documents, so these nodes are not stored. They are made for each
/// question from the roots that the shards report at its beginning. Their summaries are made
/// without a model from those below. The cost grows with the number of shards, at most 256, and not
/// with their content.
#[derive(Debug, Default)]
pub(super) struct CorpusLevels {
    children: HashMap<TreeNodeId, Vec<TreeNode>>,
}

impl CorpusLevels {
    /// Creates the levels over `tops`, the roots of the shards in order. Returns them with the
    /// children of the corpus' root.
    pub(super) fn over(tops: Vec<TreeNode>) -> (Self, Vec<TreeNode>) {
        let (mut levels, mut nodes) = (Self::default(), tops);
        while nodes.len() > MAX_GROUPED {
            // Groups have about the same size, and none has a single node.
            let groups = nodes.len().div_ceil(MAX_GROUPED);
            let mut above = Vec::with_capacity(groups);
            for group in 0..groups {
                let share = |group: usize| group * nodes.len() / groups;
                let below = nodes.get(share(group)..share(group + 1)).unwrap_or_default();
                let Some(node) = node_above(below) else { continue };
                levels.children.insert(node.id.clone(), below.to_vec());
                above.push(node);
            }
            nodes = above;
        }
        (levels, nodes)
    }

    /// Returns the children of a node, if it is one of these.
    pub(super) fn children(&self, node: &TreeNodeId) -> Option<Vec<TreeNode>> {
        self.children.get(node).cloned()
    }

    /// Returns whether a node covers what was found.
    pub(super) fn covers(&self, tree: &dyn Tree, node: &TreeNode, found: &Evidence) -> bool {
        match self.children.get(&node.id) {
            Some(children) => children.iter().any(|child| self.covers(tree, child, found)),
            None => tree.covers(node, found),
        }
    }
}

/// Returns the node above others, or `None` if there are none.
fn node_above(below: &[TreeNode]) -> Option<TreeNode> {
    let (first, last) = (below.first()?, below.last()?);
    let keys: Vec<CorpusTreeKey> = below.iter().map(key).collect();
    let shard = match &first.id {
        TreeNodeId::Upper { shard, .. } => *shard,
        TreeNodeId::Document { .. } => clew_core::ShardIndex(0),
    };
    let task = SummaryTask {
        level: SummaryLevel::Inner,
        parts: below.iter().map(|node| node.summary.clone()).collect(),
        max_bytes: SUMMARY_BYTES,
    };
    let from = below.iter().map(|node| &node.documents.0).min().unwrap_or(&first.documents.0);
    let to = below.iter().map(|node| &node.documents.1).max().unwrap_or(&last.documents.1);
    Some(TreeNode {
        id: TreeNodeId::Upper { shard, key: CorpusTreeKey::above(&keys) },
        title: String::new(),
        summary: clew_text::summarise(&task).text,
        span: None,
        documents: (from.clone(), to.clone()),
        bytes: below.iter().map(|node| node.bytes).sum(),
        children: u32::try_from(below.len()).unwrap_or(u32::MAX),
        vector: None,
    })
}

/// Returns the key that distinguishes a root of a shard from others.
fn key(node: &TreeNode) -> CorpusTreeKey {
    match &node.id {
        TreeNodeId::Upper { key, .. } => *key,
        TreeNodeId::Document { document_id, version, level, ordinal } => {
            CorpusTreeKey::of_document(
                document_id,
                *version,
                u64::from(*level) << 32 | u64::from(*ordinal),
            )
        }
    }
}
