//! Shapes of trees of summaries: which nodes a tree has, as pure functions of what it stands on.

use std::collections::HashMap;
use std::ops::Range;

use crate::{CorpusTreeKey, DocumentId};

/// Maximum number of segments for the sketch of a document. Their summaries are not stored until
/// the sketch is done, so with more a crash would lose more.
const SKETCHED: u32 = 16;

/// Shape of a document's tree: neighbouring nodes in groups of `max_children`, level by level, up
/// to one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentShape {
    levels: Vec<u32>,
    max_children: u32,
}

impl DocumentShape {
    /// Creates the shape over `segments`, at least one, with `max_children`, at least two.
    pub fn new(segments: u32, max_children: u32) -> Self {
        let max_children = max_children.max(2);
        let mut levels = vec![segments.max(1)];
        while let Some(&count) = levels.last()
            && count > 1
        {
            levels.push(count.div_ceil(max_children));
        }
        Self { levels, max_children }
    }

    /// Returns the number of nodes on each level, from that of the segments to that of the root.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Returns the number of all nodes.
    pub fn nodes(&self) -> u32 {
        self.levels.iter().sum()
    }

    /// Returns the segments for the sketch, spread over the document. The sketch summarises their
    /// summaries and says what the document is about, before all segments are read.
    pub fn sketched(&self) -> Vec<u32> {
        let count = u64::from(self.levels[0]);
        let most = u64::from(SKETCHED).min(count);
        (0..most).filter_map(|at| u32::try_from(at * count / most).ok()).collect()
    }

    /// Returns whether the sketch is the root of the tree: both are made of all segments and
    /// nothing else.
    pub fn is_sketched_as_root(&self) -> bool {
        self.root_level() == 1 && self.levels[0] <= SKETCHED
    }

    /// Returns the level of the root.
    pub fn root_level(&self) -> u32 {
        self.levels.len() as u32 - 1
    }

    /// Returns the children of a node, as ordinals of the level below; none for a segment.
    pub fn children(&self, level: u32, ordinal: u32) -> Range<u32> {
        let below = level.checked_sub(1).and_then(|below| self.levels.get(below as usize));
        let Some(&below) = below else { return 0..0 };
        let first = ordinal.saturating_mul(self.max_children).min(below);
        first..first.saturating_add(self.max_children).min(below)
    }
}

/// Tree above the documents of a shard.
///
/// It is a function of the documents that exist, in whatever order they came. Neighbours by
/// document id are grouped. The ids in a group decide where it ends. A replaced document therefore
/// changes only the nodes above it, and a document that is added or removed changes few others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorpusTree {
    nodes: HashMap<CorpusTreeKey, CorpusTreeNode>,
    root: Option<CorpusTreeKey>,
    depth: u32,
}

/// Node above documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusTreeNode {
    /// Keys of its children, in the order of the documents: nodes, or documents.
    pub children: Vec<CorpusTreeKey>,
    /// Documents that it covers, as indices of those from which the tree was made.
    pub documents: Range<usize>,
    /// Number of levels between it and the documents, at least 1.
    pub level: u32,
}

impl CorpusTree {
    /// Creates the tree above `documents`, which are ordered by id, each with its key.
    pub fn new(documents: &[(DocumentId, CorpusTreeKey)], max_children: u32) -> Self {
        let max_children = max_children.max(2) as usize;
        let mut tree = Self::default();
        let places = documents.iter().enumerate();
        let mut level: Vec<Member> =
            places.map(|(place, (_, key))| (*key, place..place + 1)).collect();
        while level.len() > 1 {
            tree.depth += 1;
            let mut above = Vec::new();
            let mut rest = level.as_slice();
            while !rest.is_empty() {
                let ends = |member: &Member| {
                    let last = documents.get(member.1.end.saturating_sub(1));
                    last.is_some_and(|(id, _)| {
                        Self::ends_group(id, tree.depth, max_children as u32)
                    })
                };
                let (group, others) = rest.split_at(group_length(rest, max_children, ends));
                above.push(tree.put(group));
                rest = others;
            }
            level = above;
        }
        tree.root = level.pop().map(|(key, _)| key);
        tree
    }

    /// Returns whether a group of nodes on that level may end with a member whose last document is
    /// `last`. The id decides, like a coin.
    pub fn ends_group(last: &DocumentId, level: u32, max_children: u32) -> bool {
        let mut hasher = blake3::Hasher::new_derive_key("clew upper group v1");
        hasher.update(&level.to_le_bytes());
        hasher.update(last.as_str().as_bytes());
        u32::from(hasher.finalize().as_bytes()[0]) * max_children.max(2) < 256 * 2
    }

