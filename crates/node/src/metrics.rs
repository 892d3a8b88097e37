//! Metrics of the nodes of this process, of which there is usually one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use clew_runtime::tree::RunningPart;
use clew_telemetry::WeakRegistry;
use clew_telemetry::metrics::{gauge, label, observed_counter};

use crate::Node;

static NODES: WeakRegistry<Node> = WeakRegistry::new();

/// Includes `node` in the metrics for as long as it exists.
pub(crate) fn observe(node: &Arc<Node>) {
    static ONCE: Once = Once::new();
    NODES.add(node);
    ONCE.call_once(|| {
        let description = "Members of the cluster as this node sees them, by role and state.";
        gauge("clew_cluster_members", "", description, |tell| {
            for ((role, state), count) in members() {
                tell(count as f64, &[label("role", role), label("state", state)]);
            }
        });
        let description = "Other nodes that this one has connections to, by what they are for.";
        gauge("clew_peers", "", description, |tell| {
            for ((pool, state), count) in peers() {
                tell(count as f64, &[label("pool", pool), label("state", state)]);
            }
        });
        let description = "1 if Redis answers, 0 if the list of members is out of date.";
        gauge("clew_cluster_members_current", "", description, |tell| {
            for node in NODES.all() {
                tell(f64::from(!node.members().borrow().is_stale()), &[]);
            }
        });
        let description = "How far the clock of Redis is ahead of this machine's at least.";
        gauge("clew_redis_clock_ahead", "s", description, |tell| {
            for health in NODES.all().iter().filter_map(|node| node.redis()) {
                tell(health.clock.seconds(), &[]);
            }
        });
        let description = "How often supervisors made what they look after anew.";
        observed_counter("clew_restarts", "", description, |tell| {
            let restarts: u64 = NODES.all().iter().map(|node| restarts(&node.tree())).sum();
            tell(restarts as f64, &[]);
        });
    });
}

fn members() -> BTreeMap<(&'static str, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for node in NODES.all() {
        for member in node.members().borrow().as_slice() {
            for role in &member.roles {
                let state = if member.serves(*role) { "serving" } else { "not_serving" };
                *counts.entry((role.as_str(), state)).or_default() += 1;
            }
        }
    }
    counts
}

/// Returns the number of peers by pool name and peer state. The usual states are included even if
/// their number is zero.
fn peers() -> BTreeMap<(String, Cow<'static, str>), usize> {
    let mut counts = BTreeMap::new();
    for node in NODES.all() {
        for pool in node.tree().children.iter().filter(|part| part.kind == "pool") {
            for state in ["connecting", "serving", "draining", "dead"] {
                counts.entry((pool.name.clone(), state.into())).or_default();
            }
            for peer in &pool.children {
                *counts.entry((pool.name.clone(), peer.state.clone())).or_default() += 1;
            }
        }
    }
    counts
}

fn restarts(tree: &RunningPart) -> u64 {
    tree.restarts + tree.children.iter().map(restarts).sum::<u64>()
}
