//! Corpus tree above the documents of a catalogue, and the part of it that a caller sees.
//!
//! [`clew_core::CorpusTree`] defines the tree as a function of all documents. Here it is kept as
//! documents change. A group depends on nothing but the members from its beginning on. So a change
//! begins a new grouping at the group that it falls into, which ends at the first border that was
//! there before. On each level that is few groups, whose nodes are the changes of the level above.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use clew_core::{Access, CorpusTree, CorpusTreeKey, DocumentId, Labels};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

/// Corpus tree above the documents that have a tree, and which of its nodes have a row. It is a
/// persistent map like the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct UpperTree {
    max_children: u32,
    /// Members of each level, by the first document that they cover: documents, then groups of
    /// them, up to a level with one member at most. A group of one is that member itself.
    levels: Vec<Level>,
    /// Level and first document of each node, and of each document, which is on level 0.
    places: RedBlackTreeMapSync<CorpusTreeKey, (u32, Id)>,
    /// Documents that require labels, by these labels.
    labelled: RedBlackTreeMapSync<Labels, RedBlackTreeSetSync<Id>>,
    rows: RedBlackTreeSetSync<CorpusTreeKey>,
    /// Nodes without a row, by level and first document.
    missing: RedBlackTreeSetSync<(u32, Id, CorpusTreeKey)>,
    /// Rows without a node.
    stale: RedBlackTreeSetSync<CorpusTreeKey>,
}

type Id = Arc<DocumentId>;
type Level = RedBlackTreeMapSync<Id, Member>;

/// Member of a level: a document, or a node above several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    key: CorpusTreeKey,
    /// Last document that it covers.
    last: Id,
    /// Bytes of the texts of all documents that it covers.
    bytes: u64,
    /// Number of levels between it and the documents; 0 for a document.
    level: u32,
    /// Keys of the children of a node.
    children: Vec<CorpusTreeKey>,
}

/// Document with a tree, as the corpus tree sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub key: CorpusTreeKey,
    /// Bytes of its text.
    pub bytes: u64,
    /// Labels that it requires.
    pub labels: Labels,
}

/// Node above documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpperNode<'a> {
    /// Keys of its children, in the order of the documents: nodes, or documents.
    pub children: &'a [CorpusTreeKey],
    /// First document that it covers.
    pub first: &'a DocumentId,
    /// Last document that it covers.
    pub last: &'a DocumentId,
    /// Bytes of the texts of all documents that it covers.
    pub bytes: u64,
    /// Number of levels between it and the documents, at least 1.
    pub level: u32,
}

impl UpperTree {
    /// Creates the tree above `documents`.
    pub(crate) fn above(
        max_children: u32,
        documents: impl IntoIterator<Item = (DocumentId, Leaf)>,
    ) -> Self {
        let mut tree = Self {
            max_children: max_children.max(2),
            levels: vec![Level::new_sync()],
            places: RedBlackTreeMapSync::new_sync(),
            labelled: RedBlackTreeMapSync::new_sync(),
            rows: RedBlackTreeSetSync::new_sync(),
            missing: RedBlackTreeSetSync::new_sync(),
            stale: RedBlackTreeSetSync::new_sync(),
        };
        let mut last = None;
        for (id, leaf) in documents {
            let id = Arc::new(id);
            tree.add_leaf(Arc::clone(&id), leaf);
            last = Some(id);
        }
        // Where there were no groups, any change groups the whole level.
        tree.regroup_above(last.into_iter().collect());
        tree
    }

    /// Returns the maximum number of children of a node.
    pub(crate) fn max_children(&self) -> u32 {
        self.max_children
    }

    /// Puts a document in the place of what it was: `None` for a document without a tree.
    pub(crate) fn change(&mut self, id: &DocumentId, before: Option<&Leaf>, after: Option<Leaf>) {
        let place = |leaf: &Leaf| (leaf.key, leaf.bytes);
        let has_moved = before.map(place) != after.as_ref().map(place);
        let known = self.levels[0].get_key_value(id).map(|(id, _)| Arc::clone(id));
        let id = known.unwrap_or_else(|| Arc::new(id.clone()));
        if let Some(leaf) = before {
            self.remove_leaf(&id, leaf);
        }
        if let Some(leaf) = after {
            self.add_leaf(Arc::clone(&id), leaf);
        }
        if has_moved {
            self.regroup_above(BTreeSet::from([id]));
        }
    }

