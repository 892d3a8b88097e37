//! `clew-graph-builder`: a node that extracts summaries, entities and relations from texts.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_graph_builder::GraphBuilderConfig;
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    graph_builder: GraphBuilderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|node, config: Config| {
        clew_node::run(node, [Role::GraphBuilder].into(), async move |node, mut server| {
            clew_graph_builder::start(&node, &mut server, &config.graph_builder).await?;
            Ok((server, Vec::new()))
        })
    })
}
