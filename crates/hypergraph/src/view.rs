//! The graph as a question knows it.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, EntityKind, EntityNode, RelationEdge, SegmentId, Subgraph};

use crate::error::Error;
use crate::limit::Limit;
use crate::point::NamedEntity;

/// The part of a corpus' graph that a question has seen, and what it added to it for itself: G as far as
/// the memory has to do with it.
///
/// The graph of the corpus is not touched, since what a model says for one question is no fact for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    entities: BTreeMap<EntityKey, EntityNode>,
    /// Those of `entities` that the graph has not told.
    inserted: BTreeSet<EntityKey>,
    relations: Vec<RelationEdge>,
    told: Vec<ToldRelation>,
}

/// A relation that came with entities which the graph did not know (section 3.3, footnote 3): what the point
/// said that brought them. It ties each two of its entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldRelation {
    /// The point's entities.
    pub entities: BTreeSet<EntityKey>,
    /// The point's description at that time.
    pub text: String,
    /// What the point came from.
    pub segments: BTreeSet<SegmentId>,
}

impl View {
    /// Its entities, by key.
    pub fn entities(&self) -> impl ExactSizeIterator<Item = &EntityNode> {
        self.entities.values()
    }

    /// An entity of it.
    pub fn entity(&self, key: &EntityKey) -> Option<&EntityNode> {
        self.entities.get(key)
    }

    /// Whether an entity is in it because a point named it and not because the graph told it.
    pub fn is_inserted(&self, key: &EntityKey) -> bool {
        self.inserted.contains(key)
    }

    /// The relations that the graph told, by segment and place.
    pub fn relations(&self) -> &[RelationEdge] {
        &self.relations
    }

    /// The relations that came with inserted entities, first told first.
    pub fn told(&self) -> &[ToldRelation] {
        &self.told
    }

    /// N_G of equation 6: what a relation ties to any of `entities`, in either direction. An entity is not
    /// its own neighbour, but may be that of another of them.
    ///
    /// Costs one pass over the relations.
    pub fn neighbours(&self, entities: &BTreeSet<EntityKey>) -> BTreeSet<EntityKey> {
        let mut neighbours = BTreeSet::new();
        for RelationEdge { head, tail, .. } in &self.relations {
            if head == tail {
                continue;
            }
            if entities.contains(head) {
                neighbours.insert(tail.clone());
            }
            if entities.contains(tail) {
                neighbours.insert(head.clone());
            }
        }
        for relation in &self.told {
            neighbours.extend(neighbours_in(&relation.entities, entities));
        }
        neighbours
    }

    /// Adds what the graph tells. What it tells of an entity goes before what was known of it; segments are
    /// united. A relation of which an end is not known is left out.
    pub(crate) fn learn(&mut self, part: &Subgraph) -> Result<(), Error> {
        let new: BTreeSet<&EntityKey> = part
            .entities
            .iter()
            .map(|node| &node.key)
            .filter(|key| !self.entities.contains_key(key))
            .collect();
        Limit::KnownEntities.check(self.entities.len() + new.len())?;
        let is_known = |key: &EntityKey| self.entities.contains_key(key) || new.contains(key);
        let mut relations = self.relations.clone();
        let known = |edge: &&RelationEdge| is_known(&edge.head) && is_known(&edge.tail);
        relations.extend(part.relations.iter().filter(known).cloned());
        relations.sort_by(|a, b| {
            let place = |edge: &RelationEdge| (edge.segment.clone(), edge.evidence);
            let words =
                |edge: &RelationEdge| (edge.head.clone(), edge.tail.clone(), edge.text.clone());
            place(a).cmp(&place(b)).then_with(|| words(a).cmp(&words(b)))
        });
        relations.dedup();
        Limit::KnownRelations.check(relations.len())?;
        self.relations = relations;
        for node in &part.entities {
            let mut node = node.clone();
            if let Some(before) = self.entities.remove(&node.key) {
                let segments = before.segments.into_iter().chain(node.segments);
                node.segments = segments.collect::<BTreeSet<_>>().into_iter().collect();
                node.mentioned_in =
                    node.mentioned_in.max(before.mentioned_in).max(node.segments.len() as u64);
            }
            self.inserted.remove(&node.key);
            self.entities.insert(node.key.clone(), node);
        }
        Ok(())
    }

    /// Adds the entities of a point that are not known, with what the point says as their relation; those
    /// that it added.
    pub(crate) fn tell(
        &mut self,
        named: &BTreeMap<&EntityKey, &NamedEntity>,
        text: &str,
        segments: &BTreeSet<SegmentId>,
    ) -> Result<Vec<EntityKey>, Error> {
        let is_new = |key: &&EntityKey| !self.entities.contains_key(*key);
        let new: Vec<EntityKey> = named.keys().copied().filter(is_new).cloned().collect();
        Limit::KnownEntities.check(self.entities.len() + new.len())?;
        if new.is_empty() {
            return Ok(new);
        }
        for key in &new {
            let node = EntityNode {
                key: key.clone(),
                name: named.get(key).map_or(&key.0, |entity| &entity.name).trim().to_owned(),
                kind: EntityKind::Other,
                aliases: Vec::new(),
                segments: segments.iter().cloned().collect(),
                mentioned_in: segments.len() as u64,
                titled: Vec::new(),
                description: String::new(),
            };
            self.entities.insert(key.clone(), node);
        }
        self.inserted.extend(new.iter().cloned());
        self.told.push(ToldRelation {
            entities: named.keys().map(|key| (*key).clone()).collect(),
            text: text.to_owned(),
            segments: segments.clone(),
        });
        Ok(new)
    }
}

/// Of entities that are all tied to each other, those that are neighbours of any of `of`.
pub(crate) fn neighbours_in(
    tied: &BTreeSet<EntityKey>,
    of: &BTreeSet<EntityKey>,
) -> BTreeSet<EntityKey> {
    let is_neighbour =
        |key: &&EntityKey| tied.iter().any(|other| other != *key && of.contains(other));
    tied.iter().filter(is_neighbour).cloned().collect()
}
