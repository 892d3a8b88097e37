//! Connections of clients, which identify a server by its host name.

use std::path::PathBuf;
use std::sync::Arc;

use clew_core::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::Uri;

use crate::followed::read;
use crate::material::{certificates, client_config, no_handshake, private_key, roots};
use crate::stream::Stream;

/// PEM files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Certificate of the authority that certifies the server. Without it, the client trusts the
    /// authorities that this system trusts.
    pub ca: Option<PathBuf>,
    /// Certificate and private key of the client, for servers that ask for a client certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl ClientTls {
    /// Reads the files.
    fn config(&self) -> Result<ClientConfig, Error> {
        let roots = match &self.ca {
            Some(file) => roots("client.ca", &read("client.ca", file)?)?,
            None => of_this_system(),
        };
        let identity = match &self.identity {
            None => None,
            Some((certificate, key)) => {
                let chain = read("client.certificate", certificate)?;
                let chain = certificates("client.certificate", &chain)?;
                Some((chain, private_key("client.key", &read("client.key", key)?)?))
            }
        };
        client_config(roots, identity)
    }
}

/// Returns the authorities that this system trusts. Certificates that cannot be used are skipped.
pub(crate) fn of_this_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::debug!(%error, "some of this system's certificates cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}

/// Returns the port of an address: the one that it names, or the usual one of its scheme.
pub fn port_of(address: &Uri) -> u16 {
    let usual = if address.scheme_str() == Some("https") { 443 } else { 80 };
    address.port_u16().unwrap_or(usual)
}

/// Connects to `host:port`; the connection is encrypted if `tls` is given.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if a file cannot be used or `host` is not a valid
/// name, and [`clew_core::ErrorKind::Unavailable`] if no server answers or the handshake fails.
pub async fn connect(host: &str, port: u16, tls: Option<&ClientTls>) -> Result<Stream, Error> {
    let address = format!("{host}:{port}");
    // An IPv6 address has brackets in an endpoint, and none here.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let config = match tls.cloned() {
        None => None,
        Some(files) => {
            let read = tokio::task::spawn_blocking(move || files.config()).await;
            let panicked =
                |panic| Error::internal("reading certificates panicked").with_source(panic);
            Some(read.map_err(panicked)??)
        }
    };
    let unreachable = |error: std::io::Error| {
        let problem = format!(
            "no server answers at `{address}`; see that it runs there and can be reached from here"
        );
        Error::new(clew_core::ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
    };
    let socket = TcpStream::connect((host, port)).await.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    let Some(config) = config else { return Ok(Stream::Plain(socket)) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Error::invalid("endpoint", "expected a host name").with_source(error))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
    Ok(Stream::Made(Box::new(stream.map_err(no_handshake)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_usual_one_of_its_scheme() {
        let expected = [
            ("https://node.example", 443),
            ("http://node.example", 80),
            ("https://node.example:7421", 7421),
            ("http://[::1]:7421", 7421),
        ];
        for (address, port) in expected {
            assert_eq!(port_of(&Uri::from_static(address)), port, "{address}");
        }
    }
}
