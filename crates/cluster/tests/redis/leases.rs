use std::time::{Duration, Instant};

use clew_cluster::{Acquired, Cluster, ClusterConfig, Standing};
use clew_core::ErrorKind;
use clew_testkit::RedisServer;

use super::fixture::{
    LEASE_TTL, acquire, acquire_eventually, join, join_to, member, node, refused, shard, soon,
    stands, within,
};

/// Runs for every kind of Redis.
pub async fn a_shard_is_given_once_and_again_when_it_is_given_back(redis: &ClusterConfig) {
    let a = join_to(redis, "a").await.leases;
    let b = join_to(redis, "b").await.leases;
    let lease = acquire(&a, &shard(0)).await;
    assert_eq!(lease.standing(), Standing::Held);
    assert_eq!(lease.shard(), &shard(0));
    assert!(lease.token().starts_with("a "), "{}", lease.token());
    assert_eq!(refused(&b, &shard(0)).await, node("a"));
    assert_eq!(refused(&a, &shard(0)).await, node("a"), "it is given once, also to its holder");

    let shards = [shard(0), shard(1), shard(2)];
    let _one = acquire(&b, &shard(1)).await;
    let owners = a.owners(&shards).await.unwrap();
    assert_eq!(owners, [(shard(0), node("a")), (shard(1), node("b"))].into());

    let watched = lease.watch();
    lease.give_back(soon()).await.unwrap();
    assert_eq!(*watched.borrow(), Standing::Lost);
    let lease = acquire(&b, &shard(0)).await;
    // Dropping also gives it back.
    drop(lease);
    let _lease = acquire_eventually(&a, &shard(0)).await;
}

/// Runs for every kind of Redis.
pub async fn renewed_leases_outlast_their_time_to_live_and_others_end(redis: &ClusterConfig) {
    let a = join_to(redis, "a").await.leases;
    let b = join_to(redis, "b").await.leases;
    let mut held = Vec::new();
    for number in 0..300 {
        held.push(acquire(&a, &shard(number)).await);
    }
    tokio::time::sleep(LEASE_TTL + LEASE_TTL / 2).await;
    for lease in &held {
        assert_eq!(refused(&b, lease.shard()).await, node("a"));
        assert_eq!(lease.lapse(), None);
        stands(lease, Standing::Held).await;
    }
    // A crash: no node renews the leases or gives them back.
    drop(a);
    held.into_iter().for_each(std::mem::forget);
    let _taken = acquire_eventually(&b, &shard(299)).await;
}

/// Runs for every kind of Redis.
pub async fn a_node_that_restarts_has_its_leases_at_once(redis: &ClusterConfig) {
    let (earlier, mut later) = (member("a"), member("a"));
    later.incarnation = earlier.incarnation + 1;
    let earlier = Cluster::join(redis, earlier).await.unwrap().leases;
    let lost = acquire(&earlier, &shard(0)).await;
    let later = Cluster::join(redis, later).await.unwrap().leases;
    let lease = acquire(&later, &shard(0)).await;
    assert_ne!(lease.token(), lost.token());
    // The earlier process still runs: two processes with the same name.
    stands(&lost, Standing::Lost).await;
    assert_eq!(refused(&earlier, &shard(0)).await, node("a"));
    drop(lost);
    assert_eq!(refused(&earlier, &shard(0)).await, node("a"));
    assert_eq!(lease.standing(), Standing::Held);
}

