//! Configuration section `auth`.

use std::path::PathBuf;

use clew_core::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `auth`: the callers that are let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// TOML file with the hashes of the keys and the quotas of their tenants; read again when it
    /// changes. Without it, anybody who can reach the server may do everything.
    pub keys_file: Option<PathBuf>,
    /// Whether to listen beyond this machine although callers need no key or connections are in
    /// plain text. Cannot be combined with `keys_file`.
    pub insecure: bool,
}

impl AuthConfig {
    /// Refuses settings under which keys would not protect anything.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming both settings, if `insecure` and
    /// `keys_file` are both set.
    pub fn validate(&self) -> Result<(), Error> {
        if self.keys_file.is_none() || !self.insecure {
            return Ok(());
        }
        let problem = "expected `false` beside `auth.keys_file`: keys hold for clients only, and in plain text whoever \
                       reaches the port is taken for a node, which reads and forgets for all tenants without a \
                       key; set `tls.certificate`, `tls.key` and `tls.ca` instead, or do without keys";
        Err(Error::invalid("auth.insecure", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_refused_where_nobody_has_to_show_them() {
        let keys_file = Some(PathBuf::from("keys.toml"));
        for (keys_file, insecure) in [(None, false), (None, true), (keys_file.clone(), false)] {
            AuthConfig { keys_file, insecure }.validate().unwrap();
        }
        let refused = AuthConfig { keys_file, insecure: true }.validate().unwrap_err();
        assert_eq!(refused.violations()[0].field, "auth.insecure");
        assert!(refused.violations()[0].description.contains("auth.keys_file"), "{refused:?}");
    }
}
