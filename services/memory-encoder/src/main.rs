//! `clew-memory-encoder`: embeds texts and forms memories for a cluster, on this machine's devices.

use std::path::PathBuf;
use std::process::ExitCode;

use clew_cluster::Role;
use clew_memory_encoder::{
    EncoderConfig, EncoderPools, MemoryModelConfig, MemoryPool, Offered, OwnReranker,
    RerankerConfig,
};
use clew_node::NodeConfig;
use serde::{Deserialize, Serialize};

/// Configuration of the program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    encoder: EncoderConfig,
    memory_model: MemoryModelConfig,
    reranker: RerankerConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(async |config: Config| {
        config.encoder.validate()?;
        config.memory_model.validate()?;
        // Before the node joins, so that no node asks an encoder that cannot embed yet.
        let pools = EncoderPools::load(model_folder(&config.encoder), &config.encoder).await?;
        let memory = MemoryPool::load(&config.memory_model).await?;
        let reranker = OwnReranker::load(&config.reranker, &config.encoder).await?;
        let offered = Offered { pools, memory, reranker };
        clew_node::run(config.node, [Role::Encoder].into(), async move |node, mut server| {
            let stop = clew_memory_encoder::start(&node, &mut server, offered, &config.encoder);
            Ok((server, vec![stop]))
        })
        .await
    })
}

fn model_folder(config: &EncoderConfig) -> Option<PathBuf> {
    let named = || std::env::var_os("CLEW_MODEL_DIR").map(PathBuf::from);
    config.model.clone().or_else(named)
}
