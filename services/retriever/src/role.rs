//! The retriever role of a node.

use std::sync::Arc;

use clew_core::{Clock, Encoders, Error, GraphBuilders, MemoryEncoder};
use clew_index::Snapshots;
use clew_node::{Node, Server, Stop};

use crate::metrics::troubles;
use crate::shared::{SharedRetriever, Sharing};
use crate::{RetrieverConfig, StorageConfig, Tried};

/// Components that shards work with, in this process or on other nodes.
#[derive(Clone)]
pub struct Seams {
    /// Encoders for documents.
    pub encoders: Arc<dyn Encoders>,
    /// Graph builders for trees and graphs.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Model that forms compressed memories.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Place of snapshots, if one is configured.
    pub snapshots: Option<Snapshots>,
}

impl Seams {
    /// Returns the place of snapshots.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] if no place is configured.
    pub(crate) fn snapshots(&self) -> Result<&Snapshots, Error> {
        self.snapshots.as_ref().ok_or_else(|| {
            Error::new(
                clew_core::ErrorKind::WrongState,
                "NO_SNAPSHOT_PLACE",
                "no place for snapshots is configured; set `storage.snapshots` of the retrievers to a \
                 folder or s3://bucket/prefix outside the data directory (--snapshots, where the data \
                 directory is opened by the command itself)",
            )
        })
    }
}

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
    seams: Seams,
    config: RetrieverConfig,
) -> Result<Stop, Error> {
    let sharing = Sharing {
        tried,
        seams,
        me: node.me().clone(),
        members: node.members(),
        leases: node.leases().clone(),
        config,
    };
    let retriever = SharedRetriever::start(sharing).await?;
    let (shards, catalogue) = retriever.services();
    server.add(shards);
    server.add(catalogue);
    let shown = retriever.clone();
    node.parts().add(move || shown.node());
    node.health().watch(troubles);
    Ok(Box::new(move |deadline| Box::pin(async move { retriever.stop(deadline).await })))
}
