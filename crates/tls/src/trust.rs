//! Connections to servers other than Clew's, identified by their host or another certified name.

use std::io;

use clew_core::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::client::{ClientTls, of_this_system};
use crate::followed::{Followed, NamedFile};
use crate::material::{certificates, private_key, roots, versatile_client_config};
use crate::stream::Stream;

/// Configuration keys that name the files of a [`Trust`].
#[derive(Clone, Copy, Debug)]
pub struct TrustKeys {
    /// Configuration key of the authority's certificate.
    pub ca: &'static str,
    /// Configuration key of this client's certificate.
    pub certificate: &'static str,
    /// Configuration key of its private key.
    pub key: &'static str,
}

/// Authorities that a client of such servers trusts, and its own certificate, kept up to date with
/// the files. Cheap to clone.
#[derive(Clone)]
pub struct Trust(Followed<ClientConfig>);

impl std::fmt::Debug for Trust {
    /// Omits the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the files, and again whenever they change. Renewed files apply to connections made
    /// from then on. `what` names them in the log.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the configuration key, if a file
    /// cannot be used.
    pub async fn load(
        what: &'static str,
        keys: TrustKeys,
        files: ClientTls,
    ) -> Result<Self, Error> {
        let has_ca = files.ca.is_some();
        let mut named: Vec<NamedFile> = files.ca.map(|file| (keys.ca, file)).into_iter().collect();
        if let Some((certificate, key)) = files.identity {
            named.extend([(keys.certificate, certificate), (keys.key, key)]);
        }
        let followed = Followed::start(what, named, move |contents| {
            let (ca, identity) = contents.split_at(usize::from(has_ca));
            let roots = match ca {
                [ca] => roots(keys.ca, ca)?,
                _ => of_this_system(),
            };
            let identity = match identity {
                [chain, key] => {
                    let chain = certificates(keys.certificate, chain)?;
                    Some((chain, private_key(keys.key, key)?))
                }
                _ => None,
            };
            versatile_client_config(roots, identity, keys.key)
        });
        Ok(Self(followed.await?))
    }

    /// Performs the handshake with a server that is certified for `name`: a host name or an
    /// address.
    ///
    /// # Errors
    /// Returns an error if the connection fails, or if the server's certificate is not valid for
    /// `name`.
    pub async fn connect(&self, socket: TcpStream, name: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.0.current());
        Ok(Stream::Made(Box::new(connector.connect(name, socket).await?)))
    }
}
