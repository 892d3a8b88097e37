//! The gateway role of a node.

use std::sync::Arc;

use clew_console::ConsoleConfig;
use clew_core::{Error, Limits, SystemClock};
use clew_http::HttpConfig;
use clew_mcp::McpConfig;
use clew_node::{Node, NodeServer, Stop};
use clew_proto::cluster::v1::cluster_service_server::ClusterServiceServer;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderServiceServer;
use clew_remote::{
    GraphBuilderRpc, RemoteCorpora, RemoteEncoderConfig, RemoteEncoders, RemoteGraphBuilders,
    RemoteMemoryEncoder, RemoteReader, RemoteReasoners, RemoteReranker,
};

use crate::cluster_service::ClusterRpc;
use crate::server::services;
use crate::{Backends, GatewayConfig, GatewaySeams, HttpListener};

/// Maximum number of requests in flight on one node that is asked about itself.
const NODE_CREDITS: u32 = 64;

/// Number of searches that run at once if the configuration leaves it open. A gateway does not know
/// how much the encoders and shards of other nodes can do at once. 64 keeps some dozens of cores
/// busy, and is low enough that whatever waits there is done within a second or two.
const SEARCHES_AT_ONCE: usize = 64;

/// Starts the gateway of a cluster: connects to the other roles, adds the services that clients
/// call to `server`, and serves them by HTTP as well if that is configured. Roles that offer
/// services to clients start before. Returns the function that stops HTTP, if it is served.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and
/// [`clew_core::ErrorKind::Unavailable`] if the address for HTTP is taken.
pub async fn start(
    node: &Arc<Node>,
    server: &mut NodeServer,
    config: GatewayConfig,
    http: HttpConfig,
    mcp: McpConfig,
    console: ConsoleConfig,
    remote_encoder: RemoteEncoderConfig,
) -> Result<Option<Stop>, Error> {
    config.validate()?;
    let http = HttpListener::bind(http, None).await?;
    if let Some(http) = &http {
        node.may_listen("http.listen", http.address())?;
    }
    let seams = seams(node, remote_encoder).await?;
    let corpora = RemoteCorpora::of(node, config.accept_queue_bytes, Limits::of_stored()).await?;
    let accepting = corpora.gate().clone();
    node.parts().add(move || accepting.node());
    let cache = Some(node.cache().clone());
    let backends = Backends::new(Arc::new(corpora), seams, cache, SEARCHES_AT_ONCE, config);
    let searching = backends.search_queue.clone();
    node.parts().add(move || searching.node());
    let backends = Arc::new(backends);
    let (corpora, ingestion, queries, memories, chats, graphs, access) = services(&backends);
    let service = "clew.cluster.v1.NodeService";
    let nodes = node.pool(None, "nodes", service, NODE_CREDITS).await?;
    server.add(corpora);
    server.add(ingestion);
    server.add(queries);
    server.add(memories);
    server.add(chats);
    server.add(access);
    // A node that is a graph builder itself offers its own service.
    if !server.offers::<GraphBuilderServiceServer<GraphBuilderRpc>>() {
        server.add(graphs);
    }
    server.add(ClusterServiceServer::new(ClusterRpc { node: Arc::clone(node), backends, nodes }));
    let (offered, tls) = (server.services(), server.tls().cloned());
    http.map(|http| http.start(offered, tls, mcp, &console, true)).transpose()
}

/// Returns what a gateway works with: components of other roles in this process, or else on other
/// nodes.
async fn seams(
    node: &Arc<Node>,
    remote_encoder: RemoteEncoderConfig,
) -> Result<GatewaySeams, Error> {
    let encoders = RemoteEncoders::shared(node, remote_encoder).await?;
    let reader = RemoteReader::shared(node).await?;
    Ok(GatewaySeams {
        reasoners: Arc::new(RemoteReasoners::of(node, Arc::clone(&encoders), reader).await?),
        encoders,
        graph_builders: RemoteGraphBuilders::shared(node).await?,
        memory_encoder: RemoteMemoryEncoder::shared(node).await?,
        reranker: Arc::new(RemoteReranker::of(node).await?),
        clock: Arc::new(SystemClock),
    })
}
