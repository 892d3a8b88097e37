//! `qrmem-entity`, `qrmem-expand`, `qrmem-reflect`, `qrmem-reflect-offline`, `qrmem-reflect-full`: through a graph of
//! entities to the segments that answer.
//!
//! The three navigations of QRMeM ("QRMeM: Unleash the Length Limitation through Question then
//! Reflection Memory Mechanism", section 2.2; algorithm 1 in appendix A) begin alike, see
//! `qrmem/navigation.rs`: the *seeds* are the entities that the question names, and the *important*
//! segments are those that mention them.
//!
//! The graph is *oriented to the question* (section 2.1, "query-oriented graph initialization"): what
//! the stored graph tells, which serves any question, is united with what reading the passages
//! around this one finds in view of it, see `qrmem/extension.rs`. `qrmem-reflect-offline` uses the
//! stored graph alone, for comparison, and has nothing read out of passages.
//!
//! The paper reads every segment for its question, which of a large memory nobody could wait for.
//! We read the best [`MAX_READ`] places that a search for the question finds, and on each trial of
//! `qrmem-reflect` after the first as many of the segments that joined on the one before. Where
//! they cannot be read, the stored graph has to do. `qrmem-reflect-full` does as the paper: it reads
//! every passage that may be found, up to [`MAX_FULL`], and uses nothing that is stored; for a
//! document or a small corpus, within the question's budget.
//!
//! Where several segments tell of the same two entities in different words, the edges that might be followed are
//! *fused* into one (section 2.1, "global graph combination"), in view of the question, see `qrmem/fusion.rs`.
//!
//! What the paper leaves open is decided so:
//! - The entities of a question are those that the navigator names and those that the graph
//!   recognises in it. Where the graph knows none of them, the entities of the places that a search
//!   finds best are the seeds.
//! - Of an entity with many segments the [`SEGMENTS_PER_ENTITY`] most relevant are taken: those
//!   that overlap a passage that a search for the question found, best first; then those that
//!   mention most of the entities. What states the edge that led to an entity comes before both.
//! - The window is counted in bytes, [`WINDOW_BYTES`], and a question's `k` is the most passages in
//!   it. Important segments are cut to it, the least relevant first, but for the best one.
//! - The reader is given passages in their order of relevance, and their scores say no more than
//!   that: relevance to the question and similarity of an edge have no common scale.
//! - A filter holds for seeds, edges and segments: what only documents that it excludes mention or
//!   state is not used. Of attributes and times the search knows best: there the 200 documents that
//!   it finds first are admitted.
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

/// Most bytes of all segments that are read at once (the paper's window L): about 6,000 tokens,
/// which with instructions and reply fits a window of 8,192.
pub const WINDOW_BYTES: usize = 24_000;

/// Most updates of the set of entities. In the paper (section 3.6) the second helps most, and after
/// a few more the accuracy stays.
pub const MAX_TRIALS: usize = 5;

/// Most segments that one entity brings in.
pub const SEGMENTS_PER_ENTITY: usize = 8;
