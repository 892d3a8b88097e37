//! Changes of a step to the memory.

use std::collections::BTreeSet;

use clew_core::{EntityKey, PointFate};
use serde::Serialize;

use crate::point::PointId;

/// Changes of a step so far. A point that was inserted or updated and then merged is in both
/// places.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Number of the step, from 0.
    pub step: u32,
    /// Points whose description or segments were revised.
    pub updated: BTreeSet<PointId>,
    /// Points that were inserted.
    pub inserted: BTreeSet<PointId>,
    /// Mergings, in their order.
    pub merged: Vec<PointMerge>,
    /// Entities that points brought and the graph did not know (footnote 3).
    pub entities_inserted: BTreeSet<EntityKey>,
    /// Mean number of entities per point before the step, as in table 3; 0 without points.
    pub entities_per_point_before: f64,
    /// Mean number of entities per point now.
    pub entities_per_point: f64,
}

impl Changes {
    /// Returns what the step did to a point. Of several changes it returns the last, because
    /// merging comes after the others.
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
pub struct PointMerge {
    /// Points that were merged and no longer exist.
    pub from: BTreeSet<PointId>,
    /// Point that they became.
    pub into: PointId,
}
