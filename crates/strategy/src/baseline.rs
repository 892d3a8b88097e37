//! Strategies of other systems, for comparison.
//!
//! Each follows its authors' description with the traits of this crate. A strategy that does less
//! than the original has a different name.

mod full_context;
mod graph_walk;
mod hyde;
mod iterative;
mod memorag;
mod naive;
mod recurrent_summary;
mod rewrite;
mod route;
mod summary_levels;
#[cfg(test)]
mod tests;

use crate::direct::DEFAULT_K;

pub use full_context::FullContext;
pub use graph_walk::GraphWalk;
pub use hyde::Hyde;
pub use iterative::Iterative;
pub use memorag::MemoRag;
pub use naive::Naive;
pub use recurrent_summary::RecurrentSummary;
pub use rewrite::Rewrite;
pub use route::Route;
pub use summary_levels::SummaryLevels;
