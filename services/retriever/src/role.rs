//! The retriever role of a node.

use std::sync::Arc;

use clew_core::{Error, Limits, SystemClock};
use clew_node::{Node, NodeServer, Stop};
use clew_proto::shard::v1::catalogue_service_server::CatalogueServiceServer;
use clew_proto::shard::v1::shard_service_server::ShardServiceServer;
use clew_remote::{RemoteEncoderConfig, RemoteEncoders, RemoteGraphBuilders, RemoteMemoryEncoder};

use crate::cluster::{ClusterOptions, ClusterRetriever};
use crate::grpc::catalogue_service::CatalogueRpc;
use crate::grpc::shard_service::ShardRpc;
use crate::seams::ShardSeams;
use crate::shard::metrics::troubles;
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
/// to `server` and begins to take the shards that belong to this node. Returns the function that
/// hands them over.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and storage
/// errors.
pub async fn start(
    node: &Arc<Node>,
    server: &mut NodeServer,
    tried: Tried,
    config: RetrieverConfig,
    remote_encoder: RemoteEncoderConfig,
) -> Result<Stop, Error> {
    let options = ClusterOptions {
        seams: seams(node, &tried, remote_encoder).await?,
        tried,
        me: node.me().clone(),
        members: node.members(),
        leases: node.leases().clone(),
        config,
    };
    let retriever = ClusterRetriever::start(options).await?;
    let shards = ShardRpc { shards: retriever.shards(), limits: Limits::of_stored() };
    server.add(ShardServiceServer::new(shards));
    server.add(CatalogueServiceServer::new(CatalogueRpc { retriever: retriever.shards() }));
    let shown = retriever.clone();
    node.parts().add(move || shown.node());
    node.health().watch(troubles);
    Ok(Box::new(move |deadline| Box::pin(async move { retriever.stop(deadline).await })))
}

/// Returns what shards work with: components of other roles in this process, or else on other
/// nodes.
async fn seams(
    node: &Arc<Node>,
    tried: &Tried,
    remote_encoder: RemoteEncoderConfig,
) -> Result<ShardSeams, Error> {
    Ok(ShardSeams {
        encoders: RemoteEncoders::shared(node, remote_encoder).await?,
        graph_builders: RemoteGraphBuilders::shared(node).await?,
        memory_encoder: RemoteMemoryEncoder::shared(node).await?,
        clock: Arc::new(SystemClock),
        snapshots: tried.snapshots(),
    })
}
