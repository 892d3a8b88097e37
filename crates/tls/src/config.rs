//! Configuration section `tls`.

use std::path::PathBuf;

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `tls`: PEM files. Without them connections are in plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The node's certificate, followed by the intermediate certificates up to the authority. Its
    /// names include the host that clients connect to and, for a node of a cluster,
    /// `node.clew.internal` and `ROLE.node.clew.internal` for each of its roles (`gateway`,
    /// `retriever`, `encoder`, `graph-builder`, `generator`).
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
    /// Certificate of the authority that certifies the cluster's nodes. It must not certify anybody
    /// else for `node.clew.internal`.
    pub ca: Option<PathBuf>,
    /// Certificate of the authority that certifies clients. If it is set, every client must present
    /// a certificate, in addition to an API key.
    pub client_ca: Option<PathBuf>,
}

impl TlsConfig {
    /// Returns whether connections are encrypted.
    pub fn is_on(&self) -> bool {
        self.certificate.is_some()
    }

    /// Refuses a section that is incomplete.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming every missing key, if only some keys
    /// are set.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let parts = [("certificate", &self.certificate), ("key", &self.key), ("ca", &self.ca)];
        if parts.iter().any(|(_, file)| file.is_some()) || self.client_ca.is_some() {
            for (name, _) in parts.iter().filter(|(_, file)| file.is_none()) {
                let problem = "expected a PEM file, since other keys of `tls` are set";
                violations.push(format!("tls.{name}"), problem);
            }
        }
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing() {
        TlsConfig::default().validate().unwrap();
        let half = TlsConfig { certificate: Some("a".into()), ..Default::default() };
        let error = half.validate().unwrap_err();
        assert_eq!(error.fields_at_fault(), ["tls.key", "tls.ca"]);
    }
}
