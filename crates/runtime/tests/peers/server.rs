//! A server whose health and work the test controls, behind a wire that can be cut.
//!
//! Its work is the health service's `Check`, which every build has. Each call waits until the test
//! lets it be answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use clew_runtime::peer::Channel;
use clew_runtime::peer::{Peer, PeerConfig, PeerOptions, PeerState};
use clew_testkit::FaultyWire;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_check_response::ServingStatus as WireStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, HealthService, WatchStream};

/// Maximum time that a test waits for something that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct TestServer {
    pub wire: FaultyWire,
    pub health: HealthReporter,
    started: watch::Sender<usize>,
    allowed: Arc<Semaphore>,
    serving: JoinHandle<()>,
}

struct Work {
    health: HealthReporter,
    started: watch::Sender<usize>,
    allowed: Arc<Semaphore>,
}

#[tonic::async_trait]
impl Health for Work {
    type WatchStream = WatchStream;

    async fn check(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.started.send_modify(|started| *started += 1);
        self.allowed.acquire().await.unwrap().forget();
        Ok(Response::new(HealthCheckResponse { status: WireStatus::Serving.into() }))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<WatchStream>, Status> {
        HealthService::from_health_reporter(self.health.clone()).watch(request).await
    }
}

impl TestServer {
    pub async fn start() -> Self {
        let (health, started) = (HealthReporter::new(), watch::Sender::new(0));
        let allowed = Arc::new(Semaphore::new(0));
        let work = Work {
            health: health.clone(),
            started: started.clone(),
            allowed: Arc::clone(&allowed),
        };
        let (address, serving) = serve(Routes::new(HealthServer::new(work))).await;
        let wire = FaultyWire::to(address).await.unwrap();
        Self { wire, health, started, allowed, serving }
    }

    pub fn address(&self) -> String {
        format!("http://{}", self.wire.address())
    }

    /// Sets the health that the server reports.
    pub async fn say(&self, status: ServingStatus) {
        self.health.set_service_status("", status).await;
    }

    /// Waits until `calls` calls have reached the server in all.
    pub async fn started(&self, calls: usize) {
        let mut started = self.started.subscribe();
        let enough = started.wait_for(|started| *started >= calls);
        tokio::time::timeout(PATIENCE, enough).await.unwrap().unwrap();
    }

    /// Returns how many calls have reached the server.
    pub fn calls(&self) -> usize {
        *self.started.borrow()
    }

    /// Lets `calls` more calls be answered.
    pub fn allow(&self, calls: usize) {
        self.allowed.add_permits(calls);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves `routes` on a free port.
pub async fn serve(routes: Routes) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = TcpListenerStream::new(listener);
    let server = Server::builder().add_routes(routes).serve_with_incoming(incoming);
    (address, tokio::spawn(async move { server.await.unwrap() }))
}

/// Makes a call that is the server's work.
pub async fn work(channel: Channel) -> Result<(), Error> {
    let request = HealthCheckRequest::default();
    match HealthClient::new(channel).check(request).await {
        Ok(_) => Ok(()),
        Err(status) => Err(Error::new(ErrorKind::Unavailable, "TRANSPORT", status.message())),
    }
}

/// Returns options with a keepalive ping every 100 ms, 200 ms for its answer, and retries within
/// 100 ms.
pub fn options(credits: u32) -> PeerOptions {
    let config = PeerConfig {
        keepalive_interval_ms: 100,
        keepalive_timeout_ms: 200,
        reconnect_max_ms: 100,
        ..PeerConfig::default()
    };
    PeerOptions { service: String::new(), credits, reach: config.into() }
}

/// Waits until the peer has this state.
pub async fn until(peer: &Peer, state: PeerState) {
    let mut view = peer.view();
    let seen = view.wait_for(|view| view.state == state);
    let waited = tokio::time::timeout(PATIENCE, seen).await;
    assert!(waited.is_ok(), "{} is {:?}, expected {state:?}", peer.name(), peer.state());
}
