//! One connection to Redis, made anew after every failure, and no wait without an end.
//!
//! The client's own connection manager is not used: it holds commands back while it reconnects with
//! growing delays, and it keeps a connection whose peer has gone silent. Here a command connects if need
//! be, and all of it happens within one short limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
};

use crate::config::ClusterConfig;

/// Version of what the keys hold; part of every key, so that nodes of two versions never read each
/// other's.
const LAYOUT: &str = "v1";

/// A Redis server that may be away.
pub(crate) struct Redis {
    client: Client,
    prefix: String,
    patience: Duration,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// Counts connections, so that the failure of an old one does not end a newer one.
    generation: u64,
    connection: Option<MultiplexedConnection>,
}

impl Redis {
    /// Connects nowhere yet: a node starts without Redis, too.
    pub(crate) fn new(config: &ClusterConfig) -> Result<Option<Self>, Error> {
        let Some(url) = &config.redis else { return Ok(None) };
        let refused = |error: RedisError| {
            Error::invalid("cluster.redis", format!("expected `redis://host:port`: {error}"))
        };
        let info = url.reveal().into_connection_info().map_err(refused)?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Ok(Some(Self {
            client: Client::open(info).map_err(refused)?,
            prefix: format!("{}:{LAYOUT}", config.redis_prefix),
            patience: config.redis_patience(),
            current: Mutex::default(),
        }))
    }

    /// The full name of a key.
    pub(crate) fn key(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Sends commands and reads their replies, within the patience that is configured.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]; whether the commands were executed is then unknown.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        doing: &str,
        commands: &Pipeline,
    ) -> Result<T, Error> {
        let mut used = None;
        let sent = tokio::time::timeout(self.patience, self.send(commands, &mut used)).await;
        let unavailable = Error::new(
            ErrorKind::Unavailable,
            "REDIS_UNAVAILABLE",
            format!("Redis did not answer while {doing}; retry"),
        );
        let error = match sent {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => unavailable.with_source(error),
            Err(elapsed) => unavailable.with_source(elapsed),
        };
        // Also after a refusal: a server that became a replica is left by connecting anew.
        if let Some(generation) = used {
            let mut current = self.lock();
            if current.generation == generation {
                current.connection = None;
            }
        }
        Err(error)
    }

    async fn send<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
        used: &mut Option<u64>,
    ) -> Result<T, RedisError> {
        let (generation, mut connection) = self.connection().await?;
        *used = Some(generation);
        commands.query_async(&mut connection).await
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        {
            let current = self.lock();
            if let Some(connection) = &current.connection {
                return Ok((current.generation, connection.clone()));
            }
        }
        // Replies are waited for as long as the whole command may take, see `query`.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(None);
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut current = self.lock();
        current.generation += 1;
        // Several may have connected at once; the last one's is kept for those who come.
        current.connection = Some(made.clone());
        Ok((current.generation, made))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        // Nothing is left half done by a panic in here.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
