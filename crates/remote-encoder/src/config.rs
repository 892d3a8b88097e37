//! Configuration section `remote_encoder`.

use clew_core::{Error, Violations};
use serde::{Deserialize, Serialize};

/// Section `remote_encoder`: how work is given to encoders on other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemoteEncoderConfig {
    /// Batches of bulk work that one encoder has under way for this node, 1 to 100; as many again are
    /// kept free for people. More hides a longer way there, and loses more when an encoder is lost.
    pub window: usize,
    /// About how many tokens a batch has, 64 to 100,000. Fewer spread a call over more encoders.
    pub batch_tokens: usize,
    /// About how many tokens may wait or be under way, 1,024 to 100,000,000. Beyond it people are
    /// refused with a retry delay, and bulk work waits.
    pub queue_tokens: u32,
}

impl Default for RemoteEncoderConfig {
    fn default() -> Self {
        Self { window: 4, batch_tokens: 8192, queue_tokens: 1_000_000 }
    }
}

impl RemoteEncoderConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: usize, low: usize, high: usize| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("remote_encoder.{key}"), problem);
            }
        };
        within("window", self.window, 1, 100);
        within("batch_tokens", self.batch_tokens, 64, 100_000);
        within("queue_tokens", self.queue_tokens as usize, 1024, 100_000_000);
        violations.into_result()
    }

    /// Units (about tokens) that a member may have under way: both halves of the window, with room
    /// for batches whose single text is larger than a batch.
    pub(crate) fn credits(&self) -> u32 {
        u32::try_from(4 * self.window * self.batch_tokens).unwrap_or(u32::MAX)
    }
}
