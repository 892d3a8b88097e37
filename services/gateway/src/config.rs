//! Configuration section `gateway`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, Violations};
use clew_runtime::deadline::of_request;
use serde::{Deserialize, Serialize};

use crate::Moderation;
use crate::moderation::RefusedPhrases;

/// Section `gateway`: bounds of what clients may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Seconds a request may take that names no deadline, and for which a client may read nothing of what is sent to
    /// him, 1 to 3,600.
    pub default_deadline_secs: u64,
    /// Questions in flight, 1 to 100,000. Beyond it they are refused with a retry delay.
    pub questions: u32,
    /// Documents of one ingest stream that wait for their acknowledgement, 1 to 10,000. Beyond it the
    /// stream is not read until there is room.
    pub ingest_window: usize,
    /// Milliseconds that a search waits for a shard before it answers without it, 10 to 600,000.
    pub shard_patience_ms: u64,
    /// Bytes of documents that a gateway of a cluster holds while they wait for their shards, 1 MiB to
    /// 4 GiB. Beyond it ingest streams are not read until there is room.
    pub accept_queue_bytes: u32,
    /// Bytes of texts that clients have read by graph builders at once, 1 MiB to 1 GiB. Beyond it they are
    /// refused with a retry delay.
    pub graph_builder_bytes: u32,
    /// Phrases that no document and no turn may hold, as whole words: what holds one is refused. At most 1,000.
    pub refused_phrases: Vec<String>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            default_deadline_secs: 60,
            questions: 256,
            ingest_window: 512,
            shard_patience_ms: 5000,
            accept_queue_bytes: 64 << 20,
            graph_builder_bytes: 16 << 20,
            refused_phrases: Vec::new(),
        }
    }
}

impl GatewayConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("gateway.{key}"), problem);
            }
        };
        within("default_deadline_secs", self.default_deadline_secs, 1, 3600);
        within("questions", self.questions.into(), 1, 100_000);
        within("ingest_window", self.ingest_window as u64, 1, 10_000);
        within("shard_patience_ms", self.shard_patience_ms, 10, 600_000);
        within("accept_queue_bytes", self.accept_queue_bytes.into(), 1 << 20, u32::MAX.into());
        within("graph_builder_bytes", self.graph_builder_bytes.into(), 1 << 20, 1 << 30);
        within("refused_phrases", self.refused_phrases.len() as u64, 0, 1_000);
        violations.into_result()
    }

    /// What may be kept: all but what holds a refused phrase.
    pub fn moderation(&self) -> Moderation {
        Moderation::by(Arc::new(RefusedPhrases::new(&self.refused_phrases)))
    }

    /// How long a search waits for one shard.
    pub(crate) fn shard_patience(&self) -> Duration {
        Duration::from_millis(self.shard_patience_ms)
    }

    /// How long a client may read nothing of what is sent to him.
    pub(crate) fn reader_patience(&self) -> Duration {
        Duration::from_secs(self.default_deadline_secs)
    }

    /// The deadline of a request: what the client says, else the default.
    pub(crate) fn deadline<T>(&self, request: &tonic::Request<T>) -> Instant {
        of_request(request, Duration::from_secs(self.default_deadline_secs))
    }
}
