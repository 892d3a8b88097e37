//! Views of a finished trace: a readable tree for a terminal and an SVG figure.
//!
//! A [`Trace`] is what `clew ask --json` prints, and this crate owns that format: the question, the
//! [`TraceStep`]s in the order in which they were taken, the answer, and its cost. [`tree()`] makes
//! a text for a terminal of it, and [`svg()`] a figure. Both show a walk over a tree of summaries
//! as the visited part of that tree, a navigation of a graph as the entities and the edges that led
//! to them, a working memory as its points after each step, and everything else as a list.
//!
//! Traces contain text from documents and language models. Therefore texts are shortened, terminal
//! control characters are removed, SVG markup is escaped, and the size of a figure is limited. The
//! same trace always gives the same text and the same figure.
//!
//! Nodes that were not visited are not shown, because a trace does not contain them. Steps of an
//! answer in progress are shown one by one with [`TraceStep::line`].

mod error;
mod figure;
mod memory;
mod route;
mod step;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod walk;
mod words;

pub use error::Error;
pub use figure::svg;
pub use step::{TracePoint, TracePointFate, TraceRange, TraceStep};
pub use trace::{Trace, TraceCitation, TraceCost, TraceOutcome};
pub use tree::tree;
