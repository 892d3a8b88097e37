//! Configuration section `gateway`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, Limits, Violations};
use clew_runtime::admission::Gate;
use clew_runtime::deadline::of_request;
use clew_runtime::fair_queue::FairQueue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Moderation;
use crate::moderation::RefusedPhrases;

/// About the time in which room for a document that arrives in parts is made.
const RETRY: Duration = Duration::from_secs(1);

/// Section `gateway`: limits of client requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Time limit, in seconds, of a request without a deadline, and time for which a client may
    /// read nothing of a response stream, or send nothing of a document that it began, 1 to 3,600.
    pub default_deadline_secs: u64,
    /// Maximum number of questions and searches in flight, 1 to 100,000. Further ones are refused
    /// with a retry delay.
    pub questions: u32,
    /// Maximum bytes of a document's text, 1 MiB to 256 MiB. Longer texts are refused. The command
    /// line reads files by the limit of its own configuration. A document takes a few times as much
    /// memory while it is accepted, indexed and structured, on each node that it passes; the page
    /// on limits has the figures. Set it to the same value on all gateways.
    pub max_document_bytes: usize,
    /// Maximum number of documents of one ingest stream that wait for their acknowledgement, 1 to
    /// 10,000. When it is reached, the stream is not read until there is room.
    pub ingest_window: usize,
    /// Maximum number of searches that are embedded and sent to shards at the same time, up to
    /// 10,000; 0 means two per core where this process does that work, and 64 where other nodes do
    /// it. Further searches wait in a fair queue over the tenants, with at most half as many of one
    /// tenant as `questions` allows in flight. A larger value keeps more encoders and shards busy,
    /// but searches then wait there, where tenants do not take turns.
    pub searches_at_once: u32,
    /// Time, in milliseconds, that a search may wait in the fair queue, 1 to 60,000. One that would
    /// wait longer is refused with a retry delay before it is embedded. A larger value lets bursts
    /// through and delays answers under continuous load.
    pub search_wait_ms: u64,
    /// Time, in milliseconds, after which a search, or a walk of trees and graphs, goes on without
    /// a shard that has not answered, 10 to 600,000. A question waits for a shard once.
    pub shard_patience_ms: u64,
    /// Maximum bytes of documents that a gateway of a cluster holds while they wait for their
    /// shards, and, counted by themselves, of documents of more than 1 MiB that have not arrived in
    /// full, 1 MiB to 4 GiB. When it is reached, ingest streams are not read until there is room.
    pub accept_queue_bytes: u32,
    /// Maximum bytes of client texts that graph builders read at once, 1 MiB to 1 GiB. Further
    /// texts are refused with a retry delay.
    pub graph_builder_bytes: u32,
    /// Phrases, as whole words, that no document and no turn may contain. Texts with one of them
    /// are refused. At most 1,000.
    pub refused_phrases: Vec<String>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            default_deadline_secs: 60,
            questions: 256,
            max_document_bytes: Limits::default().document_bytes,
            ingest_window: 2_048,
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
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
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
        let most = Limits::MOST_DOCUMENT_BYTES as u64;
        within("max_document_bytes", self.max_document_bytes as u64, 1 << 20, most);
        within("ingest_window", self.ingest_window as u64, 1, 10_000);
        within("searches_at_once", self.searches_at_once.into(), 0, 10_000);
        within("search_wait_ms", self.search_wait_ms, 1, 60_000);
        within("shard_patience_ms", self.shard_patience_ms, 10, 600_000);
        within("accept_queue_bytes", self.accept_queue_bytes.into(), 1 << 20, u32::MAX.into());
        within("graph_builder_bytes", self.graph_builder_bytes.into(), 1 << 20, 1 << 30);
        within("refused_phrases", self.refused_phrases.len() as u64, 0, 1_000);
        violations.into_result()
    }

    /// Returns the policy that refuses texts with a refused phrase.
    pub(crate) fn moderation(&self) -> Moderation {
        Moderation::by(Arc::new(RefusedPhrases::new(&self.refused_phrases)))
    }

    /// Returns the limits of requests.
    pub(crate) fn limits(&self) -> Limits {
        Limits { document_bytes: self.max_document_bytes, ..Limits::default() }
    }

    /// Returns the gate of documents that arrive in parts.
    pub(crate) fn arriving(&self) -> Gate {
        let gate = Gate::new("the room for arriving documents", self.accept_queue_bytes, RETRY);
        gate.seen_as("gateway_arriving", "bytes")
    }

    /// Returns the fair queue of searches. `at_once` applies if the configuration leaves the number
    /// open.
    pub(crate) fn search_queue(&self, at_once: usize) -> FairQueue {
        let at_once = match self.searches_at_once {
            0 => at_once,
            at_once => at_once as usize,
        };
        let patience = Duration::from_millis(self.search_wait_ms);
        // A bound per tenant, so that one tenant's searches cannot take all places of questions.
        let crowd = (self.questions as usize / 2).max(1);
        FairQueue::new("the queue of searches", at_once, patience).bounded_as("searches", crowd)
    }

    /// Returns the time that a search waits for one shard.
    pub(crate) fn shard_patience(&self) -> Duration {
        Duration::from_millis(self.shard_patience_ms)
    }

    /// Returns the time for which a client may read nothing of a response stream.
    pub(crate) fn reader_patience(&self) -> Duration {
        Duration::from_secs(self.default_deadline_secs)
    }

    /// Returns the deadline of a request: the client's, or else the default.
    pub(crate) fn deadline<T>(&self, request: &tonic::Request<T>) -> Instant {
        of_request(request, Duration::from_secs(self.default_deadline_secs))
    }
}
