//! Certificates and keys, as the files currently contain them.

use std::sync::{Arc, Once};

use clew_core::{Error, ErrorKind};
use tokio::io;
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::{Resumption, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::TlsConfig;
use crate::followed::Followed;
use crate::roles::{NODE_NAME, NodeRoles};
use crate::stream::{Proof, Stream};

/// ALPN identifiers of HTTP/2 and HTTP/1.1.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// A node's certificate and the authorities it trusts, kept up to date with the files. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Tls {
    material: Followed<Material>,
    /// Whether a server speaks HTTP/1.1 as well.
    http1: bool,
}

/// TLS configurations built from the files.
struct Material {
    server: Arc<ServerConfig>,
    /// The same for a server that speaks HTTP/1.1 as well.
    server_of_both: Arc<ServerConfig>,
    node: Arc<ClientConfig>,
    nodes: Arc<dyn ClientCertVerifier>,
}

impl std::fmt::Debug for Material {
    /// Omits the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files, and again whenever they change. Renewed files apply to connections made
    /// from then on. Returns `None` if the section is empty. `roles` are those of this node, which
    /// its certificate must name.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`], naming the configuration key, if a file cannot be used.
    pub async fn load(
        config: &TlsConfig,
        roles: impl IntoIterator<Item = &'static str>,
    ) -> Result<Option<Self>, Error> {
        config.validate()?;
        let named = [
            ("tls.certificate", &config.certificate),
            ("tls.key", &config.key),
            ("tls.ca", &config.ca),
            ("tls.client_ca", &config.client_ca),
        ];
        let files: Vec<_> =
            named.iter().filter_map(|(key, file)| Some((*key, (*file).clone()?))).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let roles: Vec<&str> = roles.into_iter().collect();
        let followed = Followed::start("certificates", files, move |contents| match contents {
            [certificate, key, ca] => material(&roles, certificate, key, ca, None),
            [certificate, key, ca, client_ca] => {
                material(&roles, certificate, key, ca, Some(client_ca))
            }
            _ => Err(Error::internal("a section that was checked has not all its files")),
        });
        Ok(Some(Self { material: followed.await?, http1: false }))
    }

    /// Returns the same certificates for a listener that speaks HTTP/1.1 as well as HTTP/2.
    #[must_use]
    pub fn speaking_http1(self) -> Self {
        Self { http1: true, ..self }
    }

    /// Performs the handshake with a peer that connected. Returns the stream and what it proves.
    ///
    /// # Errors
    /// Returns an error if the connection fails, or if the peer's certificate is missing, from
    /// another authority, expired or not yet valid.
    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<(Stream, Proof)> {
        let material = self.material.current();
        let server = if self.http1 { &material.server_of_both } else { &material.server };
        let stream = TlsAcceptor::from(Arc::clone(server)).accept(socket).await?;
        let proof = match stream.get_ref().1.peer_certificates() {
            None => Proof::Encrypted,
            Some(chain) => match material.node(chain) {
                Some(roles) => Proof::Node(roles),
                None => Proof::Client,
            },
        };
        Ok((Stream::Accepted(Box::new(stream)), proof))
    }

    /// Performs the handshake with a node of the cluster that has `role`, or any role if it is
    /// `None`.
    ///
    /// # Errors
    /// Returns an error if the connection fails or the peer's certificate is not that of such a
    /// node.
    pub async fn connect_to_node(
        &self,
        socket: TcpStream,
        role: Option<&str>,
    ) -> io::Result<Stream> {
        let config = Arc::clone(&self.material.current().node);
        let stream = TlsConnector::from(config).connect(node_name(), socket).await?;
        let end = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let roles = end.map(NodeRoles::of).unwrap_or_default();
        match role {
            Some(role) if !roles.have(role) => Err(io::Error::other(format!(
                "expected a node certified for `{role}.{NODE_NAME}`, got one for: {roles}"
            ))),
            _ => Ok(Stream::Made(Box::new(stream))),
        }
    }
}

