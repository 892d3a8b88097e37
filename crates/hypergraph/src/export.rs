//! The memory at the end of a step, for whoever shows it.

use std::collections::BTreeMap;

use clew_core::{EntityKey, EntityNode, SegmentId};
use serde::Serialize;

use crate::changes::Changes;
use crate::memory::Hypergraph;
use crate::point::Point;

/// The memory at the end of a step, and what the step changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// What the step changed.
    pub changes: Changes,
    /// The points, by number.
    pub points: Vec<Point>,
    /// The vertices.
    pub vertices: BTreeMap<EntityKey, Vertex>,
}

/// A vertex of the memory (equation 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vertex {
    /// The entity's name.
    pub name: String,
    /// The segments it is associated with, in order.
    #[serde(serialize_with = "crate::segments::serialize")]
    pub segments: Vec<SegmentId>,
    /// Whether a point brought it because the graph did not know it.
    pub is_inserted: bool,
}

impl Hypergraph {
    /// The memory as it is.
    pub fn snapshot(&self) -> Snapshot {
        let vertex = |node: &EntityNode| Vertex {
            name: node.name.clone(),
            segments: node.segments.clone(),
            is_inserted: self.view().is_inserted(&node.key),
        };
        Snapshot {
            changes: self.changes().clone(),
            points: self.points().cloned().collect(),
            vertices: self.vertices().map(|node| (node.key.clone(), vertex(node))).collect(),
        }
    }
}

/// Steps as a JSON array of objects with `changes`, `points` and `vertices`, whose fields are those of
/// [`Snapshot`]. Points are told by their numbers; a segment is its `document`, `version` and `ordinal`.
pub fn to_json(steps: &[Snapshot]) -> String {
    serde_json::to_string(steps).expect("strings and finite numbers can always be written")
}
