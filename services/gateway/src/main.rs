//! `clew-gateway`: the front node of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::SystemClock;
use clew_gateway::{GatewayConfig, Seams};
use clew_node::NodeConfig;
use clew_remote::{
    RemoteEncoderConfig, RemoteEncoders, RemoteGraphBuilders, RemoteMemoryEncoder, RemoteReasoners,
    RemoteReranker,
};
use serde::{Deserialize, Serialize};

/// Configuration of the process.
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
            let encoders = RemoteEncoders::of(&node, config.remote_encoder).await?;
            let reasoners = RemoteReasoners::of(&node, Arc::clone(&encoders) as _).await?;
            let graph_builders = RemoteGraphBuilders::of(&node).await?;
            let memory_encoder = RemoteMemoryEncoder::of(&node).await?;
            let reranker = RemoteReranker::of(&node).await?;
            let clock = Arc::new(SystemClock);
            let seams = Seams {
                encoders,
                reasoners: Arc::new(reasoners),
                graph_builders: Arc::new(graph_builders),
                memory_encoder: Arc::new(memory_encoder),
                reranker: Arc::new(reranker),
                clock,
            };
            clew_gateway::start(&node, &mut server, seams, config.gateway).await?;
            Ok((server, Vec::new()))
        })
    })
}
