//! Steps of judgement by which chat memory understands what is said to it ("LongMemEval:
//! Benchmarking Chat Assistants on Long-Term Interactive Memory", section 5 and appendix D).

use std::time::Instant;

use async_trait::async_trait;

use crate::{Cost, Error, Named, TimeRange, Timestamp};

/// Interpreter of what people say, by prompts to a language model or by rules.
///
/// A model's reply that cannot be parsed is requested again. After three in a row the step fails
/// with the reason `UNREADABLE_REPLY`.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Extracts what a speaker states of themselves in a message: sentences that can each be
    /// understood alone. The speaker is a name, or empty for the user of an assistant.
    ///
    /// # Errors
    /// Returns the errors of the model behind it.
    async fn facts(&self, speaker: &str, message: &str, deadline: Instant) -> Result<Named, Error>;

    /// Returns the time that a question asks about; `None` if it asks about none.
    ///
    /// # Errors
    /// Returns the errors of the model behind it.
    async fn time_range(
        &self,
        question: &str,
        asked_at: Timestamp,
        deadline: Instant,
    ) -> Result<(Option<TimeRange>, Cost), Error>;
}
