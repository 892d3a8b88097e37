//! The working memory of a question.

use clew_core::{EntityKey, EntityNode, Evidence, MemoryPoint};
use clew_hypergraph::{Hypergraph, PointId};

use crate::admitted::Admitted;
use crate::work::Work;

/// Memory of a question while it grows.
pub(super) struct Memory<'a> {
    pub(super) work: Work<'a>,
    pub(super) admitted: Admitted,
    pub(super) graph: Hypergraph,
    /// Subqueries with their vectors, oldest first.
    pub(super) asked: Vec<(String, Vec<f32>)>,
    /// Passages that the search for the question found, best first.
    pub(super) hits: Vec<Evidence>,
}

impl Memory<'_> {
    /// Returns the points as a planner sees them, in order of their numbers.
    pub(super) fn points(&self) -> Vec<MemoryPoint> {
        let point = |point: &clew_hypergraph::Point| MemoryPoint {
            entities: point.entities.iter().map(|key| self.name_of(key)).collect(),
            text: point.description.clone(),
        };
        self.graph.points().map(point).collect()
    }

    pub(super) fn ids(&self) -> Vec<PointId> {
        self.graph.points().map(|point| point.id).collect()
    }

    pub(super) fn name_of(&self, key: &EntityKey) -> String {
        let known = self.graph.view().entity(key);
        known.map_or_else(|| key.to_string(), |entity| entity.name.clone())
    }

    /// Returns the key for a name: that of the only entity in the view with this name as an alias,
    /// such as a surname, else the name's own key.
    pub(super) fn key_of(&self, name: &str) -> Option<EntityKey> {
        let key = clew_graph::entity_key(name)?;
        let view = self.graph.view();
        if view.entity(&key).is_some() {
            return Some(key);
        }
        let is_called_so = |entity: &&EntityNode| {
            entity.aliases.iter().any(|alias| clew_graph::entity_key(alias).as_ref() == Some(&key))
        };
        let mut called = view.entities().filter(is_called_so);
        match (called.next(), called.next()) {
            (Some(one), None) => Some(one.key.clone()),
            _ => Some(key),
        }
    }
}
