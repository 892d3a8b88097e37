//! `clew-retriever`: a node that owns shards of a cluster, in storage that all retrievers share.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_remote::RemoteEncoderConfig;
use clew_retriever::{RetrieverConfig, StorageConfig};
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    /// Folder or `s3://bucket/prefix` that all retrievers share.
    data_dir: String,
    storage: StorageConfig,
    retriever: RetrieverConfig,
    remote_encoder: RemoteEncoderConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: ".clew".to_owned(),
            storage: StorageConfig::default(),
            retriever: RetrieverConfig::default(),
            remote_encoder: RemoteEncoderConfig::default(),
        }
    }
}

fn main() -> ExitCode {
    clew_node::service_main(|node, config: Config| {
        clew_node::run(node, [Role::Retriever].into(), async move |node, mut server| {
            let Config { data_dir, storage, retriever, remote_encoder } = config;
            let tried = clew_retriever::try_out(&node, &storage, &data_dir).await?;
            let stop =
                clew_retriever::start(&node, &mut server, tried, retriever, remote_encoder).await?;
            Ok((server, vec![stop]))
        })
    })
}
