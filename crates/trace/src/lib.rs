//! Shows how a question was answered: a finished trace as a readable tree and as a picture.
//!
//! A [`Trace`] is what `clew ask --json` prints, and this crate owns that form: the question, the
//! [`Step`]s in the order in which they were taken, the answer, and what it cost. From it come
//! [`tree()`], a text for a terminal, and [`svg()`], a figure. Both show the same four things: a walk
//! over a tree of summaries as that tree, as far as it was visited; a navigation of a graph as the
//! entities and the edges that led to them; a working memory as its points after each step; everything
//! else as a list.
//!
//! What is shown comes from documents and language models. So texts are shortened, characters that
//! steer a terminal are left out, what SVG would read as markup is escaped, and the size of a figure
//! is bounded. The same trace gives the same text and the same figure.
//!
//! What is absent: what was not visited, which a trace does not tell, and steps that still go on;
//! those are shown one by one by [`Step::line`].

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
pub use step::{Fate, Place, Point, Step};
pub use trace::{Citation, Cost, Outcome, Trace};
pub use tree::tree;