impl Material {
    /// Returns the roles of the node that presented `chain`. Returns `None` if it is not a node's:
    /// a certificate of the clients' authority is never one, whatever name it has.
    fn node(&self, chain: &[CertificateDer<'_>]) -> Option<NodeRoles> {
        /// Limits the warning to one per process: every connection would repeat it.
        static TOLD: Once = Once::new();
        let (end, between) = chain.split_first()?;
        let certified = self.nodes.verify_client_cert(end, between, UnixTime::now()).is_ok();
        let named = ParsedCertificate::try_from(end)
            .is_ok_and(|parsed| verify_server_name(&parsed, &node_name()).is_ok());
        let roles = (certified && named).then(|| NodeRoles::of(end))?;
        if roles.are_unnamed() {
            TOLD.call_once(|| tracing::warn!("a node's certificate {NAMES_NO_ROLE}"));
        }
        Some(roles)
    }
}

/// Advice for certificates that were issued before roles were named.
const NAMES_NO_ROLE: &str = "names no roles, so that its node may call whatever a node may; have certificates issued for \
     `ROLE.node.clew.internal` as well: the next release refuses those without";

/// Returns an error if a certificate does not name all `roles` of this node.
fn check_roles(roles: &[&str], certificate: &CertificateDer<'_>) -> Result<(), Error> {
    let named = NodeRoles::of(certificate);
    if named.are_unnamed() && !roles.is_empty() {
        tracing::warn!("the certificate of this node {NAMES_NO_ROLE}");
    }
    match roles.iter().find(|role| !named.have(role)) {
        None => Ok(()),
        Some(role) => {
            let problem = format!(
                "expected `{role}.{NODE_NAME}` among its names, since this node is a {role}; of such names it has those \
                 for: {named}"
            );
            Err(Error::invalid("tls.certificate", problem))
        }
    }
}

fn node_name() -> ServerName<'static> {
    ServerName::try_from(NODE_NAME).expect("a constant, and a name")
}

fn material(
    roles: &[&str],
    certificate: &[u8],
    key: &[u8],
    ca: &[u8],
    client_ca: Option<&Vec<u8>>,
) -> Result<Material, Error> {
    let chain = certificates("tls.certificate", certificate)?;
    chain.first().map_or(Ok(()), |certificate| check_roles(roles, certificate))?;
    let key = private_key("tls.key", key)?;
    let nodes = roots("tls.ca", ca)?;
    let mut clients = nodes.clone();
    if let Some(client_ca) = client_ca {
        clients.roots.extend(roots("tls.client_ca", client_ca)?.roots);
    }
    let refused = |key: &str, error: &dyn std::fmt::Display| {
        Error::invalid(key, format!("expected certificates of an authority: {error}"))
    };
    let verifier = |roots: RootCertStore| {
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
    };
    let of_nodes = verifier(nodes.clone()).build().map_err(|e| refused("tls.ca", &e))?;
    let of_clients = match client_ca {
        Some(_) => verifier(clients),
        None => verifier(clients).allow_unauthenticated(),
    };
    let of_clients = of_clients.build().map_err(|e| refused("tls.client_ca", &e))?;
    let mismatch = |error| {
        Error::invalid("tls.key", "expected the private key of `tls.certificate`")
            .with_source(error)
    };
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unsupported)?
        .with_client_cert_verifier(of_clients)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(mismatch)?;
    server.alpn_protocols = vec![HTTP2.to_vec()];
    // A resumed session would skip the check of the client's certificate.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut server_of_both = server.clone();
    server_of_both.alpn_protocols.push(HTTP1.to_vec());
    let node = client_config(nodes, Some((chain, key)))?;
    let (server, server_of_both) = (Arc::new(server), Arc::new(server_of_both));
    Ok(Material { server, server_of_both, node: Arc::new(node), nodes: of_nodes })
}

/// Returns the configuration of a client that trusts `roots` and presents `identity`.
pub(crate) fn client_config(
    roots: RootCertStore,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unsupported)?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            Error::invalid("key", "expected the private key of the certificate").with_source(error)
        })?,
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Returns a configuration like [`client_config`] for servers that may support only TLS 1.2 and do
/// not speak HTTP/2. `key` is the configuration key of the private key.
pub(crate) fn versatile_client_config(
    roots: RootCertStore,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    key: &'static str,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(unsupported)?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, private_key)) => {
            builder.with_client_auth_cert(chain, private_key).map_err(|error| {
                Error::invalid(key, "expected the private key of the certificate")
                    .with_source(error)
            })?
        }
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unsupported(error: tokio_rustls::rustls::Error) -> Error {
    Error::internal("TLS 1.3 is not supported").with_source(error)
}

pub(crate) fn certificates(key: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let refused = |problem: String| {
        Error::invalid(key, format!("expected certificates in PEM form: {problem}"))
    };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(chain) if chain.is_empty() => Err(refused("there is none".to_owned())),
        Ok(chain) => Ok(chain),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Parses a private key. The error never quotes the file.
pub(crate) fn private_key(key: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| Error::invalid(key, "expected a private key in PEM form"))
}

pub(crate) fn roots(key: &str, pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, pem)? {
        roots.add(certificate).map_err(|error| {
            Error::invalid(key, "expected certificates of authorities").with_source(error)
        })?;
    }
    Ok(roots)
}

/// Returns the error for a server with which no encrypted connection is possible.
pub(crate) fn no_handshake(error: io::Error) -> Error {
    let problem = "no encrypted connection could be agreed on; is the certificate valid, and of a known authority?";
    Error::new(ErrorKind::Unavailable, "TLS_REFUSED", problem).with_source(error)
}
