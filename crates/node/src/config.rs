//! What every node is configured with, whatever its roles.

use std::time::Duration;

use clew_cluster::ClusterConfig;
use clew_core::{Error, Violations};
use clew_runtime::peer::PeerConfig;
use serde::{Deserialize, Serialize};

/// The keys that all services share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeConfig {
    /// Address to listen on; port 0 takes a free one.
    pub listen: String,
    /// Seconds a shutdown may take to hand over and finish what was begun, 1 to 3,600.
    pub shutdown_secs: u64,
    /// How this node finds the others.
    pub cluster: ClusterConfig,
    /// How the others are reached.
    pub peers: PeerConfig,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7421".to_owned(),
            shutdown_secs: 30,
            cluster: ClusterConfig::default(),
            peers: PeerConfig::default(),
        }
    }
}

impl NodeConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if !(1..=3600).contains(&self.shutdown_secs) {
            let problem = format!("expected 1 to 3600, got {}", self.shutdown_secs);
            violations.push("shutdown_secs", problem);
        }
        violations.take(self.cluster.validate());
        violations.take(self.peers.validate());
        violations.into_result()
    }

    /// How long a shutdown may take.
    pub fn shutdown(&self) -> Duration {
        Duration::from_secs(self.shutdown_secs)
    }
}
