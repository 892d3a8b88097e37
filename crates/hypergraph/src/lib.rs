//! Working memory of a question, as a hypergraph: HGMem ("Improving Multi-step RAG with
//! Hypergraph-based Memory for Long-context Complex Relational Modeling", sections 3.3 to 3.5).
//!
//! # Parts
//!
//! - A [`Point`] (the paper's memory point, a hyperedge, equation 5) is a description and the two
//!   or more entities that it is about. It knows the segments that its content came from.
//! - The [`SeenGraph`] is the part of the corpus' graph that the question has seen: what was
//!   retrieved ([`Hypergraph::learn`]), and the entities that points named and the graph did not
//!   know.
//! - The [`Hypergraph`] holds both, and only it changes them: by [`Hypergraph::update`],
//!   [`Hypergraph::insert`] and [`Hypergraph::merge`], in the order of section 3.5 within each
//!   step.
//! - A [`StepState`] is the memory at the end of a step, with the changes of the step
//!   ([`Changes`]). It is written as JSON for traces, and as a figure for people ([`svg()`],
//!   [`svg_steps`]). A reasoner reads [`Hypergraph::text`].
//!
//! # Invariants
//!
//! - Every entity of a point is in the view (section 3.3, footnote 3).
//! - A point has at least two entities and at least one segment.
//! - Numbers of points are never reused. For a merged point [`Hypergraph::current`] returns the
//!   point that it is part of now, which has all its entities and segments. So everything that was
//!   gathered can be traced to its source.
//! - The limits hold ([`Limit`]), so that the memory of a question is bounded whatever a model
//!   answers.
//! - An operation that is refused ([`Error`]) changes nothing.
//!
//! # Differences from the paper
//!
//! - Points know their segments, and the points they were merged from. The paper keeps segments for
//!   entities only. These say where to look, but not what a description rests on.
//! - Unknown entities are inserted into the question's view and not into the graph, because a
//!   model's statement for one question is not a fact for the next.
//! - Entities have a name and a kind. Clew's graph has no descriptions of them.
//! - Everything is limited.
//!
//! # Not in this crate
//!
//! `clew_reason` judges what is worth remembering, and `clew_strategy` retrieves it. The caller
//! that inserts a point resolves names to entities, and gives the
//! [`EntityKey`](clew_core::EntityKey) of each name. Vertices and points have no embeddings: the
//! caller that searches ranks candidates.

mod changes;
mod error;
mod export;
mod limit;
mod memory;
mod picture;
mod point;
mod segments;
mod text;
mod view;

pub use changes::{Changes, PointMerge};
pub use error::Error;
pub use export::{StepState, Vertex, to_json};
pub use limit::Limit;
pub use memory::Hypergraph;
pub use picture::{Drawing, figure, svg, svg_steps};
pub use point::{Point, PointEntity, PointId};
pub use view::{SeenGraph, ToldRelation};

#[cfg(test)]
mod tests;
