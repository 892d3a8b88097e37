//! Implementation of the core's listener: each step is an act.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Cost, Error, Listener, Named, TimeRange, Timestamp};

use super::{ExtractFacts, InferTimeRange, Prompted};

/// Each call is charged to the account.
#[async_trait]
impl Listener for Prompted {
    async fn facts(&self, speaker: &str, message: &str, deadline: Instant) -> Result<Named, Error> {
        let message = match speaker {
            "" => message.to_owned(),
            speaker => format!("{speaker}: {message}"),
        };
        self.named(&ExtractFacts { messages: vec![message] }, deadline).await
    }

    async fn time_range(
        &self,
        question: &str,
        asked_at: Timestamp,
        deadline: Instant,
    ) -> Result<(Option<TimeRange>, Cost), Error> {
        let question = question.to_owned();
        self.alone(&InferTimeRange { question, asked_at }, deadline).await
    }
}
