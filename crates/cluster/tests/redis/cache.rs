use std::time::{Duration, Instant};

use clew_cluster::{Cluster, ClusterConfig};
use clew_testkit::RedisServer;

use super::fixture::{join, member, within};

/// Waits until it holds.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    within(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
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
