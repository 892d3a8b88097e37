//! What a question has gathered so far, as a hypergraph: the working memory of HGMem ("Improving Multi-step
//! RAG with Hypergraph-based Memory for Long-context Complex Relational Modeling", sections 3.3 to 3.5).
//!
//! # Its parts
//!
//! - A [`Point`] (the paper's memory point, a hyperedge, equation 5) is a description and the two or more
//!   entities that it is about. It knows the segments that its content came from.
//! - The [`View`] is the part of the corpus' graph that the question has seen: what was retrieved
//!   ([`Hypergraph::learn`]), and the entities that points named and the graph did not know.
//! - The [`Hypergraph`] is both together, and the only one that changes them: by [`Hypergraph::update`],
//!   [`Hypergraph::insert`] and [`Hypergraph::merge`], in the order of section 3.5 within each step.
//! - A [`Snapshot`] is the memory at the end of a step with what the step changed ([`Changes`]): for traces
//!   as JSON, for people as a figure ([`svg()`], [`svg_steps`]). [`Hypergraph::text`] is what a reasoner reads.
//!
//! # What always holds
//!
//! - Every entity of a point is in the view (section 3.3, footnote 3).
//! - A point has at least two entities and at least one segment.
//! - Numbers of points are never used twice. A point that was merged tells what into
//!   ([`Hypergraph::current`]), and what it became has all its entities and segments: nothing that was
//!   gathered loses the way back to its source.
//! - The limits hold ([`Limit`]), so that the memory of a question is bounded whatever a model answers.
//! - An operation that is refused ([`Error`]) changes nothing.
//!
//! # Where it differs from the paper
//!
//! - Points know their segments and what they were merged from. The paper keeps segments for entities only,
//!   which tells where to look but not what a description rests on.
//! - Unknown entities are inserted into the question's view and not into the graph: what a model says for
//!   one question is no fact for the next.
//! - Entities have a name and a kind; Clew's graph has no descriptions of them.
//! - Everything is limited.
//!
//! # What is absent
//!
//! Judging what is worth remembering (`clew_reason`), retrieving it (`clew_strategy`), and telling names of
//! one entity apart: whoever inserts a point tells the [`EntityKey`](clew_core::EntityKey) of each name.
//! Vertices and points have no embeddings: candidates are ranked by whoever searches.

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

pub use changes::{Changes, Merging};
pub use error::Error;
pub use export::{Snapshot, Vertex, to_json};
pub use limit::Limit;
pub use memory::Hypergraph;
pub use picture::{Figure, figure, svg, svg_steps};
pub use point::{NamedEntity, Point, PointId};
pub use view::{ToldRelation, View};

#[cfg(test)]
mod tests;
