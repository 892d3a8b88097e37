//! Ways of answering a question, one file each, pure over the seams.
//!
//! A strategy sees a [`Retriever`] and a [`Reasoner`], never a table, a model or a network. To add
//! one, write a file beside [`direct`](crate::Direct) and name it in [`find`].

mod direct;

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Answer, Error, Filter, Reasoner, Retriever, TraceEvent};

pub use direct::Direct;

/// A question as it is put to a strategy.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question.
    pub text: String,
    /// Most passages read; `None` for the strategy's default.
    pub k: Option<usize>,
    /// What may be found.
    pub filter: Filter,
    /// When the answer must be there.
    pub deadline: Instant,
}

/// What a strategy works with.
#[derive(Clone, Copy)]
pub struct Seams<'a> {
    /// Finds evidence.
    pub retriever: &'a dyn Retriever,
    /// Judges and composes.
    pub reasoner: &'a dyn Reasoner,
}

/// Where a strategy shows its work while it goes on.
pub trait Progress: Send + Sync {
    /// A step was taken.
    fn trace(&self, event: TraceEvent);

    /// The next piece of the answer's text is there.
    fn text(&self, delta: &str);
}

/// A way of answering.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// The name by which callers choose it.
    fn name(&self) -> &'static str;

    /// Answers `question`.
    ///
    /// # Errors
    /// Those of the seams. That nothing supports an answer is an outcome, not an error.
    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn Progress,
    ) -> Result<Answer, Error>;
}

/// All strategies; the first is the default.
const STRATEGIES: [&dyn Strategy; 1] = [&Direct];

/// The strategy of that name; the empty name means the default.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] listing the known names.
pub fn find(name: &str) -> Result<&'static dyn Strategy, Error> {
    let named = |strategy: &&&dyn Strategy| name.is_empty() || strategy.name() == name;
    STRATEGIES.iter().find(named).copied().ok_or_else(|| {
        let known: Vec<_> = STRATEGIES.iter().map(|strategy| strategy.name()).collect();
        Error::invalid("strategy", format!("expected one of {}, got `{name}`", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_found_by_name_and_unknown_ones_refused() {
        assert_eq!(find("").unwrap().name(), "direct");
        assert_eq!(find("direct").unwrap().name(), "direct");
        let error = find("oracle").err().unwrap();
        assert_eq!(error.violations()[0].field, "strategy");
        assert!(error.message().contains("direct"));
    }
}
