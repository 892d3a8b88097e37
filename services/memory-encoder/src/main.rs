//! `clew-memory-encoder`: embeds texts and forms memories for a cluster, on this machine's devices.

use std::path::PathBuf;
use std::process::ExitCode;

use clew_cluster::Role;
use clew_memory_encoder::{EncoderConfig, MemoryModelConfig, Models, ReaderConfig, RerankerConfig};
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    encoder: EncoderConfig,
    memory_model: MemoryModelConfig,
    reranker: RerankerConfig,
    reader: ReaderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(async |node, config: Config| {
        let Config { encoder, memory_model, reranker, reader } = config;
        // Before the node joins, so that no node asks an encoder that cannot embed yet.
        let folder = folder(&encoder);
        let models = Models::load(folder, &encoder, &memory_model, &reranker, &reader).await?;
        clew_node::run(node, [Role::Encoder].into(), async move |node, mut server| {
            let stop = clew_memory_encoder::start(&node, &mut server, models, &encoder);
            Ok((server, vec![stop]))
        })
        .await
    })
}

fn folder(config: &EncoderConfig) -> Option<PathBuf> {
    let named = || std::env::var_os("CLEW_MODEL_DIR").map(PathBuf::from);
    config.model.clone().or_else(named)
}
