//! `clew-gateway`: the front of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::SystemClock;
use clew_gateway::{GatewayConfig, Seams};
use clew_generator::{RemoteGuide, RemoteReasoner};
use clew_graph_builder::RemoteGraphBuilder;
use clew_node::NodeConfig;
use clew_remote_encoder::RemoteEncoderConfig;
use serde::{Deserialize, Serialize};

/// What can be configured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    gateway: GatewayConfig,
    remote_encoder: RemoteEncoderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|config: Config| {
        clew_node::run(config.node, [Role::Gateway].into(), async move |node, mut server| {
            let encoders = node.encoders(config.remote_encoder).await?;
            let reasoner = Arc::new(RemoteReasoner::of(&node).await?);
            let guide = Arc::new(RemoteGuide::of(&node, Arc::clone(&encoders) as _).await?);
            let graph_builder = Arc::new(RemoteGraphBuilder::of(&node).await?);
            let memory_encoder = node.memory_encoder().await?;
            let clock = Arc::new(SystemClock);
            let seams = Seams { encoders, reasoner, guide, graph_builder, memory_encoder, clock };
            clew_gateway::start(&node, &mut server, seams, config.gateway).await?;
            Ok((server, Vec::new()))
        })
    })
}
