//! Graph of a corpus, in memory: the entities and relations of many documents (QRMeM, section 2.1,
//! "global graph combination").

mod document;
mod draft;
mod query;
mod store;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use clew_core::{DocumentId, EntityKey, Version};

pub use self::document::{GraphDocument, GraphSegment};
use self::draft::Draft;
pub use self::query::GraphView;
use self::store::{Document, Naming, Node, Slots};
use crate::key::entity_key;
use crate::near::NameIndex;

/// Graph of many documents, which serves any question.
///
/// # Identity of entities
///
/// Names with the same key ([`crate::entity_key`]) are one entity, in all documents. Within a
/// document, a surname alone stands for the one person of the document whose full name ends with
/// it. In another document it may be someone else. There it stays an entity of its own and is only
/// *near* ([`Graph::near`]). Near names are those that begin or end with the name, acronyms, and
/// spellings that share most of their letters. They are looked up on demand; nothing is stored for
/// pairs of names. If documents come with vectors of their entities, entities of different
/// documents are near, too, if their names and descriptions are alike.
///
/// # Cost
///
/// An edit touches only what its document names. After any sequence of edits the graph equals the
/// one built from the remaining documents. Names are stored once. A relation takes 44 bytes and its
/// words, and the signs of a vector of 384 components take 52 bytes.
#[derive(Debug, Default)]
pub struct Graph {
    documents: Slots<Document>,
    by_id: BTreeMap<DocumentId, u32>,
    entities: Slots<Node>,
    names: NameIndex,
    /// Keys of other names of entities, such as a surname alone.
    aliases: HashMap<Box<str>, Vec<u32>>,
    segments: u64,
}

impl Graph {
    /// Adds a document, and replaces any earlier version of it.
    pub fn insert(&mut self, document: GraphDocument) {
        self.remove(&document.document_id);
        let draft = Draft::of(document);
        let ids: Vec<u32> = draft.keys.iter().map(|key| self.entity(key)).collect();
        let namings: Vec<Naming> =
            draft.namings.iter().map(|naming| self.name(&ids, naming)).collect();
        let document = draft.into_document(&ids, namings);
        let id = document.id.clone();
        let handle = self.documents.add(document);
        self.link(handle, &ids);
        self.segments +=
            self.documents.get(handle).map_or(0, |document| document.segments.len() as u64);
        self.by_id.insert(id, handle);
    }

