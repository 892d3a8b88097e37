//! View of the corpus' graph, as one question knows it.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, EntityKind, EntityNode, RelationEdge, SegmentId, Subgraph};

use crate::error::Error;
use crate::limit::Limit;
use crate::point::PointEntity;

/// Part of a corpus' graph that a question has seen, and the question's own additions: the part of
/// G that matters to the memory.
///
/// The graph of the corpus does not change, because a model's statement for one question is not a
/// fact for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenGraph {
    entities: BTreeMap<EntityKey, EntityNode>,
    /// Keys of the entities that did not come from the graph.
    inserted: BTreeSet<EntityKey>,
    relations: Vec<RelationEdge>,
    told: Vec<ToldRelation>,
}

/// Relation that came with entities which the graph did not know (section 3.3, footnote 3): the
/// description of the point that brought them. It ties each two of its entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldRelation {
    /// Entities of the point.
    pub entities: BTreeSet<EntityKey>,
    /// Description of the point at that time.
    pub text: String,
    /// Segments that the point came from.
    pub segments: BTreeSet<SegmentId>,
}

impl SeenGraph {
    /// Returns the entities of the view, by key.
    pub fn entities(&self) -> impl ExactSizeIterator<Item = &EntityNode> {
        self.entities.values()
    }

    /// Returns an entity of the view.
    pub fn entity(&self, key: &EntityKey) -> Option<&EntityNode> {
        self.entities.get(key)
    }

    /// Returns whether an entity is in the view because a point named it, and not because it came
    /// from the graph.
    pub fn is_inserted(&self, key: &EntityKey) -> bool {
        self.inserted.contains(key)
    }

    /// Returns the relations that came from the graph, by segment and position.
    pub fn relations(&self) -> &[RelationEdge] {
        &self.relations
    }

    /// Returns the relations that came with inserted entities, in their order.
    pub fn told(&self) -> &[ToldRelation] {
        &self.told
    }

    /// Returns N_G of equation 6: the entities that a relation ties to any of `entities`, in either
    /// direction. An entity is not its own neighbour, but may be that of another of `entities`.
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

    /// Adds a part of the graph. The graph's data on an entity replace what was known of it;
    /// segments are united. A relation of which an end is not known is left out.
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

    /// Adds the entities of a point that are not known, with the point's description as their
    /// relation. Returns the added entities.
    pub(crate) fn tell(
        &mut self,
        named: &BTreeMap<&EntityKey, &PointEntity>,
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

/// Returns those of the entities `tied` to each other that are neighbours of any of `of`.
pub(crate) fn neighbours_in(
    tied: &BTreeSet<EntityKey>,
    of: &BTreeSet<EntityKey>,
) -> BTreeSet<EntityKey> {
    let is_neighbour =
        |key: &&EntityKey| tied.iter().any(|other| other != *key && of.contains(other));
    tied.iter().filter(is_neighbour).cloned().collect()
}