    fn add_leaf(&mut self, id: Id, Leaf { key, bytes, labels }: Leaf) {
        if !labels.is_empty() {
            let set = self.labelled.get(&labels).cloned();
            let set = set.unwrap_or_else(RedBlackTreeSetSync::new_sync);
            self.labelled.insert_mut(labels, set.insert(Arc::clone(&id)));
        }
        let last = Arc::clone(&id);
        let member = Member { key, last, bytes, level: 0, children: Vec::new() };
        self.places.insert_mut(key, (0, Arc::clone(&id)));
        self.levels[0].insert_mut(id, member);
    }

    fn remove_leaf(&mut self, id: &DocumentId, leaf: &Leaf) {
        if let Some(set) = self.labelled.get(&leaf.labels).map(|set| set.remove(id)) {
            match set.is_empty() {
                true => self.labelled.remove_mut(&leaf.labels),
                false => {
                    self.labelled.insert_mut(leaf.labels.clone(), set);
                    true
                }
            };
        }
        self.places.remove_mut(&leaf.key);
        self.levels[0].remove_mut(id);
    }

    /// Groups the levels above the documents anew after these documents changed.
    fn regroup_above(&mut self, mut changed: BTreeSet<Id>) {
        let mut level = 0;
        while self.levels[level].size() > 1 {
            if self.levels.len() == level + 1 {
                self.levels.push(Level::new_sync());
            }
            changed = self.regroup(level, changed);
            if changed.is_empty() {
                return;
            }
            level += 1;
        }
        for gone in self.levels.split_off(level + 1) {
            level += 1;
            for (first, member) in gone.iter().filter(|(_, it)| it.level as usize == level) {
                self.lose(first, member);
            }
        }
    }

    /// Groups a level anew after the members that begin with these documents changed, came or went.
    /// Returns the same of the level above.
    fn regroup(&mut self, level: usize, mut pending: BTreeSet<Id>) -> BTreeSet<Id> {
        let below = self.levels[level].clone();
        let mut changed = BTreeSet::new();
        while let Some(id) = pending.pop_first() {
            let above = &self.levels[level + 1];
            let until = (Bound::Unbounded, Bound::Included(id.as_ref()));
            let start = above.range::<DocumentId, _>(until).next_back();
            let start = start.map(|(first, _)| Arc::clone(first));
            let start = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let mut rest = below.range::<DocumentId, _>((start, Bound::Unbounded)).peekable();
            let mut groups = Vec::new();
            let mut end = None;
            while let Some((first, _)) = rest.peek() {
                // From a border that was there before, nothing has changed up to the next change.
                if **first > id && above.contains_key(first.as_ref()) {
                    end = Some(Arc::clone(first));
                    break;
                }
                groups.extend(self.next_group(&mut rest, level as u32 + 1));
            }
            pending = end.as_ref().map_or_else(BTreeSet::new, |end| pending.split_off(end));
            let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let old = above.range::<DocumentId, _>((start, end));
            let old: Vec<(Id, Member)> =
                old.map(|(first, member)| (Arc::clone(first), member.clone())).collect();
            for group in old.iter().filter(|group| !groups.contains(group)) {
                let (first, member) = group;
                self.levels[level + 1].remove_mut(first.as_ref());
                if member.level as usize == level + 1 {
                    self.lose(first, member);
                }
                changed.insert(Arc::clone(first));
            }
            for group in groups.into_iter().filter(|group| !old.contains(group)) {
                let (first, member) = group;
                if member.level as usize == level + 1 {
                    self.gain(&first, &member);
                }
                changed.insert(Arc::clone(&first));
                self.levels[level + 1].insert_mut(first, member);
            }
        }
        changed
    }

