//! Configuration of connections to peers.

use std::time::Duration;

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `peers`: how other nodes are reached, and when one counts as lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PeerConfig {
    /// Maximum time for making a connection, in milliseconds, 10 to 60,000.
    pub connect_timeout_ms: u64,
    /// Time between two keepalive pings, in milliseconds, 10 to 600,000. A connection counts as
    /// lost when a ping is not answered in time: at the latest after this time and
    /// `keepalive_timeout_ms` together.
    pub keepalive_interval_ms: u64,
    /// Maximum time for the answer to a keepalive ping, in milliseconds, 10 to 600,000.
    pub keepalive_timeout_ms: u64,
    /// Longest pause before a lost peer is tried again, in milliseconds, 10 to 600,000.
    pub reconnect_max_ms: u64,
    /// Maximum number of tries of a call, 1 to 100, if it may be repeated and time remains.
    pub attempts: u32,
    /// Time that a call waits for a member while none is serving, in milliseconds, at most 600,000.
    /// It bridges the restart of the only member.
    pub wait_ms: u64,
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 2_000,
            keepalive_interval_ms: 1_000,
            keepalive_timeout_ms: 2_000,
            reconnect_max_ms: 2_000,
            attempts: 3,
            wait_ms: 3_000,
        }
    }
}

impl PeerConfig {
    /// Checks that the values are in range.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("peers.{key}"), problem);
            }
        };
        within("connect_timeout_ms", self.connect_timeout_ms, 10, 60_000);
        within("keepalive_interval_ms", self.keepalive_interval_ms, 10, 600_000);
        within("keepalive_timeout_ms", self.keepalive_timeout_ms, 10, 600_000);
        within("reconnect_max_ms", self.reconnect_max_ms, 10, 600_000);
        within("attempts", self.attempts.into(), 1, 100);
        within("wait_ms", self.wait_ms, 0, 600_000);
        violations.into_result()
    }

    /// Returns how long a call waits for a member while none is serving.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }
}
