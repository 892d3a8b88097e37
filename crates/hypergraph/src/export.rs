//! Export of the memory at the end of a step.

use std::collections::BTreeMap;

use clew_core::{EntityKey, EntityNode, SegmentId};
use serde::Serialize;

use crate::changes::Changes;
use crate::memory::Hypergraph;
use crate::point::Point;

/// Memory at the end of a step, and the changes of the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepState {
    /// Changes of the step.
    pub changes: Changes,
    /// Points, by number.
    pub points: Vec<Point>,
    /// Vertices, by key.
    pub vertices: BTreeMap<EntityKey, Vertex>,
}

/// Vertex of the memory (equation 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vertex {
    /// Name of the entity.
    pub name: String,
    /// Segments that the entity is associated with, in order.
    #[serde(serialize_with = "crate::segments::serialize")]
    pub segments: Vec<SegmentId>,
    /// Whether a point brought the entity because the graph did not know it.
    pub is_inserted: bool,
}

impl Hypergraph {
    /// Returns the current memory.
    pub fn snapshot(&self) -> StepState {
        let vertex = |node: &EntityNode| Vertex {
            name: node.name.clone(),
            segments: node.segments.clone(),
            is_inserted: self.view().is_inserted(&node.key),
        };
        StepState {
            changes: self.changes().clone(),
            points: self.points().cloned().collect(),
            vertices: self.vertices().map(|node| (node.key.clone(), vertex(node))).collect(),
        }
    }
}

/// Writes steps as a JSON array of objects with `changes`, `points` and `vertices`, whose fields
/// are those of [`StepState`]. A point is referred to by its number. A segment is its `document`,
/// `version` and `ordinal`.
pub fn to_json(steps: &[StepState]) -> String {
    serde_json::to_string(steps).expect("strings and finite numbers can always be written")
}
