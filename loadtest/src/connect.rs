//! How a server is reached: the one place that knows addresses and credentials.

use std::fmt;
use std::time::Duration;

use clew_client::Client;
use clew_core::Error;

/// Requests that share one connection. A server takes a limited number of streams on each; beyond it,
/// requests would wait in this process, unseen.
pub(crate) const STREAMS_PER_CONNECTION: u32 = 100;

/// A server.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its address, such as `http://127.0.0.1:7421`.
    pub endpoint: String,
    /// The key of tenants that have none of their own.
    pub api_key: Option<ApiKey>,
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
    /// Those of [`Client::connect`].
    pub async fn connect(&self, key: Option<&ApiKey>, patience: Duration) -> Result<Client, Error> {
        if key.or(self.api_key.as_ref()).is_some() {
            let problem = "this client sends no keys; expected none";
            return Err(Error::invalid("api_key", problem));
        }
        Client::connect(&self.endpoint, patience).await
    }
}
