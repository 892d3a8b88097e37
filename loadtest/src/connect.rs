//! How a server is reached: the one place that knows addresses and credentials.

use std::fmt;
use std::time::Duration;

use clew_client::{Client, Credentials};
use clew_core::Error;
use clew_tls::ClientTls;

/// Requests that share one connection. A server takes a limited number of streams on each; beyond it,
/// requests would wait in this process, unseen.
pub(crate) const STREAMS_PER_CONNECTION: u32 = 100;

/// A server.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Its address, such as `http://127.0.0.1:7421`.
    pub endpoint: String,
    /// The key of tenants that have none of their own.
    pub api_key: Option<ApiKey>,
    /// Whom to trust and what to show, where the address begins with `https://`.
    pub tls: ClientTls,
}

/// A key, which is never shown.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// From its text.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "(hidden)" })
    }
}

impl Target {
    /// Connects as the holder of `key`, or of the common one. Each call may take `patience`.
    ///
    /// # Errors
    /// Those of [`Client::connect_as`].
    pub async fn connect(&self, key: Option<&ApiKey>, patience: Duration) -> Result<Client, Error> {
        let api_key = key.or(self.api_key.as_ref()).map(|key| key.0.clone());
        let credentials = Credentials { api_key, tls: self.tls.clone() };
        Client::connect_as(&credentials, &self.endpoint, patience).await
    }
}
