//! Tests that quotas are counted over all nodes, and by each node for itself while Redis is
//! unreachable.

use std::time::Duration;

use clew_cluster::{ClusterConfig, FillRate};
use clew_testkit::RedisServer;

use super::fixture::{join, join_to, until};

const SLOW: FillRate = FillRate { per_second: 0.01, burst: 4.0 };

/// Runs for every kind of Redis.
pub async fn a_bucket_is_one_for_all_nodes(redis: &ClusterConfig) {
    let (one, two) = (join_to(redis, "one").await, join_to(redis, "two").await);
    // A node that cannot reach Redis in time, for example while it still connects, counts for
    // itself. Repeat until both nodes have asked Redis.
    let mut attempt = 0;
    for tenant in ["acme", "bolt", "cogs", "dyne"] {
        until(async || {
            attempt += 1;
            let name = format!("{tenant}{attempt}:requests");
            for quotas in [&one.quotas, &two.quotas, &one.quotas, &two.quotas] {
                quotas.take(&name, 1.0, SLOW).await.unwrap();
            }
            let again = [&one.quotas, &two.quotas].map(|quotas| quotas.take(&name, 1.0, SLOW));
            let [one, two] = again;
            one.await.is_err() && two.await.is_err()
        })
        .await;
    }
}

#[tokio::test]
async fn two_nodes_share_a_bucket_and_count_alone_without_redis() {
    let mut redis = RedisServer::start().unwrap();
    let (one, two) = (join(&redis.url(), "one").await, join(&redis.url(), "two").await);
    for quotas in [&one.quotas, &two.quotas, &one.quotas, &two.quotas] {
        quotas.take("acme:requests", 1.0, SLOW).await.unwrap();
    }
    for quotas in [&one.quotas, &two.quotas] {
        let wait = quotas.take("acme:requests", 1.0, SLOW).await.unwrap_err();
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(100), "{wait:?}");
        quotas.take("other:requests", 1.0, SLOW).await.unwrap();
    }
    one.quotas.charge("acme:tokens", 1000.0, SLOW).await;
    assert!(two.quotas.take("acme:tokens", 0.0, SLOW).await.is_err());
    redis.kill().unwrap();
    for _ in 0..4 {
        one.quotas.take("acme:requests", 1.0, SLOW).await.unwrap();
    }
    one.quotas.take("acme:requests", 1.0, SLOW).await.unwrap_err();
}
