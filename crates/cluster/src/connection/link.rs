//! One connection to one server.

use std::sync::Arc;

use clew_core::Error;
use clew_tls::{Trust, TrustKeys};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

use super::address::Place;
use crate::config::RedisTlsConfig;

const KEYS: TrustKeys = TrustKeys {
    ca: "cluster.redis_tls.ca",
    certificate: "cluster.redis_tls.certificate",
    key: "cluster.redis_tls.key",
};

/// A connection. Cheap to clone. It closes with the last clone, even while a reply is pending.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) connection: MultiplexedConnection,
    _driver: Arc<Driver>,
}

struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens connections, with TLS if it is configured.
pub(crate) struct Connector {
    encryption: Option<Trust>,
    /// Name in the servers' certificates, if it differs from their host.
    server_name: Option<String>,
}

impl Connector {
    /// Creates a connector.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the key, if a certificate file cannot
    /// be used.
    pub(crate) async fn new(is_encrypted: bool, tls: &RedisTlsConfig) -> Result<Self, Error> {
        let encryption = match is_encrypted {
            true => Some(Trust::load("certificates for Redis", KEYS, tls.files()).await?),
            false => None,
        };
        Ok(Self { encryption, server_name: tls.server_name.clone() })
    }

    /// Connects and logs in.
    pub(crate) async fn connect(
        &self,
        place: &Place,
        login: &RedisConnectionInfo,
    ) -> Result<Link, RedisError> {
        let (host, port) = match place {
            Place::Tcp(host, port) => (host, *port),
            Place::Unix(path) => return link(UnixStream::connect(path).await?, login).await,
        };
        let socket = TcpStream::connect((host.as_str(), port)).await?;
        socket.set_nodelay(true)?;
        match &self.encryption {
            None => link(socket, login).await,
            Some(trust) => {
                let name = self.server_name.as_deref().unwrap_or(host);
                link(trust.connect(socket, name).await?, login).await
            }
        }
    }
}

async fn link(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    login: &RedisConnectionInfo,
) -> Result<Link, RedisError> {
    // No timeout per reply: the caller limits the duration of the whole operation.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(login, stream, config).await?;
    Ok(Link { connection, _driver: Arc::new(Driver(tokio::spawn(driver))) })
}
