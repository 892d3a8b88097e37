//! The steps of judgement by which a memory of conversations understands what is said to it ("LongMemEval:
//! Benchmarking Chat Assistants on Long-Term Interactive Memory", section 5 and appendix D).

use std::time::Instant;

use async_trait::async_trait;

use crate::{Cost, Error, Named, TimeRange, Timestamp};

/// Understands what people say, with prompts to a language model, or by rules.
///
/// A model's reply that cannot be read is asked for again; after three in a row a step fails with the reason
/// `UNREADABLE_REPLY`.
#[async_trait]
pub trait Listener: Send + Sync {
    /// What somebody states of themselves in a message: sentences, each of which can be understood alone. The
    /// speaker is a name, or empty for the user of an assistant.
    ///
    /// # Errors
    /// Those of the model behind it.
    async fn facts(&self, speaker: &str, message: &str, deadline: Instant) -> Result<Named, Error>;

    /// The time that a question asks about; `None` if it asks about none.
    ///
    /// # Errors
    /// Those of the model behind it.
    async fn time_range(
        &self,
        question: &str,
        asked_at: Timestamp,
        deadline: Instant,
    ) -> Result<(Option<TimeRange>, Cost), Error>;
}