    /// Adds the node above `group`. A single member stands for itself, without a node.
    fn put(&mut self, group: &[Member]) -> Member {
        let (first, last) = match group {
            [] => return (CorpusTreeKey::above(&[]), 0..0),
            [alone] => return alone.clone(),
            [first, .., last] => (first, last),
        };
        let children: Vec<CorpusTreeKey> = group.iter().map(|(key, _)| *key).collect();
        let key = CorpusTreeKey::above(&children);
        let documents = first.1.start..last.1.end;
        let node = CorpusTreeNode { children, documents: documents.clone(), level: self.depth };
        self.nodes.insert(key, node);
        (key, documents)
    }

    /// Returns the node at the top, or the only document; `None` if there is none.
    pub fn root(&self) -> Option<CorpusTreeKey> {
        self.root
    }

    /// Returns the node of that key; `None` for a document, and for a key of no node in this tree.
    pub fn get(&self, key: &CorpusTreeKey) -> Option<&CorpusTreeNode> {
        self.nodes.get(key)
    }

    /// Returns all nodes, in no particular order.
    pub fn nodes(&self) -> impl Iterator<Item = (&CorpusTreeKey, &CorpusTreeNode)> {
        self.nodes.iter()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Member of a level: a node or document, with the documents that it covers.
type Member = (CorpusTreeKey, Range<usize>);

/// Returns how many of the first of `members` form a group: at least two, if there are two, and on
/// average somewhat more than half of `max_children`.
fn group_length(members: &[Member], max_children: usize, ends: impl Fn(&Member) -> bool) -> usize {
    let most = members.len().min(max_children);
    (2..most).find(|&length| ends(&members[length - 1])).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::Version;

    #[test]
    fn a_document_of_nine_segments_has_three_levels() {
        let shape = DocumentShape::new(9, 4);
        assert_eq!((shape.levels(), shape.nodes(), shape.root_level()), (&[9, 3, 1][..], 13, 2));
        assert_eq!(shape.children(2, 0), 0..3);
        assert_eq!(shape.children(1, 2), 8..9);
        assert!(shape.children(0, 3).is_empty());
        assert_eq!(DocumentShape::new(1, 8).levels(), [1]);
    }

    fn documents(names: &BTreeSet<u16>) -> Vec<(DocumentId, CorpusTreeKey)> {
        let document = |name: &u16| {
            let id: DocumentId = format!("{name:05}").parse().unwrap();
            let key = CorpusTreeKey::of_document(&id, Version(1), 7);
            (id, key)
        };
        names.iter().map(document).collect()
    }

    fn tree_of(names: &BTreeSet<u16>, max_children: u32) -> CorpusTree {
        CorpusTree::new(&documents(names), max_children)
    }

    proptest! {
        #[test]
        fn every_document_is_reached_once(
            names in prop::collection::btree_set(0_u16..500, 0..60),
            max_children in 2_u32..10,
        ) {
            let tree = tree_of(&names, max_children);
            let mut reached = 0;
            let mut todo: Vec<CorpusTreeKey> = tree.root().into_iter().collect();
            let mut visited = 0;
            while let Some(key) = todo.pop() {
                match tree.get(&key) {
                    Some(node) => {
                        visited += 1;
                        prop_assert!((2..=max_children as usize).contains(&node.children.len()));
                        todo.extend(&node.children);
                    }
                    None => reached += 1,
                }
            }
            prop_assert_eq!((reached, visited), (names.len(), tree.len()));
        }

        #[test]
        fn a_document_more_changes_few_nodes(
            names in prop::collection::btree_set(0_u16..2000, 200..300),
            more in 0_u16..2000,
        ) {
            let before = tree_of(&names, 8);
            let mut names = names;
            names.insert(more);
            let after = tree_of(&names, 8);
            let new = after.nodes().filter(|(key, _)| before.get(key).is_none()).count();
            prop_assert!(new * 3 < after.len(), "{new} of {}", after.len());
        }

        #[test]
        fn a_new_version_changes_the_nodes_above_it_alone(
            names in prop::collection::btree_set(0_u16..2000, 100..200),
            place in 0_usize..100,
        ) {
            let mut documents = documents(&names);
            let before = CorpusTree::new(&documents, 8);
            let (id, key) = &mut documents[place];
            *key = CorpusTreeKey::of_document(id, Version(2), 7);
            let after = CorpusTree::new(&documents, 8);
            let new: Vec<_> =
                after.nodes().filter(|(key, _)| before.get(key).is_none()).collect();
            prop_assert!(new.iter().all(|(_, node)| node.documents.contains(&place)));
            prop_assert_eq!(before.len(), after.len());
        }
    }
}
