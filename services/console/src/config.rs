//! Configuration section `console`.

use std::time::Duration;

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest bytes of a secret: those of a key of 256 bits in base64 are more.
const SECRET_BYTES: usize = 32;
/// First segments of the paths that the listener has besides the console.
const TAKEN: [&str; 5] = ["api", "dify", "healthz", "mcp", "v1"];

/// Section `console`: pages for people, in a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleConfig {
    /// Whether the HTTP listener shows the console.
    pub enabled: bool,
    /// Path at which the console is shown, such as `/console`; empty for `/`. It must not begin
    /// with a path that the listener has already, such as `/api`. A proxy in front of it must pass
    /// the path on unchanged.
    pub base_path: String,
    /// Time, in minutes, for which a login lasts, 5 to 1,440. Then people paste their key again.
    pub session_minutes: u32,
    /// Name of the environment variable with the secret that seals logins, at least 32 bytes.
    /// Without it, each process makes a secret of its own, and a login is known to that process
    /// alone, until it ends. Set it to the same secret on all gateways behind one address.
    pub secret_env: Option<String>,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { enabled: true, base_path: String::new(), session_minutes: 60, secret_env: None }
    }
}

impl ConsoleConfig {
    /// Checks that all values are in range and have their forms.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if !is_base_path(&self.base_path) {
            let problem = format!(
                "expected an empty text, or a path such as `/console` that the listener does not \
                 have and that ends without a slash, got `{}`",
                self.base_path
            );
            violations.push("console.base_path", problem);
        }
        if !(5..=1440).contains(&self.session_minutes) {
            let problem = format!("expected 5 to 1440, got {}", self.session_minutes);
            violations.push("console.session_minutes", problem);
        }
        if self.secret_env.as_deref().is_some_and(|name| name.is_empty() || name.contains('=')) {
            let problem = "expected the name of an environment variable, got something else";
            violations.push("console.secret_env", problem);
        }
        violations.into_result()
    }

    /// Returns the time for which a login lasts.
    pub(crate) fn session(&self) -> Duration {
        Duration::from_secs(u64::from(self.session_minutes) * 60)
    }

    /// Reads the secret out of the configured environment variable. Returns `None` if none is
    /// configured.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the variable is not set or its secret is
    /// too short.
    pub(crate) fn secret(&self) -> Result<Option<String>, Error> {
        let Some(name) = &self.secret_env else { return Ok(None) };
        let secret = std::env::var(name).unwrap_or_default();
        if secret.len() < SECRET_BYTES {
            let problem = format!(
                "expected a secret of at least {SECRET_BYTES} bytes in the environment variable \
                 `{name}`, got {} bytes",
                secret.len()
            );
            return Err(Error::invalid("console.secret_env", problem));
        }
        Ok(Some(secret))
    }
}

/// Returns whether a text can precede the paths of the console.
fn is_base_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_segment =
        |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain);
    let Some(segments) = path.strip_prefix('/') else { return path.is_empty() };
    segments.split('/').all(is_segment)
        && !segments.split('/').next().is_some_and(|first| TAKEN.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_empty_or_begins_and_does_not_end_with_a_slash() {
        let validate = |path: &str| {
            ConsoleConfig { base_path: path.to_owned(), ..ConsoleConfig::default() }.validate()
        };
        for path in ["", "/console", "/a/b-1", "/apis/v1"] {
            validate(path).unwrap();
        }
        for path in ["/", "console", "/console/", "/a//b", "/{a}", "/../a", "/a?b", "/ä", "/mcp"] {
            let error = validate(path).unwrap_err();
            assert_eq!(error.fields_at_fault(), ["console.base_path"], "{path}");
        }
    }

    #[test]
    fn a_secret_that_is_not_there_is_named() {
        let config = ConsoleConfig {
            secret_env: Some("CONSOLE_SECRET_THAT_NOBODY_SETS".to_owned()),
            ..ConsoleConfig::default()
        };
        config.validate().unwrap();
        let error = config.secret().unwrap_err();
        assert!(error.message().contains("CONSOLE_SECRET_THAT_NOBODY_SETS"), "{error}");
        assert_eq!(ConsoleConfig::default().secret().unwrap(), None);
    }
}
