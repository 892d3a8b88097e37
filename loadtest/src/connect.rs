//! Connection to a server: the one place that knows addresses and credentials.

use std::fmt;
use std::time::Duration;

use clew_client::{Client, Credentials};
use clew_core::Error;
use clew_tls::ClientTls;

/// Maximum number of requests that share one connection. A server accepts a limited number of
/// streams on each. Beyond it, requests would wait in this process, unseen.
pub(crate) const STREAMS_PER_CONNECTION: u32 = 100;

/// Server to test.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Address, such as `http://127.0.0.1:7421`.
    pub endpoint: String,
    /// Key of tenants that have none of their own.
    pub api_key: Option<ClientKey>,
    /// Trusted authority and client certificate, for an address that begins with `https://`.
    pub tls: ClientTls,
}

/// API key, hidden in debug output.
#[derive(Clone)]
pub struct ClientKey(String);

impl ClientKey {
    /// Creates a key from its text.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "(hidden)" })
    }
}

impl Target {
    /// Connects with `key` or, without one, the common key. Each call may take at most `patience`.
    ///
    /// # Errors
    /// Returns the errors of [`Client::connect_as`].
    pub async fn connect(
        &self,
        key: Option<&ClientKey>,
        patience: Duration,
    ) -> Result<Client, Error> {
        let api_key = key.or(self.api_key.as_ref()).map(|key| key.0.clone());
        let credentials = Credentials { api_key, tls: self.tls.clone() };
        Client::connect_as(&credentials, &self.endpoint, patience).await
    }
}
