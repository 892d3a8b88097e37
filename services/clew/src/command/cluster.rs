//! Command `clew cluster`.

use anyhow::bail;
use clap::{Args, Subcommand};
use clew_proto::cluster::v1 as wire;
use clew_runtime::tree::RunningPart;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::Output;

/// Arguments of `cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub action: ClusterAction,
}

/// Actions on a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterAction {
    /// Show what runs on each node: supervisors, pools, peers and queues, with restarts.
    Tree,
    /// Show the members, and the shards with their owners.
    Topology,
    /// Make a node hand over its shards and take no new work.
    Drain {
        /// Name of the node.
        node: String,
    },
}

/// Shows or controls a cluster.
pub async fn run(
    global: &GlobalArgs,
    arguments: ClusterArgs,
    output: &Output,
) -> anyhow::Result<()> {
    if global.endpoint.is_none() {
        bail!("expected --endpoint (or CLEW_ENDPOINT) with the address of a gateway");
    }
    let connection = Connection::open(global).await?;
    let client = &connection.client;
    let done = match arguments.action {
        ClusterAction::Tree => {
            let trees = client.cluster_tree().await?;
            output.print(&trees_as_json(&trees), |_| trees_as_text(&trees))
        }
        ClusterAction::Topology => {
            let topology = client.topology().await?;
            output.print(&topology_as_json(&topology), |_| topology_as_text(&topology))
        }
        ClusterAction::Drain { node } => {
            client.drain_node(&node).await?;
            output.print(&json!({ "draining": node }), |_| format!("`{node}` drains"))
        }
    };
    connection.close().await?;
    done
}

fn trees_as_json(trees: &wire::GetTreeResponse) -> Value {
    let silent: Vec<Value> = trees
        .silent
        .iter()
        .map(|silent| json!({ "node": silent.id, "problem": silent.problem }))
        .collect();
    json!({ "nodes": trees.nodes.iter().map(tree_as_json).collect::<Vec<_>>(), "silent": silent })
}

fn tree_as_json(tree: &wire::TreeNode) -> Value {
    json!({
        "name": tree.name,
        "kind": tree.kind,
        "state": tree.state,
        "restarts": tree.restarts,
        "queued": tree.queued,
        "capacity": tree.capacity,
        "children": tree.children.iter().map(tree_as_json).collect::<Vec<_>>(),
    })
}

fn trees_as_text(trees: &wire::GetTreeResponse) -> String {
    let mut text: String =
        trees.nodes.iter().map(|tree| node_of(tree.clone()).to_string()).collect();
    for silent in &trees.silent {
        text.push_str(&format!("{} does not answer: {}\n", silent.id, silent.problem));
    }
    text
}

fn node_of(tree: wire::TreeNode) -> RunningPart {
    RunningPart {
        name: tree.name,
        kind: tree.kind.into(),
        state: tree.state.into(),
        restarts: tree.restarts,
        queued: tree.queued,
        capacity: tree.capacity,
        children: tree.children.into_iter().map(node_of).collect(),
    }
}

fn topology_as_json(topology: &wire::GetTopologyResponse) -> Value {
    let members: Vec<Value> = topology
        .members
        .iter()
        .map(|member| {
            json!({
                "id": member.id,
                "address": member.address,
                "roles": member.roles,
                "draining": member.is_draining,
            })
        })
        .collect();
    let shards: Vec<Value> = topology
        .shards
        .iter()
        .map(|shard| {
            json!({
                "corpus": shard.corpus,
                "shard": shard.shard,
                "owner": shard.owner,
                "placed_on": shard.placed_on,
            })
        })
        .collect();
    json!({ "members": members, "stale": topology.is_stale, "shards": shards })
}

fn topology_as_text(topology: &wire::GetTopologyResponse) -> String {
    let mut text = String::new();
    if topology.is_stale {
        text.push_str("this may be out of date: the coordination service does not answer\n");
    }
    for member in &topology.members {
        let draining = if member.is_draining { ", draining" } else { "" };
        let roles = member.roles.join(", ");
        text.push_str(&format!("{} at {}: {roles}{draining}\n", member.id, member.address));
    }
    for shard in &topology.shards {
        let owner = if shard.owner.is_empty() { "nobody" } else { &shard.owner };
        let moves = match shard.owner == shard.placed_on || shard.placed_on.is_empty() {
            true => String::new(),
            false => format!(", moves to {}", shard.placed_on),
        };
        text.push_str(&format!("{}/{}: {owner}{moves}\n", shard.corpus, shard.shard));
    }
    text
}
