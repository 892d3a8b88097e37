//! A memory point: a hyperedge with what it says.

use std::collections::BTreeSet;
use std::fmt;

use clew_core::{EntityKey, SegmentId};
use serde::{Deserialize, Serialize};

/// Number of a memory point, from 1; never used twice for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PointId(pub u32);

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// A memory point: a hyperedge of equation 5, with where its content came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Its number.
    pub id: PointId,
    /// What it says; not blank.
    pub description: String,
    /// What it is about: at least two.
    pub entities: BTreeSet<EntityKey>,
    /// What its content came from: at least one. Grows only.
    #[serde(serialize_with = "crate::segments::serialize")]
    pub segments: BTreeSet<SegmentId>,
    /// The step that it was made in, from 0.
    pub step: u32,
    /// The points that it was merged from, which are gone; empty for an inserted one.
    pub merged_from: BTreeSet<PointId>,
}

/// An entity as a new point names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEntity {
    /// What tells it apart.
    pub key: EntityKey,
    /// How it is called, if the graph does not know it.
    pub name: String,
}
