//! Corpus tree above the documents of a catalogue, and the part of it that a caller sees.

use std::collections::HashMap;
use std::ops::Range;

use clew_core::{Access, CorpusTree, CorpusTreeKey, CorpusTreeNode, DocumentId, Labels};

use crate::catalogue::Catalogue;
use crate::catalogue::record::DocumentRecord;

/// Corpus tree above the documents of a shard's state.
#[derive(Debug)]
pub(crate) struct CorpusTreeView {
    pub tree: CorpusTree,
    /// Documents by id, each with the sum of the bytes of all texts before it.
    pub documents: Vec<(DocumentId, u64)>,
    /// Places of the documents that require labels, in order, with these labels.
    labelled: Vec<(usize, Labels)>,
    pub of_key: HashMap<CorpusTreeKey, usize>,
    bytes: u64,
}

/// Part of the corpus tree that a caller sees: the nodes of which the caller may see all documents.
/// The summary of any other node could reveal a hidden document, so the caller reads the nodes
/// below it instead.
pub(crate) struct SeenUpper<'a> {
    view: &'a CorpusTreeView,
    /// Places of the hidden documents, in order.
    hidden: Vec<usize>,
}

impl<'a> SeenUpper<'a> {
    pub(crate) fn new(view: &'a CorpusTreeView, access: &Access) -> Self {
        let hidden = view.labelled.iter().filter(|(_, needed)| !access.admits(needed));
        Self { view, hidden: hidden.map(|(place, _)| *place).collect() }
    }

    fn sees(&self, documents: &Range<usize>) -> bool {
        let first = self.hidden.partition_point(|place| *place < documents.start);
        self.hidden.get(first).is_none_or(|place| *place >= documents.end)
    }

    /// Returns the node of this key, if the tree has one and the caller sees it.
    pub(crate) fn get(&self, key: &CorpusTreeKey) -> Option<&'a CorpusTreeNode> {
        self.view.tree.get(key).filter(|node| self.sees(&node.documents))
    }

    /// Returns whether this is the key of a document that the caller sees.
    pub(crate) fn sees_document(&self, key: &CorpusTreeKey) -> bool {
        self.view.of_key.get(key).is_some_and(|&place| self.sees(&(place..place + 1)))
    }
}

impl CorpusTreeView {
    /// Returns the corpus tree above the documents of a catalogue that have a tree.
    pub(crate) fn new(catalogue: &Catalogue, max_children: u32) -> Self {
        let mut view = Self {
            tree: CorpusTree::default(),
            documents: Vec::new(),
            labelled: Vec::new(),
            of_key: HashMap::new(),
            bytes: 0,
        };
        let mut keys = Vec::new();
        for (record, key) in catalogue.structured() {
            view.of_key.insert(key, view.documents.len());
            if !record.needs().is_empty() {
                view.labelled.push((view.documents.len(), record.needs().clone()));
            }
            view.documents.push((record.id.clone(), view.bytes));
            view.bytes += bytes_of(record);
            keys.push((record.id.clone(), key));
        }
        view.tree = CorpusTree::new(&keys, max_children);
        view
    }

    /// Returns the bytes of the documents at these places.
    pub(crate) fn bytes_of(&self, documents: &Range<usize>) -> u64 {
        let before = |place: usize| self.documents.get(place).map_or(self.bytes, |(_, sum)| *sum);
        before(documents.end) - before(documents.start)
    }
}

fn bytes_of(record: &DocumentRecord) -> u64 {
    let live = record.live().map(|live| live.version);
    let source = record.facts.sources.iter().find(|source| Some(source.version) == live);
    source.map_or(0, |source| source.bytes)
}
