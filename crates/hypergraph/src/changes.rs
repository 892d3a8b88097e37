//! What a step did to the memory.

use std::collections::BTreeSet;

use clew_core::{EntityKey, PointFate};
use serde::Serialize;

use crate::point::PointId;

/// What a step has changed so far. A point that was inserted or updated and merged thereafter is told in
/// both places.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// The step, from 0.
    pub step: u32,
    /// Points whose description or segments were revised.
    pub updated: BTreeSet<PointId>,
    /// Points that were inserted.
    pub inserted: BTreeSet<PointId>,
    /// Points that were merged, in that order.
    pub merged: Vec<Merging>,
    /// Entities that the graph did not know and points brought (footnote 3).
    pub entities_inserted: BTreeSet<EntityKey>,
    /// Mean number of entities of a point before the step, as in table 3; 0 of no points.
    pub entities_per_point_before: f64,
    /// The same now.
    pub entities_per_point: f64,
}

impl Changes {
    /// What the step did to a point; of several changes the last, since merging comes after both others.
    pub fn fate(&self, point: PointId) -> PointFate {
        if self.merged.iter().any(|merging| merging.into == point) {
            PointFate::Merged
        } else if self.inserted.contains(&point) {
            PointFate::Inserted
        } else if self.updated.contains(&point) {
            PointFate::Updated
        } else {
            PointFate::Kept
        }
    }
}

/// Points that became one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Merging {
    /// The points, which are gone.
    pub from: BTreeSet<PointId>,
    /// What they became.
    pub into: PointId,
}
