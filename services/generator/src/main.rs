//! `clew-generator`: a node that reads evidence and writes answers.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_generator::GeneratorConfig;
use clew_remote::RemoteEncoderConfig;
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    generator: GeneratorConfig,
    remote_encoder: RemoteEncoderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|node, config: Config| {
        clew_node::run(node, [Role::Generator].into(), async move |node, mut server| {
            let Config { generator, remote_encoder } = config;
            clew_generator::start(&node, &mut server, &generator, remote_encoder).await?;
            Ok((server, Vec::new()))
        })
    })
}
