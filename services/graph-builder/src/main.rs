//! `clew-graph-builder`: a node that extracts summaries, entities and relations from texts.

use std::process::ExitCode;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::Generator;
use clew_graph_builder::{GraphBuilderConfig, Reader};
use clew_node::NodeConfig;
use clew_remote::{RemoteGenerator, SharedReplies};
use serde::{Deserialize, Serialize};

/// Configuration of the process.
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
            let model: Option<Arc<dyn Generator>> = match config.graph_builder.reader {
                Reader::Rules => None,
                Reader::Model => Some(Arc::new(RemoteGenerator::of(&node).await?)),
            };
            let replies = Some(SharedReplies::of(&node));
            let builder = clew_graph_builder::builder(&config.graph_builder, model, replies)?;
            clew_graph_builder::start(&node, &mut server, builder, &config.graph_builder)?;
            Ok((server, Vec::new()))
        })
    })
}
