//! Node of a cluster, with any set of roles.

use std::collections::BTreeSet;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::Error;
use clew_node::{Node, NodeServer, Stop};

use crate::config::{ClewConfig, RolesConfig};
use crate::node::load_models;

/// Runs a node with `roles` until it is told to end.
///
/// # Errors
/// Returns the errors of the configuration and of starting.
pub async fn run(config: ClewConfig, roles: BTreeSet<Role>) -> Result<(), Error> {
    let ClewConfig { node, roles: config } = config;
    if !node.cluster.is_cluster() {
        return Err(Error::invalid(
            "cluster",
            "expected `cluster.redis`, `cluster.members` or `cluster.services` for a node with --roles; without \
             --roles all roles run in one process",
        ));
    }
    let started = roles.clone();
    clew_node::run(node, roles, async move |node, server| {
        Box::pin(start(config, &started, node, server)).await
    })
    .await
}

/// Starts the roles, each one after those whose seams it uses (see [`clew_node::SharedSeams`]).
async fn start(
    config: RolesConfig,
    roles: &BTreeSet<Role>,
    node: Arc<Node>,
    mut server: NodeServer,
) -> Result<(NodeServer, Vec<Stop>), Error> {
    let mut stops = Vec::new();
    let mut stop_encoder = None;
    if roles.contains(&Role::Encoder) {
        let models = load_models(&config).await?;
        let stop = clew_memory_encoder::start(&node, &mut server, models, &config.encoder);
        stop_encoder = Some(stop);
    }
    // After the models, so that no data directory is created for a node that cannot start.
    let tried = match roles.contains(&Role::Retriever) {
        true => {
            let data_dir = config.data_dir.to_string_lossy();
            Some(clew_retriever::try_out(&node, &config.storage, &data_dir).await?)
        }
        false => None,
    };
    let remote_encoder = config.remote_encoder;
    if roles.contains(&Role::Generator) {
        let remote_encoder = remote_encoder.clone();
        clew_generator::start(&node, &mut server, &config.generator, remote_encoder).await?;
    }
    if roles.contains(&Role::GraphBuilder) {
        clew_graph_builder::start(&node, &mut server, &config.graph_builder).await?;
    }
    if let Some(tried) = tried {
        let (config, remote_encoder) = (config.retriever, remote_encoder.clone());
        let stop = clew_retriever::start(&node, &mut server, tried, config, remote_encoder);
        stops.push(stop.await?);
    }
    if roles.contains(&Role::Gateway) {
        let RolesConfig { gateway, http, mcp, console, .. } = config;
        let stop =
            clew_gateway::start(&node, &mut server, gateway, http, mcp, console, remote_encoder);
        stops.extend(stop.await?);
    }
    // Last, because the other roles embed until they have ended.
    stops.extend(stop_encoder);
    Ok((server, stops))
}
