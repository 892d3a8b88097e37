//! The end of a walk.

use clew_core::Reading;

/// End of a walk.
#[derive(Debug)]
pub(super) enum End {
    /// The walk ended at a segment that answers.
    Answer(Reading),
    /// The walk ended without an answer, for this reason.
    NoAnswer(String),
}

impl End {
    pub(super) fn no_answer(why: impl Into<String>) -> Self {
        Self::NoAnswer(why.into())
    }
}
