//! `qrmem-entity`, `qrmem-expand`, `qrmem-reflect`, `qrmem-reflect-offline`, `qrmem-reflect-full`:
//! navigate a graph of entities to the segments that answer.
//!
//! The three navigations of QRMeM ("QRMeM: Unleash the Length Limitation through Question then
//! Reflection Memory Mechanism", section 2.2; algorithm 1 in appendix A) begin in the same way, see
//! `qrmem/navigation.rs`: the *seeds* are the entities that the question names, and the *important*
//! segments are those that mention them.
//!
//! The graph is *oriented to the question* (section 2.1, "query-oriented graph initialization"):
//! the stored graph, which serves any question, is united with what is extracted from the passages
//! around this question in view of it, see `qrmem/extension.rs`. `qrmem-reflect-offline` uses only
//! the stored graph, for comparison, and extracts nothing from passages.
//!
//! The paper reads every segment for its question. In a large memory that would take too long.
//! These strategies read the best [`MAX_READ`] places that a search for the question finds. On each
//! trial after the first, `qrmem-reflect` also reads up to as many of the segments that joined on
//! the trial before. If they cannot be read, the stored graph is used alone. `qrmem-reflect-full`
//! works like the paper: it reads every passage that may be found, up to [`MAX_FULL`], and uses
//! nothing that is stored. It is meant for a document or a small corpus, within the question's
//! budget.
//!
//! If several segments describe the same two entities in different words, the edges that might be
//! followed are *fused* into one (section 2.1, "global graph combination"), in view of the
//! question, see `qrmem/fusion.rs`.
//!
//! Decisions that the paper leaves open:
//! - The entities of a question are those that the navigator names and those that the graph
//!   recognises in it. If the graph knows none of them, the seeds are the entities of the places
//!   that a search finds best.
//! - Of an entity with many segments, the [`SEGMENTS_PER_ENTITY`] most relevant are taken: those
//!   that overlap a passage that a search for the question found, best first, then those that
//!   mention the most entities. The segments that state the edge that led to an entity come before
//!   both.
//! - The window is counted in bytes, [`WINDOW_BYTES`], and a question's `k` limits the passages in
//!   it. Important segments are cut to it, the least relevant first, but the best one always stays.
//! - The reader gets passages in order of relevance, and their scores express only that order:
//!   relevance to the question and similarity of an edge have no common scale.
//! - A filter applies to seeds, edges and segments: nothing is used that only excluded documents
//!   mention or state. A filter by attributes or time admits the 200 documents that the search
//!   finds first.
//! - A reply of the navigator that cannot be read is an error, since the paper has no rule for it.
//! - Whether a reading counts as an answer is decided by its own support, as for every strategy.

mod edge;
mod entity;
mod expand;
mod extension;
mod fusion;
mod navigation;
mod passage;
mod reflect;
#[cfg(test)]
mod tests;

pub use entity::QrmemEntity;
pub use expand::{EDGE_THRESHOLD, MAX_EXPANSIONS, QrmemExpand};
pub use extension::{MAX_READ, MAX_READ_BYTES};
pub use fusion::{MAX_DESCRIPTIONS, MAX_FUSED};
pub use navigation::MAX_FULL;
pub use reflect::QrmemReflect;

/// Maximum number of bytes of all segments that are read at once (the paper's window L): about
/// 6,000 tokens, which with instructions and reply fits a window of 8,192.
pub const WINDOW_BYTES: usize = 24_000;

/// Maximum number of updates of the set of entities. In the paper (section 3.6) the second update
/// helps most, and after a few more the accuracy stays the same.
pub const MAX_TRIALS: usize = 5;

/// Maximum number of segments that one entity adds.
pub const SEGMENTS_PER_ENTITY: usize = 8;