    /// Takes the next group of a level, as [`CorpusTree::new`] defines it.
    fn next_group<'a>(
        &self,
        rest: &mut Peekable<impl Iterator<Item = (&'a Id, &'a Member)>>,
        level: u32,
    ) -> Option<(Id, Member)> {
        let (first, alone) = rest.next()?;
        let mut members = vec![alone];
        while members.len() < self.max_children as usize
            && let Some((_, member)) = rest.next()
        {
            members.push(member);
            if CorpusTree::ends_group(&member.last, level, self.max_children) {
                break;
            }
        }
        let member = match members.as_slice() {
            [alone] => (*alone).clone(),
            _ => {
                let children: Vec<CorpusTreeKey> = members.iter().map(|it| it.key).collect();
                Member {
                    key: CorpusTreeKey::above(&children),
                    last: Arc::clone(&members[members.len() - 1].last),
                    bytes: members.iter().map(|it| it.bytes).sum(),
                    level,
                    children,
                }
            }
        };
        Some((Arc::clone(first), member))
    }

    fn gain(&mut self, first: &Id, Member { key, level, .. }: &Member) {
        self.places.insert_mut(*key, (*level, Arc::clone(first)));
        if self.rows.contains(key) {
            self.stale.remove_mut(key);
        } else {
            self.missing.insert_mut((*level, Arc::clone(first), *key));
        }
    }

    fn lose(&mut self, first: &Id, Member { key, level, .. }: &Member) {
        self.places.remove_mut(key);
        self.missing.remove_mut(&(*level, Arc::clone(first), *key));
        if self.rows.contains(key) {
            self.stale.insert_mut(*key);
        }
    }

    /// Notes that a node's row was written, or a row of no node.
    pub(crate) fn add_row(&mut self, key: CorpusTreeKey) {
        self.rows.insert_mut(key);
        match self.places.get(&key).filter(|(level, _)| *level > 0).cloned() {
            Some((level, first)) => {
                self.missing.remove_mut(&(level, first, key));
            }
            None => self.stale.insert_mut(key),
        }
    }

    /// Notes that a row was deleted.
    pub(crate) fn remove_row(&mut self, key: &CorpusTreeKey) {
        if !self.rows.remove_mut(key) || self.stale.remove_mut(key) {
            return;
        }
        if let Some((level, first)) = self.places.get(key).cloned() {
            self.missing.insert_mut((level, first, *key));
        }
    }

    /// Returns the keys of all rows.
    pub(crate) fn rows(&self) -> &RedBlackTreeSetSync<CorpusTreeKey> {
        &self.rows
    }

    /// Returns the nodes without a row, the lowest first and then by their documents.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &CorpusTreeKey> {
        self.missing.iter().map(|(_, _, key)| key)
    }

    /// Returns the rows without a node.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &CorpusTreeKey> {
        self.stale.iter()
    }

    /// Returns the node at the top, or the only document; `None` if there is none.
    pub(crate) fn root(&self) -> Option<CorpusTreeKey> {
        self.levels.last()?.first().map(|(_, member)| member.key)
    }

    /// Returns the node of that key; `None` for a document, and for a key of no node in this tree.
    pub(crate) fn get(&self, key: &CorpusTreeKey) -> Option<UpperNode<'_>> {
        let (level, first) = self.places.get(key).filter(|(level, _)| *level > 0)?;
        let member = self.levels.get(*level as usize)?.get(first.as_ref())?;
        Some(UpperNode {
            children: &member.children,
            first,
            last: &member.last,
            bytes: member.bytes,
            level: *level,
        })
    }

    /// Returns the document with a tree of that key.
    pub(crate) fn document(&self, key: &CorpusTreeKey) -> Option<&DocumentId> {
        self.places.get(key).filter(|(level, _)| *level == 0).map(|(_, id)| id.as_ref())
    }

    /// Returns whether a document has a tree.
    pub(crate) fn has_document(&self, id: &DocumentId) -> bool {
        self.levels[0].contains_key(id)
    }
}

/// Part of the corpus tree that a caller sees: the nodes of which the caller may see all documents.
/// The summary of any other node could reveal a hidden document, so the caller reads the nodes
/// below it instead.
pub(crate) struct SeenUpper<'a> {
    tree: &'a UpperTree,
    /// Hidden documents, by their labels.
    hidden: Vec<&'a RedBlackTreeSetSync<Id>>,
}

impl<'a> SeenUpper<'a> {
    pub(crate) fn new(tree: &'a UpperTree, access: &Access) -> Self {
        let hidden = tree.labelled.iter().filter(|(needed, _)| !access.admits(needed));
        Self { tree, hidden: hidden.map(|(_, documents)| documents).collect() }
    }

    fn sees(&self, first: &DocumentId, last: &DocumentId) -> bool {
        let between = (Bound::Included(first), Bound::Included(last));
        let mut hidden = self.hidden.iter();
        hidden.all(|documents| documents.range::<DocumentId, _>(between).next().is_none())
    }

