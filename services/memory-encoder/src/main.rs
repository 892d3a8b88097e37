//! `clew-memory-encoder`: embeds texts and forms memories for a cluster, on this machine's devices.

use std::path::PathBuf;
use std::process::ExitCode;

use clew_cluster::Role;
use clew_core::Error;
use clew_memory_encoder::{EncoderConfig, EncoderPools, MemoryModelConfig, MemoryPool};
use clew_node::NodeConfig;
use serde::{Deserialize, Serialize};

/// What can be configured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    encoder: EncoderConfig,
    memory_model: MemoryModelConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(async |config: Config| {
        config.encoder.validate()?;
        config.memory_model.validate()?;
        let folder = model_folder(&config.encoder)?;
        // Before it joins, so that nobody asks an encoder that cannot embed yet.
        let pools = EncoderPools::load(folder, &config.encoder).await?;
        let memory = MemoryPool::load(&config.memory_model).await?;
        clew_node::run(config.node, [Role::Encoder].into(), async move |node, mut server| {
            let encoder = &config.encoder;
            let stop = clew_memory_encoder::start(&node, &mut server, pools, memory, encoder);
            Ok((server, vec![stop]))
        })
        .await
    })
}

fn model_folder(config: &EncoderConfig) -> Result<PathBuf, Error> {
    let named = || std::env::var_os("CLEW_MODEL_DIR").map(PathBuf::from);
    config.model.clone().or_else(named).ok_or_else(|| {
        Error::invalid("encoder.model", "expected the folder of a model, here or in CLEW_MODEL_DIR")
    })
}
