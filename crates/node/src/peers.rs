//! Pools of peers that follow the list of members.

use std::sync::Arc;

use clew_cluster::{Member, Members, Role};
use clew_core::Error;
use clew_runtime::peer::PeerState;
use clew_runtime::pool::Pool;
use clew_telemetry::{Severity, Trouble};
use tokio::sync::watch;

/// Updates `pool` to the members that have `role`, or to all members, until the list of members
/// ends.
pub(crate) async fn follow(
    pool: Pool,
    role: Option<Role>,
    mut members: watch::Receiver<Arc<Members>>,
) {
    loop {
        let now = Arc::clone(&members.borrow_and_update());
        if let Err(error) = update(&pool, role, &now).await {
            tracing::warn!(error = error.chain(), "the list of peers was not taken over");
        }
        if members.changed().await.is_err() {
            return;
        }
    }
}

/// Returns names and addresses of the members that have `role`, or of all members.
pub fn addresses(role: Option<Role>, members: &Members) -> Vec<(String, String)> {
    let has_role = |member: &&Member| role.is_none_or(|role| member.roles.contains(&role));
    let meant = members.as_slice().iter().filter(has_role);
    meant.map(|member| (member.id.to_string(), member.address.to_string())).collect()
}

/// Sets the peers of the pool to the members that have `role`, or to all members.
pub(crate) async fn update(
    pool: &Pool,
    role: Option<Role>,
    members: &Members,
) -> Result<(), Error> {
    pool.update(addresses(role, members)).await
}

/// Returns the problems of the peers in a pool for `role`.
pub(crate) fn troubles(pool: &Pool, role: Option<Role>) -> Vec<Trouble> {
    let members = pool.members();
    let lost = members.iter().filter_map(|peer| {
        let problem = match peer.state() {
            PeerState::Serving | PeerState::Draining => return None,
            PeerState::Connecting => "it has not answered yet",
            PeerState::Dead => "the connection is lost",
        };
        let (part, problem) = (format!("peer {}", peer.name()), problem.to_owned());
        Some(Trouble { part, problem, severity: Severity::Degraded })
    });
    let mut troubles: Vec<Trouble> = lost.collect();
    let is_served = members.iter().any(|peer| peer.state() == PeerState::Serving);
    if let (Some(role), false) = (role, is_served) {
        // Without encoders or retrievers no search works. Without the other roles, only some
        // questions fail.
        let severity = match role {
            Role::Encoder | Role::Retriever => Severity::NotReady,
            Role::Gateway | Role::Generator | Role::GraphBuilder => Severity::Degraded,
        };
        let problem = "none of its members serves".to_owned();
        troubles.push(Trouble { part: format!("role {}", role.as_str()), problem, severity });
    }
    troubles
}
