//! Configuration section `remote_encoder`.

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `remote_encoder`: settings for giving work to encoders on other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RemoteEncoderConfig {
    /// Maximum number of bulk batches that one encoder has under way for this node, 1 to 100. As
    /// many again are reserved for interactive batches. A larger window hides more network latency,
    /// and loses more work when an encoder is lost.
    pub window: usize,
    /// Approximate number of tokens in a batch, 64 to 100,000. Fewer tokens spread a call over more
    /// encoders.
    pub batch_tokens: usize,
    /// Approximate number of tokens that may wait or be under way, 1,024 to 100,000,000. Beyond it,
    /// interactive calls are refused with a retry delay, and bulk work waits.
    pub queue_tokens: u32,
}

impl Default for RemoteEncoderConfig {
    fn default() -> Self {
        Self { window: 4, batch_tokens: 8192, queue_tokens: 1_000_000 }
    }
}

impl RemoteEncoderConfig {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming every key at fault if a value is out
    /// of range.
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

    /// Returns the units (about tokens) that a member may have under way: both halves of the
    /// window, with room for batches whose single text is larger than a batch.
    pub(crate) fn credits(&self) -> u32 {
        u32::try_from(4 * self.window * self.batch_tokens).unwrap_or(u32::MAX)
    }
}
