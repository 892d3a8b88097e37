//! An HTTP/2 connection that reports its own end.
//!
//! A tonic channel hides its connection: it makes a new one whenever the old one ends, so that
//! nobody learns that the old one ended, or that another server is behind the new one. Here the
//! socket reports when it is dropped, and a channel gets only one socket in its life.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use clew_tls::{Keeping, Stream, Tls, port_of};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tonic::transport::{Endpoint, Uri};

use super::link::Link;
use super::reach::Reach;

/// Reason of the error if no connection can be made.
pub(super) const UNREACHABLE: &str = "PEER_UNREACHABLE";

/// Address and options of a connection.
pub(super) struct Connection {
    endpoint: Endpoint,
    tls: Option<Tls>,
    role: Option<&'static str>,
}

impl Connection {
    /// Creates the description of a connection to `address`, without connecting.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid.
    pub(super) fn try_new(address: &str, reach: &Reach) -> Result<Self, Error> {
        let Reach { config, tls, role } = reach;
        // An encrypted cluster is never reached in plain text, whatever a list of members says.
        let scheme = if tls.is_some() { "https" } else { "http" };
        let expected = format!("expected an address like {scheme}://10.0.0.7:7421");
        let invalid = || Error::invalid("peer.address", format!("{expected}, got `{address}`"));
        let endpoint =
            Endpoint::from_shared(address.to_owned()).map_err(|e| invalid().with_source(e))?;
        if endpoint.uri().scheme_str() != Some(scheme) || endpoint.uri().host().is_none() {
            return Err(invalid());
        }
        let endpoint = endpoint
            .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
            .http2_keep_alive_interval(Duration::from_millis(config.keepalive_interval_ms))
            .keep_alive_timeout(Duration::from_millis(config.keepalive_timeout_ms))
            // An idle member must be known to be alive before it gets work.
            .keep_alive_while_idle(true);
        Ok(Self { endpoint, tls: tls.clone(), role: *role })
    }

    /// Makes a connection. The receiver turns true when the connection takes no new requests.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if nobody answers in time.
    pub(super) async fn open(
        &self,
        generation: u64,
    ) -> Result<(Link, watch::Receiver<bool>), Error> {
        let (alive, open) = watch::channel(());
        let (closing, seen_closing) = watch::channel(false);
        let socket = Arc::new(Mutex::new(Some(alive)));
        let (tls, role) = (self.tls.clone(), self.role);
        let connector = tower::service_fn(move |uri: Uri| {
            let tls = tls.clone();
            let alive = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
            if alive.is_none() {
                closing.send_replace(true);
            }
            async move {
                let alive = alive
                    .ok_or_else(|| io::Error::other("the connection was closed by the peer"))?;
                let host = uri.host().unwrap_or_default();
                // An address has brackets around an IPv6 address; they must not be here.
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((host, port_of(&uri))).await?;
                stream.set_nodelay(true)?;
                // When a connection is given up, data that the other end has not received must be
                // discarded, too. Otherwise the kernel delivers it once the network heals, and an
                // old write arrives after newer ones that took another way.
                stream.set_zero_linger()?;
                let stream = match tls {
                    Some(tls) => tls.connect_to_node(stream, role).await?,
                    None => Stream::Plain(stream),
                };
                // Dropping the stream drops `alive`, which the receivers notice.
                Ok::<_, io::Error>(TokioIo::new(Keeping::new(stream, alive)))
            }
        });
        let channel = self.endpoint.connect_with_connector(connector).await.map_err(|error| {
            let problem = "a peer does not answer; is it running?";
            Error::new(ErrorKind::Unavailable, UNREACHABLE, problem).with_source(error)
        })?;
        Ok((Link { channel, generation, open }, seen_closing))
    }
}
