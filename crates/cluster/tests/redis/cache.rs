use std::time::{Duration, Instant};

use clew_cluster::{Cluster, ClusterConfig};
use clew_testkit::RedisServer;

use super::fixture::{acquire, join, join_to, member, shard, until};

/// Runs for every kind of Redis.
pub async fn what_one_node_keeps_others_find(redis: &ClusterConfig) {
    let a = join_to(redis, "a").await.cache;
    let b = join_to(redis, "b").await.cache;
    for number in 0..16_u8 {
        let key = format!("question {number}");
        until(async || {
            a.put(&key, vec![number, 0, 255]);
            b.get(&key).await == Some(vec![number, 0, 255])
        })
        .await;
    }
    assert_eq!(b.get("question 16").await, None);
}

#[tokio::test]
async fn what_one_node_keeps_another_finds_and_an_emptied_redis_holds_nothing() {
    let mut redis = RedisServer::start().unwrap();
    let a = join(&redis.url(), "a").await.cache;
    let b = join(&redis.url(), "b").await.cache;
    assert_eq!(a.get("question").await, None);
    a.put("question", vec![0, 1, 255]);
    until(async || b.get("question").await == Some(vec![0, 1, 255])).await;
    a.put("long", vec![0; 1 << 20]);
    redis.kill().unwrap();
    redis.restart_empty().unwrap();
    until(async || {
        a.put("new", vec![7]);
        b.get("new").await == Some(vec![7])
    })
    .await;
    assert_eq!(b.get("question").await, None);
    assert_eq!(b.get("long").await, None);
}

#[tokio::test]
async fn a_redis_that_hangs_is_waited_for_once() {
    let redis = RedisServer::start().unwrap();
    let cache = join(&redis.url(), "a").await.cache;
    redis.pause().unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(cache.get("question").await, None);
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    redis.resume().unwrap();
    let alone = Cluster::join(&ClusterConfig::default(), member("alone")).await.unwrap().cache;
    alone.put("question", vec![1]);
    assert_eq!(alone.get("question").await, None);
}

#[tokio::test]
async fn what_is_kept_leaves_room_for_leases() {
    const MEMORY: u64 = 16 << 20;
    let redis = RedisServer::start().unwrap();
    for setting in [format!("maxmemory {MEMORY}"), "maxmemory-policy noeviction".to_owned()] {
        redis.command(&format!("CONFIG SET {setting}"), "\r\n").unwrap();
    }
    let node = join(&redis.url(), "a").await;
    let used = || {
        let told = redis.command("INFO memory", "total_system_memory").unwrap();
        let bytes = told.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        bytes.parse::<u64>().unwrap()
    };
    // Twice as much as the memory holds.
    let (entry, batch) = (60 << 10, 16);
    for first in (0..2 * MEMORY / entry).step_by(16) {
        (first..first + batch).for_each(|number| {
            node.cache.put(&number.to_string(), vec![1; entry as usize]);
        });
        let last = (first + batch - 1).to_string();
        until(async || {
            // Put again, because a write that cannot be done soon is skipped.
            node.cache.put(&last, vec![1; entry as usize]);
            node.cache.get(&last).await.is_some() || used() > MEMORY / 4 * 3
        })
        .await;
    }
    assert!(used() > MEMORY / 2, "{}", used());
    for number in 0..8 {
        let _lease = acquire(&node.leases, &shard(number)).await;
    }
}
