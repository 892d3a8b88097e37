//! Real handshakes over loopback: which peers get in, which are refused, and that slow ones do not
//! delay others.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clew_testkit::{Authority, Validity};
use clew_tls::{
    ClientTls, ConnectionLimits, IncomingConnection, NODE_NAME, NodeRoles, Proof, Tls, TlsConfig,
    connect, incoming,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;

/// Maximum duration of any operation before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Handshake limit in tests whose handshakes never finish.
const SHORT: Duration = Duration::from_millis(300);

/// A folder of certificates, with an authority for nodes, one for clients and an unknown one.
struct World {
    folder: TempDir,
    nodes: Authority,
    clients: Authority,
    strangers: Authority,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [nodes, clients, strangers] =
            ["nodes", "clients", "strangers"].map(|name| Authority::new(name).unwrap());
        nodes.write(&folder.path().join("nodes.ca")).unwrap();
        clients.write(&folder.path().join("clients.ca")).unwrap();
        strangers.write(&folder.path().join("strangers.ca")).unwrap();
        Self { folder, nodes, clients, strangers }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn node(&self, stem: &str, validity: Validity) -> TlsConfig {
        let names = ["localhost", NODE_NAME];
        self.config(&self.nodes, stem, &names, validity)
    }

    fn config(&self, by: &Authority, stem: &str, names: &[&str], validity: Validity) -> TlsConfig {
        let issued = by.issue(self.folder.path(), stem, names, validity).unwrap();
        TlsConfig {
            certificate: Some(issued.certificate),
            key: Some(issued.key),
            ca: Some(self.path("nodes.ca")),
            client_ca: None,
        }
    }

    fn client(&self, by: &Authority, stem: &str, validity: Validity) -> ClientTls {
        let issued = by.issue(self.folder.path(), stem, &[stem], validity).unwrap();
        let identity = Some((issued.certificate, issued.key));
        ClientTls { ca: Some(self.path("nodes.ca")), identity }
    }
}

async fn tls(config: &TlsConfig) -> Tls {
    Tls::load(config, []).await.unwrap().unwrap()
}

/// Starts a server that echoes what it receives, and reports the proof of each connection.
async fn serve(
    tls: Option<Tls>,
    limits: ConnectionLimits,
) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Proof>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (proofs, seen) = tokio::sync::mpsc::unbounded_channel();
    let mut connections = incoming(listener, tls, limits);
    tokio::spawn(async move {
        while let Some(connection) = connections.next().await {
            let connection = connection.unwrap();
            proofs.send(connection.info().proof).ok();
            tokio::spawn(echo(connection));
        }
    });
    (address, seen)
}

