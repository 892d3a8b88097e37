//! The gateway as a role of a node.

use std::sync::Arc;

use clew_cluster::Role;
use clew_core::{
    Clock, Encoders, Error, GraphBuilders, Limits, MemoryEncoder, Reasoners, Reranker,
};
use clew_graph_builder::GraphBuilderRpc;
use clew_node::{Node, Server};
use clew_proto::cluster::v1::cluster_service_server::ClusterServiceServer;
use clew_proto::graph_builder::v1::graph_builder_service_server::GraphBuilderServiceServer;

use crate::cluster_service::ClusterRpc;
use crate::remote::RemoteCorpora;
use crate::server::services;
use crate::{AllCorpora, Backends, GatewayConfig};

/// Requests that a gateway has in flight on one retriever at most. Ownership decides where a request
/// goes, so that this is only a bound.
const RETRIEVER_CREDITS: u32 = 4096;
const NODE_CREDITS: u32 = 64;

/// Searches at once, if the configuration leaves it open. How much the encoders and shards of other nodes do at
/// once, nobody tells; it is enough to keep some dozens of cores busy, and few enough that what waits there is
/// done within a second or two.
const SEARCHES_AT_ONCE: usize = 64;

/// What a gateway works with, in this process or elsewhere.
pub struct Seams {
    /// Embed questions and documents.
    pub encoders: Arc<dyn Encoders>,
    /// Judge and compose answers, and walk trees and graphs.
    pub reasoners: Arc<dyn Reasoners>,
    /// Read summaries, entities and relations out of texts.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Forms compressed memories, and drafts from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Reads candidates with the question, if there is one.
    pub reranker: Arc<dyn Reranker>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Starts the gateway of a cluster: adds the services that clients call.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
pub async fn start(
    node: &Arc<Node>,
    server: &mut Server,
    seams: Seams,
    config: GatewayConfig,
) -> Result<(), Error> {
    let Seams { encoders, reasoners, graph_builders, memory_encoder, reranker, clock } = seams;
    config.validate()?;
    let limits = Limits::default();
    let service = "clew.shard.v1.ShardService";
    let retrievers =
        node.pool(Some(Role::Retriever), "retrievers", service, RETRIEVER_CREDITS).await?;
    let corpora = RemoteCorpora::new(retrievers, node.members(), config.accept_queue_bytes, limits);
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
    // A gateway that is a graph builder itself offers its own.
    if !server.offers::<GraphBuilderServiceServer<GraphBuilderRpc>>() {
        server.add(graphs);
    }
    server.add(ClusterServiceServer::new(ClusterRpc { node: Arc::clone(node), backends, nodes }));
    Ok(())
}
