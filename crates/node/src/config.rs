//! Configuration that every node has, whatever its roles.

use std::net::SocketAddr;
use std::time::Duration;

use clew_auth::AuthConfig;
use clew_cluster::ClusterConfig;
use clew_core::{Error, Violations};
use clew_runtime::peer::PeerConfig;
use clew_telemetry::{AdminConfig, TelemetryConfig};
use clew_tls::TlsConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration keys that every node has, whatever its roles. A program reads them beside the keys
/// of its roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeConfig {
    /// Address to listen on, `host:port`; also `--listen`. Port 0 selects a free port.
    pub listen: String,
    /// Maximum duration of a shutdown in seconds, 1 to 3,600. During it the node hands over its
    /// shards and finishes its work.
    pub shutdown_secs: u64,
    /// Discovery of other nodes; by default the node runs alone.
    pub cluster: ClusterConfig,
    /// Connections to other nodes.
    pub peers: PeerConfig,
    /// Certificates.
    pub tls: TlsConfig,
    /// Access control of callers.
    pub auth: AuthConfig,
    /// Address of metrics and health.
    pub admin: AdminConfig,
    /// Export of traces and metrics.
    pub telemetry: TelemetryConfig,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7421".to_owned(),
            shutdown_secs: 30,
            cluster: ClusterConfig::default(),
            peers: PeerConfig::default(),
            tls: TlsConfig::default(),
            auth: AuthConfig::default(),
            admin: AdminConfig::default(),
            telemetry: TelemetryConfig::default(),
        }
    }
}

impl NodeConfig {
    /// Rejects values out of range, and settings with which a node of a cluster cannot be safe.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming every offending key, if a setting is
    /// invalid.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        violations.take(self.validate_sections());
        if self.auth.keys_file.is_some() && self.cluster.is_cluster() && !self.tls.is_on() {
            let problem = "expected certificates (`tls.certificate`, `tls.key`, `tls.ca`) beside it in a cluster: in plain \
                           text nobody can prove to be a node, and whoever is taken for one needs no key";
            violations.push("auth.keys_file", problem);
        }
        violations.into_result()
    }

    /// Rejects values out of range. Looks at each section by itself, because a process without a
    /// cluster ignores some of them.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming every offending key, if a setting is
    /// invalid.
    pub fn validate_sections(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if !(1..=3600).contains(&self.shutdown_secs) {
            let problem = format!("expected 1 to 3600, got {}", self.shutdown_secs);
            violations.push("shutdown_secs", problem);
        }
        violations.take(self.cluster.validate());
        violations.take(self.peers.validate());
        violations.take(self.tls.validate());
        violations.take(self.auth.validate());
        violations.take(self.telemetry.validate());
        violations.into_result()
    }

    /// Returns the maximum duration of a shutdown.
    pub fn shutdown(&self) -> Duration {
        Duration::from_secs(self.shutdown_secs)
    }
}

/// Rejects a listening address that other machines can reach, unless certificates are configured or
/// `auth.insecure` is set. `key` is the configuration key of the address.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`], with what to configure, if the address is
/// rejected.
pub fn may_listen(
    key: &str,
    address: SocketAddr,
    tls: &TlsConfig,
    auth: &AuthConfig,
) -> Result<(), Error> {
    if address.ip().is_loopback() || tls.is_on() || auth.insecure {
        return Ok(());
    }
    let problem = format!(
        "expected certificates (`tls.certificate`, `tls.key`, `tls.ca`) to listen at {address}, which others than this \
         machine reach; for a network in which everybody may do everything, set `auth.insecure`"
    );
    Err(Error::invalid(key, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_cluster_need_certificates_and_refuse_to_be_of_no_use() {
        let at_fault = |config: &NodeConfig| match config.validate() {
            Ok(()) => Vec::new(),
            Err(error) => error.violations().iter().map(|v| v.field.clone()).collect::<Vec<_>>(),
        };
        let mut config = NodeConfig::default();
        config.auth.keys_file = Some("keys.toml".into());
        assert_eq!(at_fault(&config), [""; 0]);
        config.cluster.redis = Some("redis://localhost:6379".to_owned().into());
        assert_eq!(at_fault(&config), ["auth.keys_file"]);
        config.tls = TlsConfig {
            certificate: Some("crt".into()),
            key: Some("key".into()),
            ca: Some("ca".into()),
            client_ca: None,
        };
        assert_eq!(at_fault(&config), [""; 0]);
        config.auth.insecure = true;
        assert_eq!(at_fault(&config), ["auth.insecure"]);
    }

    #[test]
    fn nothing_listens_beyond_this_machine_unless_it_is_safe_or_wanted() {
        let everywhere = "0.0.0.0:7421".parse().unwrap();
        let (plain, open) = (TlsConfig::default(), AuthConfig::default());
        assert!(may_listen("listen", "127.0.0.1:7421".parse().unwrap(), &plain, &open).is_ok());
        assert!(may_listen("listen", "[::1]:7421".parse().unwrap(), &plain, &open).is_ok());
        let keys = AuthConfig { keys_file: Some("keys".into()), insecure: false };
        for auth in [&open, &keys] {
            let refused = may_listen("listen", everywhere, &plain, auth).unwrap_err();
            assert!(refused.message().contains("auth.insecure"), "{}", refused.message());
        }
        let tls = TlsConfig { certificate: Some("crt".into()), ..TlsConfig::default() };
        assert!(may_listen("listen", everywhere, &tls, &open).is_ok());
        let wanted = AuthConfig { insecure: true, ..open };
        assert!(may_listen("listen", everywhere, &plain, &wanted).is_ok());
    }
}