async fn echo(mut connection: IncomingConnection) {
    let mut buffer = [0; 1024];
    while let Ok(read) = connection.read(&mut buffer).await {
        if read == 0 || connection.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Returns whether bytes that are sent come back.
async fn answers(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> bool {
    let exchange = async {
        stream.write_all(&[7; 64]).await?;
        stream.flush().await?;
        let mut back = [0; 64];
        stream.read_exact(&mut back).await?;
        Ok::<_, std::io::Error>(back == [7; 64])
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap().unwrap_or(false)
}

async fn client_gets_in(address: SocketAddr, client: &ClientTls) -> bool {
    match connect("localhost", address.port(), Some(client)).await {
        Ok(mut stream) => answers(&mut stream).await,
        Err(error) => {
            assert_eq!(error.reason(), "TLS_REFUSED", "{}", error.chain());
            false
        }
    }
}

async fn node_gets_in(address: SocketAddr, node: &Tls) -> bool {
    let socket = TcpStream::connect(address).await.unwrap();
    match node.connect_to_node(socket, None).await {
        Ok(mut stream) => answers(&mut stream).await,
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_node_proves_itself_and_a_client_with_a_nodes_name_does_not() {
    let world = World::new();
    let mut config = world.node("node", Validity::Valid);
    config.client_ca = Some(world.path("clients.ca"));
    let (address, mut proofs) = serve(Some(tls(&config).await), ConnectionLimits::default()).await;
    let other = tls(&world.node("other", Validity::Valid)).await;
    assert!(node_gets_in(address, &other).await);
    assert_eq!(proofs.recv().await, Some(Proof::Node(NodeRoles::default())));

    let client = world.client(&world.clients, "client", Validity::Valid);
    assert!(client_gets_in(address, &client).await);
    assert_eq!(proofs.recv().await, Some(Proof::Client));

    // The clients' authority may certify any name, but never makes its holder a node.
    let pretender = world.client(&world.clients, NODE_NAME, Validity::Valid);
    assert!(client_gets_in(address, &pretender).await);
    assert_eq!(proofs.recv().await, Some(Proof::Client));
}

#[tokio::test]
async fn a_certificate_tells_the_roles_of_its_node_to_both_sides() {
    let world = World::new();
    let named = |stem: &str, roles: &[&str]| {
        let names = roles.iter().map(|role| format!("{role}.{NODE_NAME}"));
        let names: Vec<String> = names.chain([NODE_NAME.to_owned()]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.config(&world.nodes, stem, &names, Validity::Valid)
    };
    let retriever = tls(&named("retriever", &["retriever"])).await;
    for roles in [&["encoder"][..], &["gateway", "graph-builder"]] {
        let (address, mut proofs) =
            serve(Some(retriever.clone()), ConnectionLimits::default()).await;
        let node = tls(&named("node", roles)).await;
        assert!(node_gets_in(address, &node).await);
        assert_eq!(proofs.recv().await, Some(Proof::Node(NodeRoles::named(roles.to_vec()))));
        let connected = async |role| {
            let socket = TcpStream::connect(address).await.unwrap();
            node.connect_to_node(socket, Some(role)).await
        };
        assert!(connected("retriever").await.is_ok());
        let refused = connected("encoder").await.unwrap_err().to_string();
        assert!(refused.contains("encoder.node.clew.internal"), "{refused}");
        assert!(refused.ends_with("retriever"), "{refused}");
    }
    // A role name certified by the clients' authority gives no role.
    let mut config = world.node("server", Validity::Valid);
    config.client_ca = Some(world.path("clients.ca"));
    let (address, mut proofs) = serve(Some(tls(&config).await), ConnectionLimits::default()).await;
    let pretender = world.client(&world.clients, "gateway.node.clew.internal", Validity::Valid);
    assert!(client_gets_in(address, &pretender).await);
    assert_eq!(proofs.recv().await, Some(Proof::Client));

    // A node whose certificate names another role does not start.
    let refused = Tls::load(&named("other", &["encoder"]), ["encoder", "gateway"]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.violations()[0].field, "tls.certificate");
    assert!(refused.message().contains("gateway.node.clew.internal"), "{}", refused.message());
    Tls::load(&named("both", &["encoder", "gateway"]), ["encoder", "gateway"]).await.unwrap();
    Tls::load(&world.node("old", Validity::Valid), ["encoder"]).await.unwrap();
}

#[tokio::test]
async fn missing_foreign_and_ended_certificates_are_refused() {
    let world = World::new();
    let mut config = world.node("node", Validity::Valid);
    config.client_ca = Some(world.path("clients.ca"));
    let (address, mut proofs) = serve(Some(tls(&config).await), ConnectionLimits::default()).await;
    let refused = [
        ClientTls { ca: Some(world.path("nodes.ca")), identity: None },
        world.client(&world.strangers, "stranger", Validity::Valid),
        world.client(&world.clients, "ended", Validity::Expired),
        world.client(&world.clients, "early", Validity::NotYet),
    ];
    for client in refused {
        assert!(!client_gets_in(address, &client).await, "{client:?}");
    }
    for (stem, validity) in [("old-node", Validity::Expired), ("young-node", Validity::NotYet)] {
        assert!(!node_gets_in(address, &tls(&world.node(stem, validity)).await).await, "{stem}");
    }
    let foreign = world.config(&world.strangers, "foreign", &[NODE_NAME], Validity::Valid);
    assert!(!node_gets_in(address, &tls(&foreign).await).await);
    assert!(proofs.try_recv().is_err(), "none of them got in");
}

#[tokio::test]
async fn whoever_is_connected_to_must_be_who_he_should_be() {
    let world = World::new();
    let client = ClientTls { ca: Some(world.path("nodes.ca")), identity: None };
    let node = tls(&world.node("node", Validity::Valid)).await;
    let servers = [
        world.node("ended", Validity::Expired),
        world.config(&world.strangers, "stranger", &["localhost", NODE_NAME], Validity::Valid),
        world.config(&world.nodes, "elsewhere", &["elsewhere"], Validity::Valid),
    ];
    for config in servers {
        let (address, _proofs) = serve(Some(tls(&config).await), ConnectionLimits::default()).await;
        assert!(!client_gets_in(address, &client).await, "{config:?}");
        assert!(!node_gets_in(address, &node).await, "{config:?}");
    }
    let (address, _proofs) = serve(Some(node.clone()), ConnectionLimits::default()).await;
    assert!(client_gets_in(address, &client).await);
    let stranger = ClientTls { ca: Some(world.path("strangers.ca")), identity: None };
    assert!(!client_gets_in(address, &stranger).await);
}

#[tokio::test]
async fn plain_text_to_an_encrypted_port_ends_and_tells_nothing() {
    let world = World::new();
    let node = tls(&world.node("node", Validity::Valid)).await;
    let (address, mut proofs) = serve(Some(node), ConnectionLimits::default()).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    // The server sends an alert of a few bytes, or closes the connection.
    let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut said)).await.unwrap();
    assert!(read.is_err() || said.len() < 16, "{said:?}");
    assert!(proofs.try_recv().is_err());
}

#[tokio::test]
async fn silent_and_slow_peers_are_sent_away_and_hold_nobody_up() {
    let world = World::new();
    let node = tls(&world.node("node", Validity::Valid)).await;
    let limits = ConnectionLimits { connections: 40, patience: SHORT };
    let client = ClientTls { ca: Some(world.path("nodes.ca")), identity: None };
    for tls in [Some(node), None] {
        let encrypted = tls.is_some();
        let (address, _proofs) = serve(tls, limits).await;
        let mut idle = Vec::new();
        for _ in 0..30 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        // Other clients are served in the meantime.
        match encrypted {
            true => assert!(client_gets_in(address, &client).await),
            false => assert!(answers(&mut TcpStream::connect(address).await.unwrap()).await),
        }
        // Byte by byte, slower than the limit allows.
        let mut slow = TcpStream::connect(address).await.unwrap();
        let trickle = async {
            loop {
                if slow.write_all(b"P").await.is_err() {
                    return;
                }
                tokio::time::sleep(SHORT / 4).await;
            }
        };
        tokio::time::timeout(PATIENCE, trickle).await.unwrap();
        for mut socket in idle {
            let mut rest = Vec::new();
            drop(tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_closed_at_once() {
    let limits = ConnectionLimits { connections: 2, patience: PATIENCE };
    let (address, _proofs) = serve(None, limits).await;
    let mut served = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(address).await.unwrap();
        assert!(answers(&mut socket).await);
        served.push(socket);
    }
    assert!(!answers(&mut TcpStream::connect(address).await.unwrap()).await);
    served.pop();
    let again = async {
        while !answers(&mut TcpStream::connect(address).await.unwrap()).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
}

/// Replaces a certificate and its key as a renewal does: one file after the other.
fn replace(world: &World, config: &TlsConfig, by: &Authority, stem: &str) {
    let issued =
        by.issue(world.folder.path(), stem, &["localhost", NODE_NAME], Validity::Valid).unwrap();
    let put = |from: &Path, to: &Option<std::path::PathBuf>| {
        std::fs::rename(from, to.as_ref().unwrap()).unwrap();
    };
    put(&issued.certificate, &config.certificate);
    put(&issued.key, &config.key);
}

#[tokio::test]
async fn certificates_are_renewed_while_connections_go_on() {
    let world = World::new();
    let config = world.node("node", Validity::Valid);
    let (address, _proofs) = serve(Some(tls(&config).await), ConnectionLimits::default()).await;
    let client = ClientTls { ca: Some(world.path("nodes.ca")), identity: None };
    let mut before = connect("localhost", address.port(), Some(&client)).await.unwrap();
    assert!(answers(&mut before).await);

    // A broken file changes nothing: the previous certificate stays in use.
    std::fs::write(config.certificate.as_ref().unwrap(), "broken").unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(client_gets_in(address, &client).await);

    let new = Authority::new("new").unwrap();
    new.write(&world.path("new.ca")).unwrap();
    std::fs::copy(world.path("new.ca"), world.path("nodes.ca")).unwrap();
    replace(&world, &config, &new, "renewed");
    let renewed = ClientTls { ca: Some(world.path("new.ca")), identity: None };
    let gets_in = async {
        while !client_gets_in(address, &renewed).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gets_in).await.unwrap();
    assert!(answers(&mut before).await, "what stands goes on");
}
