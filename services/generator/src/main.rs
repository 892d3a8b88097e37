//! `clew-generator`: a node that reads evidence and writes answers.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_generator::{GeneratorConfig, Judgement};
use clew_node::NodeConfig;
use clew_remote::{RemoteEncoderConfig, RemoteEncoders, SharedReplies};
use serde::{Deserialize, Serialize};

/// Configuration of the process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    generator: GeneratorConfig,
    remote_encoder: RemoteEncoderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|config: Config| {
        clew_node::run(config.node, [Role::Generator].into(), async move |node, mut server| {
            let encoders = RemoteEncoders::of(&node, config.remote_encoder).await?;
            let replies = Some(SharedReplies::of(&node));
            let judgement = Judgement::load(&config.generator, encoders, replies).await?;
            clew_generator::start(&node, &mut server, judgement, config.generator)?;
            Ok((server, Vec::new()))
        })
    })
}
