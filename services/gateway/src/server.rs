//! The gRPC server, with health checks and reflection.

use std::sync::Arc;

use clew_auth::Guard;
use clew_client::Services;
use clew_core::Error;
use clew_proto::FILE_DESCRIPTOR_SET;
use clew_proto::auth::v1::access_service_server::AccessServiceServer;
use clew_proto::chat::v1::chat_service_server::ChatServiceServer;
use clew_proto::corpus::v1::corpus_service_server::CorpusServiceServer;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderServiceServer;
use clew_proto::ingest::v1::ingest_service_server::IngestServiceServer;
use clew_proto::memory::v1::memory_service_server::MemoryServiceServer;
use clew_proto::query::v1::query_service_server::QueryServiceServer;
use clew_remote::GraphBuilderRpc;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic_health::server::HealthReporter;

use crate::Backends;
use crate::access_service::AccessRpc;
use crate::chat_service::Chats;
use crate::corpus_service::handler::Corpora;
use crate::ingest_service::Ingestion;
use crate::memory_service::Memories;
use crate::query_service::Queries;

/// Maximum size of a message: the first part of a document with its attributes, and some room.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A server that is ready to accept connections.
pub struct GatewayServer {
    routes: Routes,
    guard: Guard,
    health: HealthReporter,
}

/// Handlers of the services that clients call.
type Handlers = (
    CorpusServiceServer<Corpora>,
    IngestServiceServer<Ingestion>,
    QueryServiceServer<Queries>,
    MemoryServiceServer<Memories>,
    ChatServiceServer<Chats>,
    GraphBuilderServiceServer<GraphBuilderRpc>,
    AccessServiceServer<AccessRpc>,
);

/// Creates the services that clients call, over `backends`.
pub(crate) fn services(backends: &Arc<Backends>) -> Handlers {
    let corpora = CorpusServiceServer::new(Corpora { backends: Arc::clone(backends) });
    let ingestion = IngestServiceServer::new(Ingestion { backends: Arc::clone(backends) });
    let queries = Arc::new(Queries::new(Arc::clone(backends)));
    let chats = ChatServiceServer::new(Chats::new(Arc::clone(backends), Arc::clone(&queries)));
    let queries = QueryServiceServer::from_arc(queries);
    let memories = MemoryServiceServer::new(Memories { backends: Arc::clone(backends) });
    let graph_builders = Arc::clone(&backends.graph_builders);
    let graph_builder_bytes = backends.config.graph_builder_bytes;
    let graphs = GraphBuilderRpc::new(graph_builders, backends.limits, graph_builder_bytes);
    (
        corpora.max_decoding_message_size(MAX_MESSAGE_BYTES),
        ingestion.max_decoding_message_size(MAX_MESSAGE_BYTES),
        queries.max_decoding_message_size(MAX_MESSAGE_BYTES),
        memories.max_decoding_message_size(MAX_MESSAGE_BYTES),
        chats.max_decoding_message_size(MAX_MESSAGE_BYTES),
        graphs.into_service(),
        AccessServiceServer::new(AccessRpc),
    )
}

/// Creates a server with all services of a node, which report as serving, behind `guard`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the descriptors cannot be served, which a test
/// excludes.
pub async fn router(backends: Arc<Backends>, guard: Guard) -> Result<GatewayServer, Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let (corpora, ingestion, queries, memories, chats, graphs, access) = services(&backends);
    health.set_serving::<CorpusServiceServer<Corpora>>().await;
    health.set_serving::<IngestServiceServer<Ingestion>>().await;
    health.set_serving::<QueryServiceServer<Queries>>().await;
    health.set_serving::<MemoryServiceServer<Memories>>().await;
    health.set_serving::<ChatServiceServer<Chats>>().await;
    health.set_serving::<GraphBuilderServiceServer<GraphBuilderRpc>>().await;
    health.set_serving::<AccessServiceServer<AccessRpc>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Error::internal("reflection cannot be served").with_source(error))?;
    let routes = Routes::new(health_service)
        .add_service(reflection)
        .add_service(corpora)
        .add_service(ingestion)
        .add_service(queries)
        .add_service(memories)
        .add_service(chats)
        .add_service(graphs)
        .add_service(access);
    Ok(GatewayServer { routes, guard, health })
}

impl GatewayServer {
    /// Returns the services for callers in this process.
    pub fn services(&self) -> Services {
        clew_node::in_process(self.routes.clone(), self.guard.clone())
    }

    /// Serves connections until `shutdown` resolves. It then answers health checks with
    /// NOT_SERVING, accepts no new requests, and returns when those in flight are done. The caller
    /// bounds that wait.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] if the listener fails.
    pub async fn serve<I, IO, IE>(
        self,
        incoming: I,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error>
    where
        I: Stream<Item = Result<IO, IE>>,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
        IO::ConnectInfo: Clone + Send + Sync + 'static,
        IE: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { routes, guard, health } = self;
        let router = clew_node::transport(guard).add_routes(routes);
        let shutdown = async move {
            shutdown.await;
            health.set_not_serving::<CorpusServiceServer<Corpora>>().await;
            health.set_not_serving::<IngestServiceServer<Ingestion>>().await;
            health.set_not_serving::<QueryServiceServer<Queries>>().await;
            health.set_not_serving::<MemoryServiceServer<Memories>>().await;
            health.set_not_serving::<ChatServiceServer<Chats>>().await;
            health.set_not_serving::<GraphBuilderServiceServer<GraphBuilderRpc>>().await;
            health.set_not_serving::<AccessServiceServer<AccessRpc>>().await;
        };
        router.serve_with_incoming_shutdown(incoming, shutdown).await.map_err(|error| {
            Error::new(clew_core::ErrorKind::Unavailable, "UNAVAILABLE", "the listener failed")
                .with_source(error)
        })
    }
}
