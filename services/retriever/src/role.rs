//! The retriever role of a node.

use std::sync::Arc;

use clew_core::{Error, Limits};
use clew_node::{Node, Server, Stop};
use clew_proto::shard::v1::catalogue_service_server::CatalogueServiceServer;
use clew_proto::shard::v1::shard_service_server::ShardServiceServer;

use crate::cluster::{ClusterOptions, ClusterRetriever};
use crate::grpc::catalogue_service::CatalogueRpc;
use crate::grpc::shard_service::ShardRpc;
use crate::seams::ShardSeams;
use crate::shard::gauges::troubles;
use crate::{RetrieverConfig, StorageConfig, Tried};

/// Tests the storage that all retrievers of the cluster share, and the clock of the cluster's
/// Redis.
///
/// # Errors
/// Returns the errors of [`StorageConfig::try_out`] and of [`StorageConfig::check_redis`].
pub async fn try_out(node: &Node, storage: &StorageConfig, data_dir: &str) -> Result<Tried, Error> {
    let tried = storage.try_out(data_dir).await?;
    node.redis().map_or(Ok(()), |health| storage.check_redis(&health))?;
    Ok(tried)
}

/// Starts the retriever of a cluster over the storage that all retrievers share: adds its services
/// and begins to take the shards that belong to this node.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and storage
/// errors.
pub async fn start(
    node: &Arc<Node>,
    server: &mut Server,
    tried: Tried,
    seams: ShardSeams,
    config: RetrieverConfig,
) -> Result<Stop, Error> {
    let sharing = ClusterOptions {
        tried,
        seams,
        me: node.me().clone(),
        members: node.members(),
        leases: node.leases().clone(),
        config,
    };
    let retriever = ClusterRetriever::start(sharing).await?;
    let shards = ShardRpc { shards: retriever.shards(), limits: Limits::default() };
    server.add(ShardServiceServer::new(shards));
    server.add(CatalogueServiceServer::new(CatalogueRpc { retriever: retriever.shards() }));
    let shown = retriever.clone();
    node.parts().add(move || shown.node());
    node.health().watch(troubles);
    Ok(Box::new(move |deadline| Box::pin(async move { retriever.stop(deadline).await })))
}
