//! Shared helpers of the tests.

use std::future::Future;
use std::time::{Duration, Instant};

use clew_cluster::{
    Acquired, Cluster, ClusterConfig, Lease, Leases, Member, Members, Membership, NodeId, Role,
    ShardKey, Standing,
};
use clew_core::ShardIndex;

/// Maximum time that anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const MEMBER_TTL: Duration = Duration::from_millis(1800);
pub const LEASE_TTL: Duration = Duration::from_millis(3000);

pub fn config(url: &str) -> ClusterConfig {
    ClusterConfig {
        redis: Some(url.to_owned().into()),
        heartbeat_ms: 100,
        member_ttl_ms: MEMBER_TTL.as_millis().try_into().unwrap(),
        lease_ttl_ms: LEASE_TTL.as_millis().try_into().unwrap(),
        lease_renew_ms: 1000,
        ..ClusterConfig::default()
    }
}

pub fn member(id: &str) -> Member {
    let address = format!("http://{id}.example.org:7000").parse().unwrap();
    Member::starting(node(id), address, [Role::Retriever])
}

pub fn node(id: &str) -> NodeId {
    id.parse().unwrap()
}

pub async fn join(url: &str, id: &str) -> Cluster {
    Cluster::join(&config(url), member(id)).await.unwrap()
}

/// Joins like [`join`], with a Redis of any kind.
pub async fn join_to(redis: &ClusterConfig, id: &str) -> Cluster {
    Cluster::join(redis, member(id)).await.unwrap()
}

pub fn shard(number: u32) -> ShardKey {
    ShardKey { corpus: "notes".parse().unwrap(), shard: ShardIndex(number) }
}

/// Returns the lease, which must be available now.
pub async fn acquire(leases: &Leases, shard: &ShardKey) -> Lease {
    match leases.acquire(shard).await.unwrap() {
        Acquired::Lease(lease) => lease,
        Acquired::HeldBy(holder) => unreachable!("{shard} is held by {holder}"),
    }
}

/// Returns the lease as soon as it is available.
pub async fn acquire_eventually(leases: &Leases, shard: &ShardKey) -> Lease {
    within(async {
        loop {
            if let Ok(Acquired::Lease(lease)) = leases.acquire(shard).await {
                return lease;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// Returns the holder of a lease that must be refused now.
pub async fn refused(leases: &Leases, shard: &ShardKey) -> NodeId {
    match leases.acquire(shard).await.unwrap() {
        Acquired::HeldBy(holder) => holder,
        Acquired::Lease(lease) => unreachable!("{shard} was given as {}", lease.token()),
    }
}

/// Waits until the lease has this standing, both when asked and for its watchers.
pub async fn stands(lease: &Lease, standing: Standing) {
    let mut watched = lease.watch();
    within(watched.wait_for(|now| *now == standing)).await.unwrap();
    assert_eq!(lease.standing(), standing);
}

pub fn soon() -> Instant {
    Instant::now() + PATIENCE
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens at some time")
}

/// Waits until the condition holds.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    within(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

pub fn names(members: &Members) -> Vec<&str> {
    members.as_slice().iter().map(|member| member.id.as_str()).collect()
}

/// Waits for a view of exactly these members that is not stale. Staleness is computed on request
/// and not every change of it is announced, so this polls.
pub async fn sees(membership: &Membership, expected: &[&str]) {
    let members = membership.members();
    within(async {
        loop {
            let is_seen = {
                let now = members.borrow();
                names(&now) == expected && !now.is_stale()
            };
            if is_seen {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
