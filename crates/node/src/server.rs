//! The gRPC server of a node: the services of its roles, health and reflection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clew_auth::Guard;
use clew_client::Services;
use clew_core::{Error, ErrorKind};
use clew_proto::FILE_DESCRIPTOR_SET;
use clew_proto::cluster::v1::node_service_server::NodeServiceServer;
use clew_tls::{ConnectionLimits, Tls, incoming};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::layer::util::{Identity, Stack};

use crate::Node;
use crate::in_process::in_process;
use crate::layers::{Layers, layers};
use crate::node_service::NodeRpc;

/// Number of requests that one connection may have in flight. Further requests wait on the
/// connection, where searches wait behind writes. The number therefore equals the most that a
/// gateway sends. The queues behind have limits of their own.
const REQUESTS_PER_CONNECTION: usize = 4096;
/// Number of requests that a connection may have open: those in flight, and as many waiting.
const STREAMS_PER_CONNECTION: u32 = 2 * REQUESTS_PER_CONNECTION as u32;
/// Maximum size of a request's headers in bytes.
const HEADER_BYTES: u32 = 16 << 10;
/// Number of bytes that a peer may send ahead of what is read, on one stream. With many producers,
/// these bytes dominate a node's memory.
const STREAM_BYTES: u32 = 256 << 10;
/// The same for one connection. It allows many streams to wait unread without blocking others.
const CONNECTION_BYTES: u32 = 16 << 20;
/// Silence of a connection after which its peer is pinged, and the time that the reply may take.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time for which a node accepts requests after it has announced its end, so that callers notice.
const NOTICE: Duration = Duration::from_millis(500);
/// Pause between two looks at whether services take work.
const LOOK: Duration = Duration::from_millis(200);

/// The layers of a server.
pub type Transport = Stack<Layers, Identity>;

/// Service of a node, as its health is reported.
struct Offered {
    name: &'static str,
    /// Function that returns whether the service takes work.
    takes_work: Box<dyn Fn() -> bool + Send + Sync>,
    /// Status that was reported last.
    status: Option<ServingStatus>,
}

/// Creates a server without services, with the connection settings of Clew's servers, behind
/// `guard`.
pub fn transport(guard: Guard) -> tonic::transport::Server<Transport> {
    tonic::transport::Server::builder()
        .layer(layers(guard))
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_max_header_list_size(HEADER_BYTES)
        .concurrency_limit_per_connection(REQUESTS_PER_CONNECTION)
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
}

/// The services that a node offers.
pub struct NodeServer {
    routes: RoutesBuilder,
    health: HealthReporter,
    services: Vec<Offered>,
    guard: Guard,
    tls: Option<Tls>,
}

impl NodeServer {
    /// Creates a server with the services that every node has.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] if the descriptors cannot be served, which a test rules out.
    pub fn new(node: &Arc<Node>) -> Result<Self, Error> {
        let (health, health_service) = tonic_health::server::health_reporter();
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|error| Error::internal("reflection cannot be served").with_source(error))?;
        let mut routes = RoutesBuilder::default();
        routes.add_service(health_service).add_service(reflection);
        let mut server = Self {
            routes,
            health,
            services: Vec::new(),
            guard: node.guard().clone(),
            tls: node.tls().cloned(),
        };
        server.add(NodeServiceServer::new(NodeRpc { node: Arc::clone(node) }));
        Ok(server)
    }

    /// Adds a service of a role.
    pub fn add<S>(&mut self, service: S)
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.add_while(service, || true);
    }

    /// Adds a service of a role for which health checks answer NOT_SERVING while `takes_work`
    /// returns false. Other nodes give their work to others then; what comes nevertheless is up to
    /// the service. `takes_work` is called several times a second and must not block.
    pub fn add_while<S>(
        &mut self,
        service: S,
        takes_work: impl Fn() -> bool + Send + Sync + 'static,
    ) where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let takes_work = Box::new(takes_work);
        self.services.push(Offered { name: S::NAME, takes_work, status: None });
        self.routes.add_service(service);
    }

    /// Returns whether a role has already added the service.
    pub fn offers<S: NamedService>(&self) -> bool {
        self.services.iter().any(|service| service.name == S::NAME)
    }

    /// Returns the services that were added so far, for callers in this process.
    pub fn services(&self) -> Services {
        in_process(self.routes.clone().routes(), self.guard.clone())
    }

    /// Returns the certificate that connections are encrypted with, if there is one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Serves until the node drains and `stop` is set. When the node drains, health checks answer
    /// NOT_SERVING for all services. After `stop`, callers get a moment to notice. Then no new
    /// requests are accepted, and those in flight are finished. The caller must limit that wait.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        mut draining: watch::Receiver<bool>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let Self { routes, mut health, mut services, guard, tls } = self;
        report(&mut health, &mut services).await;
        let shutdown = async move {
            // The senders of both channels disappear only when the process ends.
            while timeout(LOOK, draining.wait_for(|draining| *draining)).await.is_err() {
                report(&mut health, &mut services).await;
            }
            for service in &services {
                health.set_service_status(service.name, ServingStatus::NotServing).await;
            }
            drop(stop.wait_for(|stop| *stop).await);
            tokio::time::sleep(NOTICE).await;
            // Closes the streams of health watchers, which would delay the shutdown.
            for service in services {
                health.clear_service_status(service.name).await;
            }
        };
        transport(guard)
            .add_routes(routes.routes())
            .serve_with_incoming_shutdown(
                incoming(listener, tls, ConnectionLimits::default()),
                shutdown,
            )
            .await
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "the listener failed")
                    .with_source(error)
            })
    }
}

/// Tells health checks which services take work, if that has changed.
async fn report(health: &mut HealthReporter, services: &mut [Offered]) {
    for service in services {
        let status = match (service.takes_work)() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        if service.status.replace(status) != Some(status) {
            health.set_service_status(service.name, status).await;
        }
    }
}
