//! `clew-gateway`: the front node of a cluster.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_gateway::GatewayConfig;
use clew_remote::RemoteEncoderConfig;
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    gateway: GatewayConfig,
    remote_encoder: RemoteEncoderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|node, config: Config| {
        clew_node::run(node, [Role::Gateway].into(), async move |node, mut server| {
            let Config { gateway, remote_encoder } = config;
            clew_gateway::start(&node, &mut server, gateway, remote_encoder).await?;
            Ok((server, Vec::new()))
        })
    })
}