    /// Returns the node of this key, if the tree has one and the caller sees it.
    pub(crate) fn get(&self, key: &CorpusTreeKey) -> Option<UpperNode<'a>> {
        self.tree.get(key).filter(|node| self.sees(node.first, node.last))
    }

    /// Returns whether this is the key of a document that the caller sees.
    pub(crate) fn sees_document(&self, key: &CorpusTreeKey) -> bool {
        self.tree.document(key).is_some_and(|id| self.sees(id, id))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clew_core::Version;
    use proptest::prelude::*;

    use super::*;

    fn id(number: u16) -> DocumentId {
        format!("{number:05}").parse().unwrap()
    }

    /// Returns a document in one of its versions; odd ones require a label.
    fn leaf(number: u16, version: u64) -> Leaf {
        let labels: &[&str] = if version % 2 == 1 { &["a"] } else { &[] };
        Leaf {
            key: CorpusTreeKey::of_document(&id(number), Version(version), 7),
            bytes: u64::from(number) + version,
            labels: Labels::parse(labels).unwrap(),
        }
    }

    /// Checks a tree against the definition.
    fn check(tree: &UpperTree, documents: &BTreeMap<DocumentId, Leaf>, rows: &[CorpusTreeKey]) {
        let listed: Vec<(DocumentId, CorpusTreeKey)> =
            documents.iter().map(|(id, leaf)| (id.clone(), leaf.key)).collect();
        let defined = CorpusTree::new(&listed, tree.max_children);
        assert_eq!(tree.root(), defined.root());
        let seen = SeenUpper::new(tree, &Access::holding([]));
        for (key, node) in defined.nodes() {
            let covered = &listed[node.documents.clone()];
            let leaves = || covered.iter().map(|(id, _)| &documents[id]);
            let expected = UpperNode {
                children: &node.children,
                first: &covered[0].0,
                last: &covered[covered.len() - 1].0,
                bytes: leaves().map(|leaf| leaf.bytes).sum(),
                level: node.level,
            };
            assert_eq!(tree.get(key), Some(expected));
            let is_seen = leaves().all(|leaf| leaf.labels.is_empty());
            assert_eq!(seen.get(key).is_some(), is_seen);
        }
        for (id, leaf) in documents {
            assert_eq!(tree.document(&leaf.key), Some(id));
            assert_eq!(seen.sees_document(&leaf.key), leaf.labels.is_empty());
            assert!(tree.has_document(id) && tree.get(&leaf.key).is_none());
        }
        assert_eq!(tree.places.size(), defined.len() + documents.len());
        let mut missing: Vec<_> = defined.nodes().filter(|(key, _)| !rows.contains(key)).collect();
        missing.sort_by_key(|(_, node)| (node.level, node.documents.start));
        assert!(tree.missing().eq(missing.into_iter().map(|(key, _)| key)));
        let stale: BTreeSet<_> = rows.iter().filter(|key| defined.get(key).is_none()).collect();
        assert!(tree.stale().eq(stale));
    }

    proptest! {
        #[test]
        fn a_kept_tree_is_the_one_that_the_documents_define(
            first in prop::collection::btree_map(0_u16..200, 0_u64..4, 0..60),
            changes in prop::collection::vec((0_u16..200, prop::option::of(0_u64..4)), 0..60),
            every in 1_usize..5,
            max_children in 2_u32..9,
        ) {
            let mut documents: BTreeMap<DocumentId, Leaf> =
                first.iter().map(|(number, version)| (id(*number), leaf(*number, *version))).collect();
            let mut tree = UpperTree::above(max_children, documents.clone());
            check(&tree, &documents, &[]);
            // Some nodes have rows, as they were before the changes.
            let rows: Vec<_> = tree.missing().copied().step_by(every).collect();
            for key in &rows {
                tree.add_row(*key);
            }
            for (number, version) in changes {
                let (id, after) = (id(number), version.map(|version| leaf(number, version)));
                tree.change(&id, documents.get(&id), after.clone());
                match after {
                    Some(leaf) => documents.insert(id, leaf),
                    None => documents.remove(&id),
                };
                check(&tree, &documents, &rows);
            }
            for key in &rows {
                tree.remove_row(key);
            }
            check(&tree, &documents, &[]);
            let (below, whole) = (tree.levels, UpperTree::above(max_children, documents).levels);
            prop_assert_eq!(below, whole);
        }

        #[test]
        fn one_change_groups_few_members_anew(
            gaps in prop::collection::vec(1_u16..5, 1000),
            place in 0_usize..1000,
        ) {
            let mut last = 0;
            let numbers: Vec<u16> = gaps.into_iter().map(|gap| { last += gap; last }).collect();
            let documents = numbers.iter().map(|number| (id(*number), leaf(*number, 0)));
            let mut tree = UpperTree::above(8, documents);
            for key in tree.missing().copied().collect::<Vec<_>>() {
                tree.add_row(key);
            }
            let number = numbers[place];
            tree.change(&id(number), Some(&leaf(number, 0)), None);
            let (gained, lost) = (tree.missing().count(), tree.stale().count());
            prop_assert!(gained < 60 && lost < 60, "{gained} and {lost}");
        }
    }
}