    /// Removes a document, with everything that only it stated. Returns whether it was there.
    pub fn remove(&mut self, id: &DocumentId) -> bool {
        let Some(handle) = self.by_id.remove(id) else { return false };
        let documents = &self.documents;
        let Some(document) = documents.get(handle) else { return false };
        for (entity, segments) in document.entities() {
            let Some(node) = self.entities.get_mut(entity) else { continue };
            node.segments -= segments;
            if let Ok(at) = position(documents, &node.documents, id) {
                node.documents.remove(at);
            }
        }
        let Some(document) = self.documents.take(handle) else { return false };
        self.segments -= document.segments.len() as u64;
        for naming in &document.namings {
            self.unname(naming);
        }
        for (entity, _) in document.entities() {
            self.drop_if_unnamed(entity);
        }
        true
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of entities.
    pub fn entities(&self) -> usize {
        self.entities.len()
    }

    /// Returns the number of relations.
    pub fn relations(&self) -> usize {
        self.documents.iter().map(|(_, document)| document.relations.len()).sum()
    }

    /// Returns the version of a document in the graph.
    pub fn version(&self, id: &DocumentId) -> Option<Version> {
        let handle = self.by_id.get(id)?;
        self.documents.get(*handle).map(|document| document.version)
    }

    /// Returns the documents whose title is the entity, in order.
    pub fn titled(&self, key: &EntityKey) -> Vec<DocumentId> {
        let Some(entity) = self.names.get(&key.0) else { return Vec::new() };
        let node = self.entities.get(entity);
        let documents = node.into_iter().flat_map(|node| &node.documents);
        documents
            .filter_map(|&handle| self.documents.get(handle))
            .filter(|document| document.title == Some(entity))
            .map(|document| document.id.clone())
            .collect()
    }

    /// Returns the entities whose names are near to `key`, nearest first, with their nearness:
    /// above 0, at most 1. These are HippoRAG's synonymy edges.
    pub fn near(&self, key: &EntityKey) -> Vec<(EntityKey, f32)> {
        let near = self.near_ids(&key.0).into_iter();
        near.map(|(entity, nearness)| (EntityKey(self.key(entity).to_owned()), nearness)).collect()
    }

    fn near_ids(&self, key: &str) -> Vec<(u32, f32)> {
        self.names.near(key, |entity| self.key(entity))
    }

    fn key(&self, entity: u32) -> &str {
        self.entities.get(entity).map_or("", |node| &node.key)
    }

    /// Returns the entity with that key, and adds it if it does not exist.
    fn entity(&mut self, key: &EntityKey) -> u32 {
        if let Some(entity) = self.names.get(&key.0) {
            return entity;
        }
        let entity = self.entities.add(Node::new(&key.0));
        self.names.insert(entity, &key.0);
        entity
    }

    /// Counts a name of an entity.
    fn name(&mut self, ids: &[u32], naming: &draft::Naming) -> Naming {
        let entity = ids[naming.key];
        let (kind, count) = (naming.kind, naming.count);
        let mut spelling: Arc<str> = Arc::from(naming.spelling.as_str());
        if let Some(node) = self.entities.get_mut(entity) {
            let (known, is_first) = node.count(spelling, kind, count);
            spelling = known;
            let other = entity_key(&spelling).filter(|key| key.0 != *node.key);
            if let Some(other) = other.filter(|_| is_first) {
                let entities = self.aliases.entry(other.0.into()).or_default();
                entities.push(entity);
            }
        }
        Naming { entity, kind, count, spelling }
    }

    /// Undoes [`Self::name`].
    fn unname(&mut self, naming: &Naming) {
        let Some(node) = self.entities.get_mut(naming.entity) else { return };
        if !node.uncount(naming) {
            return;
        }
        let other = entity_key(&naming.spelling).filter(|key| key.0 != *node.key);
        let Some(other) = other else { return };
        let Some(entities) = self.aliases.get_mut(other.0.as_str()) else { return };
        // The list has one entry for each spelling.
        if let Some(at) = entities.iter().position(|entity| *entity == naming.entity) {
            entities.swap_remove(at);
        }
        if entities.is_empty() {
            self.aliases.remove(other.0.as_str());
        }
    }

    fn drop_if_unnamed(&mut self, entity: u32) {
        let is_unnamed = self.entities.get(entity).is_some_and(|node| node.documents.is_empty());
        if is_unnamed && let Some(node) = self.entities.take(entity) {
            self.names.remove(entity, &node.key);
        }
    }

    /// Registers a document with the entities that it mentions.
    fn link(&mut self, handle: u32, ids: &[u32]) {
        let documents = &self.documents;
        let Some(document) = documents.get(handle) else { return };
        debug_assert_eq!(document.entities().count(), ids.len(), "each key is mentioned");
        for (entity, segments) in document.entities() {
            let Some(node) = self.entities.get_mut(entity) else { continue };
            node.segments += segments;
            if let Err(at) = position(documents, &node.documents, &document.id) {
                node.documents.insert(at, handle);
            }
        }
    }
}

/// Returns the position of a document among others, which are in the order of their ids.
fn position(documents: &Slots<Document>, among: &[u32], id: &DocumentId) -> Result<usize, usize> {
    among.binary_search_by(|handle| {
        documents.get(*handle).map(|document| &document.id).cmp(&Some(id))
    })
}

#[cfg(test)]
mod tests;
