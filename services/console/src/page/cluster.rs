//! The cluster, for operators: members and their shards, what runs on each, and draining.

use std::collections::BTreeMap;

use clew_proto::cluster::v1::{GetTopologyResponse, Member, TreeNode};
use maud::{Markup, html};

use super::Shown;
use crate::fields::Posted;
use crate::protected::see_other;
use crate::shell::{self, Main, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, counted};
use crate::visitor::Visitor;

/// Deepest level of a tree that is shown. Trees of nodes are a handful of levels.
const MAX_DEPTH: usize = 12;

pub(crate) async fn show(visitor: Visitor) -> Shown {
    let topology = visitor.client.topology().await?;
    let trees = visitor.client.cluster_tree().await?;
    let draining = visitor.query.get("drain");
    let asked = topology.members.iter().find(|member| member.id == draining);
    let content = html! {
        h1 { "Cluster" }
        @if topology.is_stale {
            p class="problem" role="alert" {
                "The coordination service does not answer, so this list of members may be old."
            }
        }
        @if let Some(member) = asked { (confirm(&visitor, member)) }
        h2 { "Members" }
        (members(&visitor, &topology))
        @if !topology.shards.is_empty() {
            h2 { "Shards" }
            (shards(&topology))
        }
        h2 { "What runs" }
        @for silent in &trees.silent {
            p class="problem" { bdi { (silent.id) } " did not answer: " (silent.problem) }
        }
        ul class="tree" { @for node in &trees.nodes { (part(node, 0)) } }
    };
    Ok(shell::page(&visitor, Where::Main(Main::Cluster), "Cluster", content))
}

/// Tells the node of the form to hand over its work.
pub(crate) async fn drain(visitor: Visitor, Posted(fields): Posted) -> Shown {
    visitor.client.drain_node(fields.raw("node")).await?;
    Ok(see_other(&visitor.at("/cluster")))
}

fn confirm(visitor: &Visitor, member: &Member) -> Markup {
    html! {
        section class="needs" aria-labelledby="drain" {
            h2 id="drain" { "Drain " bdi { (member.id) } "?" }
            p { "It hands over its shards and takes no new work. It does so until it is started again." }
            form class="line" method="post" action=(visitor.at("/cluster")) {
                input type="hidden" name="node" value=(member.id);
                button class="danger" { "Drain it" }
                a href=(visitor.at("/cluster")) { "Leave it" }
            }
        }
    }
}

fn members(visitor: &Visitor, topology: &GetTopologyResponse) -> Markup {
    let mut columns =
        vec![Words("Member"), Words("State"), Words("Roles"), Words("Address"), Number("Shards")];
    if visitor.may_administer() {
        columns.push(Words("Drain"));
    }
    let rows = html! {
        @for member in &topology.members {
            @let owned = topology.shards.iter().filter(|shard| shard.owner == member.id).count();
            tr {
                th scope="row" { bdi { (member.id) } }
                td {
                    @if member.is_draining { span class="state busy" { "draining" } }
                    @else { span class="state good" { "serving" } }
                }
                td { (member.roles.join(", ")) }
                td { code { (member.address) } }
                td class="number" { (count(owned as u64)) }
                @if visitor.may_administer() {
                    td {
                        @if !member.is_draining {
                            form method="get" action=(visitor.at("/cluster")) {
                                input type="hidden" name="drain" value=(member.id);
                                button aria-label=(format!("Drain {}", member.id)) { "Drain…" }
                            }
                        }
                    }
                }
            }
        }
    };
    table("Members", &columns, &rows)
}

fn shards(topology: &GetTopologyResponse) -> Markup {
    let mut corpora: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for shard in &topology.shards {
        corpora.entry(&shard.corpus).or_default().push(shard);
    }
    let columns = [Words("Corpus"), Number("Shard"), Words("Owner"), Words("State")];
    let rows = html! {
        @for (corpus, shards) in &corpora {
            @for shard in shards {
                tr {
                    th scope="row" { bdi { (corpus) } }
                    td class="number" { (shard.shard) }
                    td { @if shard.owner.is_empty() { "–" } @else { bdi { (shard.owner) } } }
                    td {
                        @if shard.owner.is_empty() {
                            span class="state bad" { "nobody has it" }
                        } @else if !shard.placed_on.is_empty() && shard.placed_on != shard.owner {
                            span class="state busy" { "moving" } " to " bdi { (shard.placed_on) }
                        } @else {
                            span class="state good" { "held" }
                        }
                    }
                }
            }
        }
    };
    table("Shards", &columns, &rows)
}

/// Returns a part of a node with the parts that belong to it.
fn part(node: &TreeNode, depth: usize) -> Markup {
    html! {
        li {
            bdi { (node.name) } " "
            span class="quiet" { (node.kind) ", " (node.state) }
            @if node.restarts > 0 {
                " " span class="state bad" { (counted(node.restarts, "restart")) }
            }
            @if node.capacity > 0 {
                " " meter min="0" max=(node.capacity) value=(node.queued)
                    aria-label=(format!("Load of {}", node.name)) {}
                " " span class="quiet" { (count(node.queued)) " of " (count(node.capacity)) }
            }
            @if !node.children.is_empty() && depth < MAX_DEPTH {
                ul { @for child in &node.children { (part(child, depth + 1)) } }
            }
        }
    }
}
