//! `clew-retriever`: a node that owns shards of a cluster, in storage that all retrievers share.

use std::process::ExitCode;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::SystemClock;
use clew_node::NodeConfig;
use clew_remote::{RemoteEncoderConfig, RemoteEncoders, RemoteGraphBuilders, RemoteMemoryEncoder};
use clew_retriever::{RetrieverConfig, ShardSeams, StorageConfig};
use serde::{Deserialize, Serialize};

/// Configuration of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    /// Folder or `s3://bucket/prefix` that all retrievers share.
    data_dir: String,
    storage: StorageConfig,
    retriever: RetrieverConfig,
    remote_encoder: RemoteEncoderConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: NodeConfig::default(),
            data_dir: ".clew".to_owned(),
            storage: StorageConfig::default(),
            retriever: RetrieverConfig::default(),
            remote_encoder: RemoteEncoderConfig::default(),
        }
    }
}

fn main() -> ExitCode {
    clew_node::service_main(|config: Config| {
        clew_node::run(config.node, [Role::Retriever].into(), async move |node, mut server| {
            let (storage, data_dir) = (&config.storage, &config.data_dir);
            let tried = clew_retriever::try_out(&node, storage, data_dir).await?;
            let encoders = RemoteEncoders::of(&node, config.remote_encoder).await?;
            let graph_builders = Arc::new(RemoteGraphBuilders::of(&node).await?);
            let memory_encoder = Arc::new(RemoteMemoryEncoder::of(&node).await?);
            let clock = Arc::new(SystemClock);
            let snapshots = config.storage.snapshots(&config.data_dir).await?;
            let seams = ShardSeams { encoders, graph_builders, memory_encoder, clock, snapshots };
            let config = config.retriever;
            let stop = clew_retriever::start(&node, &mut server, tried, seams, config).await?;
            Ok((server, vec![stop]))
        })
    })
}
