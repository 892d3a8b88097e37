//! Configuration section `gateway`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, Violations};
use clew_runtime::deadline::of_request;
use clew_runtime::turns::Turnstile;
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
    /// Searches that are embedded and asked of shards at the same time, up to 10,000; 0 means two for each core
    /// where that is done in this process, and 64 where it is done elsewhere. The others wait for their turn,
    /// and the tenants take turns: half as many of one tenant as there may be questions in flight. More keeps
    /// more encoders and shards busy, and lets those of fewer wait there, where tenants do not take turns.
    pub searches_at_once: u32,
    /// Milliseconds that a search waits for its turn, 1 to 60,000; one that would wait longer is refused with a
    /// retry delay, before it is embedded. More lets bursts through and makes answers late under load that lasts.
    pub search_wait_ms: u64,
    /// Milliseconds that a search, or a walk of trees and graphs, waits for a shard before it goes on without it, 10 to
    /// 600,000.
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
            searches_at_once: 0,
            search_wait_ms: 2000,
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
        within("searches_at_once", self.searches_at_once.into(), 0, 10_000);
        within("search_wait_ms", self.search_wait_ms, 1, 60_000);
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

    /// Who searches when, `at_once` where the configuration leaves it open.
    pub fn search_turns(&self, at_once: usize) -> Turnstile {
        let at_once = match self.searches_at_once {
            0 => at_once,
            at_once => at_once as usize,
        };
        let patience = Duration::from_millis(self.search_wait_ms);
        // So that no tenant's searches take all places of questions.
        let crowd = (self.questions as usize / 2).max(1);
        Turnstile::new("the queue of searches", at_once, patience).bounded_as("searches", crowd)
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
