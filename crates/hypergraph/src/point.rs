//! Memory points: hyperedges with a description.

use std::collections::BTreeSet;
use std::fmt;

use clew_core::{EntityKey, SegmentId};
use serde::{Deserialize, Serialize};

/// Number of a memory point, from 1; never reused for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PointId(pub u32);

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// Memory point: a hyperedge of equation 5, with the segments that its content came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Number of the point.
    pub id: PointId,
    /// Description; not blank.
    pub description: String,
    /// Entities that it is about, at least two.
    pub entities: BTreeSet<EntityKey>,
    /// Segments that its content came from, at least one. Only grows.
    #[serde(serialize_with = "crate::segments::serialize")]
    pub segments: BTreeSet<SegmentId>,
    /// Step in which it was made, from 0.
    pub step: u32,
    /// Points that it was merged from, which no longer exist; empty for an inserted one.
    pub merged_from: BTreeSet<PointId>,
}

/// Entity as a new point names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointEntity {
    /// Key of the entity.
    pub key: EntityKey,
    /// Name to use if the graph does not know the entity.
    pub name: String,
}
