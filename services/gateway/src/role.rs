//! The gateway role of a node.

use std::sync::Arc;

use clew_core::{
    Clock, Encoders, Error, GraphBuilders, Limits, MemoryEncoder, Reasoners, Reranker,
};
use clew_node::{Node, Server};
use clew_proto::cluster::v1::cluster_service_server::ClusterServiceServer;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderServiceServer;
use clew_remote::{GraphBuilderRpc, RemoteCorpora};

use crate::cluster_service::ClusterRpc;
use crate::server::services;
use crate::{AllCorpora, Backends, GatewayConfig};

/// Maximum number of requests in flight on one node that is asked about itself.
const NODE_CREDITS: u32 = 64;

/// Number of searches that run at once if the configuration leaves it open. A gateway does not know
/// how much the encoders and shards of other nodes can do at once. 64 keeps some dozens of cores
/// busy, and is low enough that whatever waits there is done within a second or two.
const SEARCHES_AT_ONCE: usize = 64;

/// Components that a gateway works with, in this process or on other nodes.
pub struct Seams {
    /// Encoders for questions and documents.
    pub encoders: Arc<dyn Encoders>,
    /// Reasoners and guides: they judge evidence, write answers, and navigate trees and graphs.
    pub reasoners: Arc<dyn Reasoners>,
    /// Graph builders: they extract summaries, entities and relations from texts.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Model that forms compressed memories and drafts clues from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Reranker, which reports no model if none is configured.
    pub reranker: Arc<dyn Reranker>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Starts the gateway of a cluster: adds the services that clients call.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
pub async fn start(
    node: &Arc<Node>,
    server: &mut Server,
    seams: Seams,
    config: GatewayConfig,
) -> Result<(), Error> {
    let Seams { encoders, reasoners, graph_builders, memory_encoder, reranker, clock } = seams;
    config.validate()?;
    let limits = Limits::default();
    let corpora = RemoteCorpora::of(node, config.accept_queue_bytes, limits).await?;
    let accepting = corpora.gate().clone();
    node.parts().add(move || accepting.node());
    let corpora = AllCorpora::new(Arc::new(corpora));
    let search_turns = config.search_turns(SEARCHES_AT_ONCE);
    let searching = search_turns.clone();
    node.parts().add(move || searching.node());
    let backends = Arc::new(Backends {
        corpora,
        encoders,
        questions: Some(node.cache().clone()),
        reasoners,
        graph_builders,
        memory_encoder,
        reranker,
        clock,
        search_turns,
        limits,
        moderation: config.moderation(),
        config,
    });
    let (corpora, ingestion, queries, memories, chats, graphs) = services(&backends);
    let service = "clew.cluster.v1.NodeService";
    let nodes = node.pool(None, "nodes", service, NODE_CREDITS).await?;
    server.add(corpora);
    server.add(ingestion);
    server.add(queries);
    server.add(memories);
    server.add(chats);
    // A node that is a graph builder itself offers its own service.
    if !server.offers::<GraphBuilderServiceServer<GraphBuilderRpc>>() {
        server.add(graphs);
    }
    server.add(ClusterServiceServer::new(ClusterRpc { node: Arc::clone(node), backends, nodes }));
    Ok(())
}
