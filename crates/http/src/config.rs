//! Configuration section `http`.

use std::time::Duration;

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `http`: the listener for clients that speak HTTP, beside the one for gRPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address to listen on, `host:port`; port 0 selects a free port, and an empty text means no
    /// HTTP. By default `clew serve` without roles listens on `127.0.0.1`, at the port after that
    /// of `listen`, and a gateway of a cluster does not listen. The certificates of `tls` encrypt
    /// this listener as well.
    pub listen: Option<String>,
    /// Host names by which clients reach this listener, without ports; `*` allows every name.
    /// `localhost` and addresses of the Internet Protocol are always allowed. If the list is empty,
    /// every name is allowed where connections are encrypted, because the certificate proves it,
    /// and no other name in plain text: a page of a browser could otherwise have its own name
    /// point to this listener.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call this listener from a browser, such as
    /// `https://app.example.com`. Pages of other origins than these and the listener's own are
    /// refused.
    pub allowed_origins: Vec<String>,
    /// Maximum bytes of a request's body, 64 KiB to 64 MiB. Longer requests are refused. A message
    /// of gRPC is limited to 4 MiB in any case.
    pub body_bytes: usize,
    /// Maximum number of connections, 16 to 100,000. When it is reached, the connection that has
    /// been idle for longest is closed; if none is idle, a new one is refused. The process needs a
    /// file descriptor for each.
    pub connections: usize,
    /// Time, in seconds, for which a client may keep a connection waiting, 1 to 3,600: for its next
    /// request, for the rest of one that it began, and for reading what was sent to it. Then the
    /// connection is closed.
    pub patience_secs: u64,
    /// Whether the headers that Open WebUI forwards (`X-OpenWebUI-User-Id`, `X-OpenWebUI-Chat-Id`)
    /// name the user and the session of a chat completion. Whoever has a key can then name any user
    /// by them, as by `X-Clew-User`. Turn it on if Open WebUI alone has the keys.
    pub open_webui_users: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_bytes: 8 << 20,
            connections: 4096,
            patience_secs: 60,
            open_webui_users: false,
        }
    }
}

impl HttpConfig {
    /// Checks that all values are in range, and that hosts and origins have their forms.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("http.{key}"), problem);
            }
        };
        within("body_bytes", self.body_bytes as u64, 64 << 10, 64 << 20);
        within("connections", self.connections as u64, 16, 100_000);
        within("patience_secs", self.patience_secs, 1, 3600);
        for host in self.allowed_hosts.iter().filter(|host| !is_host(host)) {
            let problem = format!("expected a host name without port, or `*`, got `{host}`");
            violations.push("http.allowed_hosts", problem);
        }
        for origin in self.allowed_origins.iter().filter(|origin| !is_origin(origin)) {
            let problem = format!(
                "expected an origin as browsers write it, such as `https://app.example.com`, got `{origin}`"
            );
            violations.push("http.allowed_origins", problem);
        }
        violations.into_result()
    }

    /// Returns the time for which a client may keep a connection waiting.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_secs)
    }
}

fn is_host(host: &str) -> bool {
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    host == "*" || (!host.is_empty() && host.bytes().all(is_named))
}

/// Returns whether the text is scheme, host and perhaps a port, and nothing else.
fn is_origin(origin: &str) -> bool {
    let Ok(uri) = origin.parse::<axum::http::Uri>() else { return false };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
    origin == format!("{scheme}://{authority}")
        && origin == origin.to_ascii_lowercase()
        && !authority.as_str().contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_have_their_forms() {
        let config = |hosts: &[&str], origins: &[&str]| HttpConfig {
            allowed_hosts: hosts.iter().map(ToString::to_string).collect(),
            allowed_origins: origins.iter().map(ToString::to_string).collect(),
            ..HttpConfig::default()
        };
        let good = config(&["clew.example.com", "gateway", "*"], &["https://a.b", "http://a:81"]);
        good.validate().unwrap();
        for host in ["", "a:80", "http://a", "a/b", "a b"] {
            let error = config(&[host], &[]).validate().unwrap_err();
            assert_eq!(error.fields_at_fault(), ["http.allowed_hosts"], "{host}");
        }
        for origin in ["", "*", "a.b", "https://a/", "https://A.b", "https://u@a", "null"] {
            let error = config(&[], &[origin]).validate().unwrap_err();
            assert_eq!(error.fields_at_fault(), ["http.allowed_origins"], "{origin}");
        }
    }

    #[test]
    fn values_out_of_range_are_named_all_at_once() {
        let config =
            HttpConfig { body_bytes: 1, connections: 0, patience_secs: 0, ..HttpConfig::default() };
        let error = config.validate().unwrap_err();
        assert_eq!(
            error.fields_at_fault(),
            ["http.body_bytes", "http.connections", "http.patience_secs"]
        );
    }
}
