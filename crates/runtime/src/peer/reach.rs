//! How peers are reached.

use clew_tls::Tls;

use super::config::PeerConfig;

/// Options for connections to peers.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Section `peers` of the configuration.
    pub config: PeerConfig,
    /// Certificate of this node. Without it, connections are in plain text.
    pub tls: Option<Tls>,
    /// Role that the peers' certificates must name; `None` for any role.
    pub role: Option<&'static str>,
}

impl From<PeerConfig> for Reach {
    /// Creates options for connections in plain text.
    fn from(config: PeerConfig) -> Self {
        Self { config, tls: None, role: None }
    }
}
