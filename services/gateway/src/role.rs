//! The gateway as a role of a node.

use std::sync::Arc;

use clew_cluster::Role;
use clew_core::{Clock, Encoder, Error, Limits, Reasoner};
use clew_node::{Node, Server};
use clew_proto::cluster::v1::cluster_service_server::ClusterServiceServer;

use crate::cached_questions::CachedQuestions;
use crate::cluster_service::ClusterRpc;
use crate::remote::RemoteCorpora;
use crate::server::services;
use crate::{Backends, GatewayConfig};

/// Requests that a gateway has in flight on one retriever at most. Ownership decides where a request
/// goes, so that this is only a bound.
const RETRIEVER_CREDITS: u32 = 4096;
const NODE_CREDITS: u32 = 64;

/// Starts the gateway of a cluster: adds the services that clients call.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
pub async fn start(
    node: &Arc<Node>,
    server: &mut Server,
    encoder: Arc<dyn Encoder>,
    reasoner: Arc<dyn Reasoner>,
    clock: Arc<dyn Clock>,
    config: GatewayConfig,
) -> Result<(), Error> {
    config.validate()?;
    let encoder = Arc::new(CachedQuestions::new(encoder, node.cache().clone()));
    let limits = Limits::default();
    let service = "clew.shard.v1.ShardService";
    let retrievers =
        node.pool(Some(Role::Retriever), "retrievers", service, RETRIEVER_CREDITS).await?;
    let corpora = RemoteCorpora::new(retrievers, node.members(), config.accept_queue_bytes, limits);
    let accepting = corpora.gate().clone();
    node.parts().add(move || accepting.node());
    let corpora = Arc::new(corpora);
    let backends = Arc::new(Backends { corpora, encoder, reasoner, clock, limits, config });
    let (corpora, ingestion, queries) = services(&backends);
    let service = "clew.cluster.v1.NodeService";
    let nodes = node.pool(None, "nodes", service, NODE_CREDITS).await?;
    server.add(corpora);
    server.add(ingestion);
    server.add(queries);
    server.add(ClusterServiceServer::new(ClusterRpc { node: Arc::clone(node), backends, nodes }));
    Ok(())
}
