//! The gRPC server, with health checks and reflection.

use std::sync::Arc;

use clew_auth::Guard;
use clew_core::Error;
use clew_node::Transport;
use clew_proto::FILE_DESCRIPTOR_SET;
use clew_proto::chat::v1::chat_service_server::ChatServiceServer;
use clew_proto::corpus::v1::corpus_service_server::CorpusServiceServer;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderServiceServer;
use clew_proto::ingest::v1::ingest_service_server::IngestServiceServer;
use clew_proto::memory::v1::memory_service_server::MemoryServiceServer;
use clew_proto::query::v1::query_service_server::QueryServiceServer;
use clew_remote::GraphBuilderRpc;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::server::{Connected, Router};
use tonic_health::server::HealthReporter;

use crate::Backends;
use crate::chat_service::Chats;
use crate::corpus_service::handler::Corpora;
use crate::ingest_service::Ingestion;
use crate::memory_service::Memories;
use crate::query_service::Queries;

/// Maximum size of a message: the first part of a document with its attributes, and some room.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A server that is ready to accept connections.
pub struct GatewayServer {
    router: Router<Transport>,
    health: HealthReporter,
}

/// Services that clients call.
type Services = (
    CorpusServiceServer<Corpora>,
    IngestServiceServer<Ingestion>,
    QueryServiceServer<Queries>,
    MemoryServiceServer<Memories>,
    ChatServiceServer<Chats>,
    GraphBuilderServiceServer<GraphBuilderRpc>,
);

/// Creates the services that clients call, over `backends`.
pub(crate) fn services(backends: &Arc<Backends>) -> Services {
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
    )
}

/// Creates a server with all services of a node, which report as serving, behind `guard`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the descriptors cannot be served, which a test
/// excludes.
pub async fn router(backends: Arc<Backends>, guard: Guard) -> Result<GatewayServer, Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let (corpora, ingestion, queries, memories, chats, graphs) = services(&backends);
    health.set_serving::<CorpusServiceServer<Corpora>>().await;
    health.set_serving::<IngestServiceServer<Ingestion>>().await;
    health.set_serving::<QueryServiceServer<Queries>>().await;
    health.set_serving::<MemoryServiceServer<Memories>>().await;
    health.set_serving::<ChatServiceServer<Chats>>().await;
    health.set_serving::<GraphBuilderServiceServer<GraphBuilderRpc>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Error::internal("reflection cannot be served").with_source(error))?;
    let router = clew_node::transport(guard)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(corpora)
        .add_service(ingestion)
        .add_service(queries)
        .add_service(memories)
        .add_service(chats)
        .add_service(graphs);
    Ok(GatewayServer { router, health })
}

impl GatewayServer {
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
        let Self { router, health } = self;
        let shutdown = async move {
            shutdown.await;
            health.set_not_serving::<CorpusServiceServer<Corpora>>().await;
            health.set_not_serving::<IngestServiceServer<Ingestion>>().await;
            health.set_not_serving::<QueryServiceServer<Queries>>().await;
            health.set_not_serving::<MemoryServiceServer<Memories>>().await;
            health.set_not_serving::<ChatServiceServer<Chats>>().await;
            health.set_not_serving::<GraphBuilderServiceServer<GraphBuilderRpc>>().await;
        };
        router.serve_with_incoming_shutdown(incoming, shutdown).await.map_err(|error| {
            Error::new(clew_core::ErrorKind::Unavailable, "UNAVAILABLE", "the listener failed")
                .with_source(error)
        })
    }
}
