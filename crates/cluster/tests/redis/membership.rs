use std::sync::{Arc, Mutex};
use std::time::Duration;

use clew_cluster::{Cluster, ClusterConfig, MemberState, Members, Membership, Role};
use clew_testkit::RedisServer;

use super::fixture::{MEMBER_TTL, join, join_to, member, names, node, sees, within};

/// Records every view in which a member is missing.
fn note_gaps(
    membership: &Membership,
    expected: &'static [&'static str],
) -> Arc<Mutex<Vec<String>>> {
    let gaps = Arc::new(Mutex::new(Vec::new()));
    let (noted, mut members) = (Arc::clone(&gaps), membership.members());
    tokio::spawn(async move {
        while members.changed().await.is_ok() {
            let seen = names(&members.borrow_and_update()).join(",");
            if seen != expected.join(",") {
                noted.lock().unwrap().push(seen);
            }
        }
    });
    gaps
}

/// Runs for every kind of Redis.
pub async fn nodes_see_each_other_drain_leave_and_crash(redis: &ClusterConfig) {
    let a = join_to(redis, "a").await.membership;
    sees(&a, &["a"]).await;
    let b = join_to(redis, "b").await.membership;
    let c = join_to(redis, "c").await.membership;
    for membership in [&a, &b, &c] {
        sees(membership, &["a", "b", "c"]).await;
    }

    b.drain().await.unwrap();
    let is_draining = |members: &Arc<Members>| {
        members.get(&node("b")).is_some_and(|b| b.state == MemberState::Draining)
    };
    assert!(is_draining(&b.members().borrow()), "a node knows of itself at once");
    within(a.members().wait_for(is_draining)).await.unwrap();
    let seen = a.members().borrow().clone();
    assert_eq!(seen.with_role(Role::Retriever).count(), 3);
    assert_eq!(seen.as_slice().iter().filter(|m| m.serves(Role::Retriever)).count(), 2);

    b.leave().await.unwrap();
    sees(&a, &["a", "c"]).await;
    // Without leaving, as in a crash.
    drop(c);
    sees(&a, &["a"]).await;
}

#[tokio::test]
async fn while_redis_is_away_the_view_stays_and_says_that_it_is_stale() {
    let mut redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.membership;
    let b = join(&redis.url(), "b").await.membership;
    sees(&a, &["a", "b"]).await;
    sees(&b, &["a", "b"]).await;
    let gaps = [note_gaps(&a, &["a", "b"]), note_gaps(&b, &["a", "b"])];

    redis.kill().unwrap();
    within(a.members().wait_for(|members| members.is_stale())).await.unwrap();
    assert_eq!(names(&a.members().borrow()), ["a", "b"]);
    assert!(b.drain().await.is_err());

    // Redis is empty, so the first node to come finds no other.
    redis.restart_empty().unwrap();
    sees(&a, &["a", "b"]).await;
    sees(&b, &["a", "b"]).await;
    tokio::time::sleep(MEMBER_TTL * 2).await;
    for gaps in gaps {
        assert_eq!(*gaps.lock().unwrap(), Vec::<String>::new(), "nobody was dropped");
    }
    // The draining, which could not be announced before, is known now.
    let drains = |members: &Arc<Members>| {
        members.get(&node("b")).is_some_and(|b| b.state == MemberState::Draining)
    };
    within(a.members().wait_for(drains)).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_was_stopped_drops_nobody() {
    let redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.membership;
    let b = join(&redis.url(), "b").await.membership;
    sees(&a, &["a", "b"]).await;
    sees(&b, &["a", "b"]).await;
    let gaps = [note_gaps(&a, &["a", "b"]), note_gaps(&b, &["a", "b"])];
    redis.pause().unwrap();
    within(a.members().wait_for(|members| members.is_stale())).await.unwrap();
    // By Redis' clock, every record has expired now.
    tokio::time::sleep(MEMBER_TTL).await;
    redis.resume().unwrap();
    sees(&a, &["a", "b"]).await;
    sees(&b, &["a", "b"]).await;
    tokio::time::sleep(MEMBER_TTL * 2).await;
    for gaps in gaps {
        assert_eq!(*gaps.lock().unwrap(), Vec::<String>::new(), "nobody was dropped");
    }
    drop(b);
    sees(&a, &["a"]).await;
}

#[tokio::test]
async fn a_node_starts_without_redis_and_joins_when_it_comes() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let a = within(join(&redis.url(), "a")).await.membership;
    assert!(a.members().borrow().is_stale());
    assert_eq!(names(&a.members().borrow()), ["a"]);
    redis.restart_empty().unwrap();
    let b = join(&redis.url(), "b").await.membership;
    sees(&a, &["a", "b"]).await;
    sees(&b, &["a", "b"]).await;
}

/// Runs for every kind of Redis.
pub async fn of_two_processes_of_one_name_the_later_is_seen(redis: &ClusterConfig) {
    let watcher = join_to(redis, "watcher").await.membership;
    let mut earlier = member("a");
    earlier.address = "http://earlier.example.org:7000".parse().unwrap();
    let mut later = member("a");
    later.incarnation = earlier.incarnation + 1;
    let _later = Cluster::join(redis, later.clone()).await.unwrap();
    let _earlier = Cluster::join(redis, earlier).await.unwrap();
    sees(&watcher, &["a", "watcher"]).await;
    // The earlier process continues its heartbeats, which are ignored.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(watcher.members().borrow().get(&later.id), Some(&later));
}

/// Runs for every kind of Redis.
pub async fn clusters_with_different_prefixes_do_not_meet(redis: &ClusterConfig) {
    let other = ClusterConfig { redis_prefix: "other".to_owned(), ..redis.clone() };
    let a = join_to(redis, "a").await.membership;
    let stranger = Cluster::join(&other, member("b")).await.unwrap().membership;
    sees(&a, &["a"]).await;
    sees(&stranger, &["b"]).await;
}
