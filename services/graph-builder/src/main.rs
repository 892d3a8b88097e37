//! `clew-graph-builder`: reads summaries, entities and relations out of texts for a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use clew_cluster::Role;
use clew_graph_builder::{Extractive, GraphBuilderConfig};
use clew_node::NodeConfig;
use serde::{Deserialize, Serialize};

/// What can be configured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(flatten)]
    node: NodeConfig,
    graph_builder: GraphBuilderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|config: Config| {
        let roles = [Role::GraphBuilder].into();
        clew_node::run(config.node, roles, async move |node, mut server| {
            let builder = Arc::new(Extractive::new(&config.graph_builder));
            clew_graph_builder::start(&node, &mut server, builder, &config.graph_builder)?;
            Ok((server, Vec::new()))
        })
    })
}
