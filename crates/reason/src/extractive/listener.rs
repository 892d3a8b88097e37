//! Listening by the rules of `clew-chat`.

use std::time::Instant;

use async_trait::async_trait;
use clew_chat::time::{Moment, asked_about};
use clew_core::{Cost, Error, Listener, Named, SpeakerRole, TimeRange, Timestamp};

use super::ExtractiveReasoner;

#[async_trait]
impl Listener for ExtractiveReasoner {
    async fn facts(
        &self,
        speaker: &str,
        message: &str,
        _deadline: Instant,
    ) -> Result<Named, Error> {
        let role = if speaker.is_empty() { SpeakerRole::User } else { SpeakerRole::Other };
        let texts = clew_chat::facts_in(role, speaker, message);
        Ok(Named { texts, cost: Cost::default() })
    }

    async fn time_range(
        &self,
        question: &str,
        asked_at: Timestamp,
        _deadline: Instant,
    ) -> Result<(Option<TimeRange>, Cost), Error> {
        let range = asked_about(question, Moment::try_new(asked_at, 0)?);
        Ok((range, Cost::default()))
    }
}
