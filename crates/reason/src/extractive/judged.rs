//! Outcomes of reading, before one of them becomes the reading.

use clew_core::{Cost, Reading};

/// A reading with what it lacks.
pub(super) struct Judged {
    pub(super) reading: Reading,
    /// What to look for next if the reading has no answer: a question, or words; `None` if the
    /// reading does not tell.
    pub(super) missing: Option<String>,
}

/// Reading by the rules for a form of questions.
pub(super) struct Ruled {
    pub(super) reading: Reading,
    /// Whether the words that a reader finds are a better answer.
    pub(super) yields: bool,
}

/// Outcome of asking the reader.
pub(super) enum Told {
    /// An answer, or that there is none.
    Read(Judged),
    /// The question is to be answered by quotes.
    Quotes {
        /// Reason, for people; empty if there is no reader.
        reason: &'static str,
        /// Cost of what was read before that was known.
        cost: Cost,
    },
}

impl Judged {
    /// Judges by a reading that does not tell what it lacks.
    pub(super) fn of(reading: Reading) -> Self {
        Self { reading, missing: None }
    }
}
