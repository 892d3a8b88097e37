//! Ways of answering that others use, for comparison: each as its authors describe it, over the same seams.

mod full_context;
mod hipporag;
mod hyde;
mod iterative;
mod memorag;
mod naive;
mod raptor;
mod recurrent_summary;
mod rewrite;
mod route;
#[cfg(test)]
mod tests;

use crate::direct::DEFAULT_K;

pub use full_context::FullContext;
pub use hipporag::HippoRag;
pub use hyde::Hyde;
pub use iterative::Iterative;
pub use memorag::MemoRag;
pub use naive::Naive;
pub use raptor::Raptor;
pub use recurrent_summary::RecurrentSummary;
pub use rewrite::Rewrite;
pub use route::Route;
