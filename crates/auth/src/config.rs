//! Configuration section `auth`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `auth`: who may call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// File (TOML) of the keys' hashes, and of what their tenants may use; read again when it changes. Without
    /// it whoever reaches the server may do everything.
    pub keys_file: Option<PathBuf>,
    /// Listen beyond this machine although callers need no key, or connections are in plain text.
    pub insecure: bool,
}