#[tokio::test]
async fn while_redis_is_away_a_lease_is_unconfirmed_and_none_is_given() {
    let mut redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.leases;
    let b = join(&redis.url(), "b").await.leases;
    let lease = acquire(&a, &shard(0)).await;
    redis.kill().unwrap();
    stands(&lease, Standing::Unconfirmed).await;
    let asked = Instant::now();
    let error = b.acquire(&shard(0)).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "REDIS_UNAVAILABLE"));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(b.owners(&[shard(0)]).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(lease.lapse(), None, "as far as is known");

    redis.restart_empty().unwrap();
    // The holder takes its lease anew, but does not know which node had it in between.
    let lapse = within(async {
        loop {
            if let Some(lapse) = lease.lapse() {
                return lapse;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(lease.standing(), Standing::Unconfirmed);
    assert_eq!(refused(&b, &shard(0)).await, node("a"));
    lease.settle(lapse);
    stands(&lease, Standing::Held).await;
    assert_eq!(lease.lapse(), None);
}

#[tokio::test]
async fn a_stopped_redis_is_waited_for_no_longer_than_said() {
    let redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.leases;
    let lease = acquire(&a, &shard(0)).await;
    redis.pause().unwrap();
    for _ in 0..3 {
        let asked = Instant::now();
        assert_eq!(a.acquire(&shard(1)).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    stands(&lease, Standing::Unconfirmed).await;
    let deadline = Instant::now() + Duration::from_millis(100);
    let error = lease.give_back(deadline).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    redis.resume().unwrap();
    let _lease = acquire_eventually(&a, &shard(0)).await;
}

#[tokio::test]
async fn after_redis_was_emptied_whoever_asks_first_has_the_shard_and_the_other_learns_of_it() {
    let redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.leases;
    let b = join(&redis.url(), "b").await.leases;
    let lost = acquire(&a, &shard(0)).await;
    lost.confirm(soon()).await.unwrap();
    let taken = within(async {
        loop {
            redis.empty().unwrap();
            if let Acquired::Lease(lease) = b.acquire(&shard(0)).await.unwrap() {
                return lease;
            }
        }
    })
    .await;
    // A node that opens the shard under the older lease is refused before it writes anything.
    let refused_late = lost.confirm(soon()).await.unwrap_err();
    assert_eq!(refused_late.reason(), "NOT_OWNER");
    taken.confirm(soon()).await.unwrap();
    stands(&lost, Standing::Lost).await;
    // Giving the older lease back does not affect the other.
    lost.give_back(soon()).await.unwrap();
    assert_eq!(refused(&a, &shard(0)).await, node("b"));
    assert_eq!(taken.standing(), Standing::Held);
}

#[tokio::test]
async fn keys_of_something_else_are_told_apart() {
    let redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.leases;
    redis.command("SET clew:v1:lease:notes:0 ???", "\r\n").unwrap();
    let error = a.acquire(&shard(0)).await.unwrap_err();
    assert_eq!(error.reason(), "FOREIGN_LEASE");
    assert!(a.owners(&[shard(0)]).await.unwrap().is_empty());
}

#[tokio::test]
async fn without_redis_leases_follow_the_placement() {
    let list = ["a", "b", "c"].map(|id| {
        let member = member(id);
        clew_cluster::MemberConfig { id: member.id, address: member.address, roles: member.roles }
    });
    let mut given = std::collections::BTreeMap::new();
    for me in ["a", "b", "c"] {
        let config = ClusterConfig {
            members: list.to_vec(),
            node_id: Some(node(me)),
            ..ClusterConfig::default()
        };
        let cluster = Cluster::join(&config, member(me)).await.unwrap();
        assert_eq!(cluster.membership.members().borrow().as_slice().len(), 3);
        for number in 0..64 {
            match cluster.leases.acquire(&shard(number)).await.unwrap() {
                Acquired::Lease(lease) => {
                    assert_eq!(lease.standing(), Standing::Held);
                    lease.give_back(soon()).await.unwrap();
                    let _again = acquire(&cluster.leases, &shard(number)).await;
                    assert!(given.insert(shard(number), node(me)).is_none());
                }
                Acquired::HeldBy(holder) => assert_ne!(holder, node(me)),
            }
        }
        let shards: Vec<_> = (0..64).map(shard).collect();
        let owners = cluster.leases.owners(&shards).await.unwrap();
        assert!(given.iter().all(|(shard, owner)| owners[shard] == *owner));
    }
    assert_eq!(given.len(), 64);
}

#[tokio::test]
async fn a_node_alone_has_every_shard() {
    let cluster = Cluster::join(&ClusterConfig::default(), member("a")).await.unwrap();
    let lease = acquire(&cluster.leases, &shard(0)).await;
    assert_eq!(lease.standing(), Standing::Held);
    assert!(!cluster.membership.members().borrow().is_stale());
    cluster.membership.drain().await.unwrap();
    cluster.membership.leave().await.unwrap();
}
