//! Tests that run for every kind of Redis a node can be configured with, and tests of single kinds.

use std::time::{Duration, Instant};

use clew_cluster::{ClusterConfig, Lease, RedisHealth, RedisTlsConfig, Standing};
use clew_testkit::{
    Authority, IssuedFiles, RedisCluster, RedisOptions, RedisServer, Validity, WatchedRedis,
};
use tempfile::TempDir;

use super::fixture::{acquire, acquire_eventually, config, join_to, node, refused, sees, shard};
use super::fixture::{until, within};

/// Name in the certificates of the servers, which differs from the host that they are reached at.
const SERVERS: &str = "redis.example.org";

/// Generates a test for every kind of Redis from each named function.
macro_rules! laws {
    ($($module:ident::$law:ident),* $(,)?) => {
        laws!(@one_server plain $($module::$law),*);
        laws!(@one_server_with_tls encrypted $($module::$law),*);
        laws!(@a_watched_server watched $($module::$law),*);
        laws!(@a_cluster clustered $($module::$law),*);
    };
    (@$kind:ident $start:ident $($module:ident::$law:ident),*) => {
        mod $kind {
            $(#[tokio::test]
            async fn $law() {
                let started = tokio::task::spawn_blocking(crate::kinds::$start).await.unwrap();
                crate::$module::$law(&started.config).await;
            })*
        }
    };
}

laws!(
    cache::what_one_node_keeps_others_find,
    kinds::it_is_well_and_says_so,
    leases::a_node_that_restarts_has_its_leases_at_once,
    leases::a_shard_is_given_once_and_again_when_it_is_given_back,
    leases::renewed_leases_outlast_their_time_to_live_and_others_end,
    membership::clusters_with_different_prefixes_do_not_meet,
    membership::nodes_see_each_other_drain_leave_and_crash,
    membership::of_two_processes_of_one_name_the_later_is_seen,
    quotas::a_bucket_is_one_for_all_nodes,
);

/// Servers, and the configuration of nodes that use them.
struct Started<T> {
    config: ClusterConfig,
    servers: T,
    folder: TempDir,
}

fn plain() -> Started<RedisServer> {
    let (folder, servers) = (tempfile::tempdir().unwrap(), RedisServer::start().unwrap());
    Started { config: config(&servers.url()), servers, folder }
}

fn watched() -> Started<WatchedRedis> {
    let folder = tempfile::tempdir().unwrap();
    let servers = WatchedRedis::start(folder.path()).unwrap();
    Started { config: config(&servers.url()), servers, folder }
}

fn clustered() -> Started<RedisCluster> {
    let folder = tempfile::tempdir().unwrap();
    let servers = RedisCluster::start(folder.path()).unwrap();
    Started { config: config(&servers.url()), servers, folder }
}

/// Starts a server with TLS that requires certificates of the same authority as its own.
fn encrypted() -> Started<RedisServer> {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("redis").unwrap();
    let ca = folder.path().join("ca.crt");
    authority.write(&ca).unwrap();
    let issue = |stem, names: &[&str]| {
        authority.issue(folder.path(), stem, names, Validity::Valid).unwrap()
    };
    let (server, client) = (issue("server", &[SERVERS]), issue("client", &["client"]));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let shown = |file: &std::path::Path| file.display().to_string();
    let options = [
        ["--tls-port".to_owned(), port.to_string()],
        ["--tls-cert-file".to_owned(), shown(&server.certificate)],
        ["--tls-key-file".to_owned(), shown(&server.key)],
        ["--tls-ca-cert-file".to_owned(), shown(&ca)],
    ];
    let servers = RedisServer::start_with(|_| {
        let arguments = options.iter().flatten().cloned().collect();
        Ok(RedisOptions { arguments, ..RedisOptions::default() })
    });
    let IssuedFiles { certificate, key } = client;
    let redis_tls = RedisTlsConfig {
        ca: Some(ca),
        certificate: Some(certificate),
        key: Some(key),
        server_name: Some(SERVERS.to_owned()),
    };
    let url = format!("rediss://127.0.0.1:{port}");
    let config = ClusterConfig { redis_tls, ..config(&url) };
    Started { config, servers: servers.unwrap(), folder }
}

/// Runs for every kind of Redis.
pub async fn it_is_well_and_says_so(redis: &ClusterConfig) {
    let health = RedisHealth::ask(redis).await.unwrap().unwrap();
    health.check().unwrap();
    assert_eq!(health.eviction.unwrap().policy, "noeviction");
    assert!(health.version.starts_with(|c: char| c.is_ascii_digit()), "{}", health.version);
    assert!(health.clock.seconds().abs() < 1.0, "{:?}", health.clock);
}

#[tokio::test]
async fn only_a_server_of_the_authority_and_the_name_is_spoken_to_and_only_by_its_clients() {
    let started = encrypted();
    let good = &started.config;
    let other = started.folder.path().join("other.crt");
    Authority::new("other").unwrap().write(&other).unwrap();
    let with = |change: fn(&mut RedisTlsConfig)| {
        let mut config = good.clone();
        change(&mut config.redis_tls);
        config
    };
    let mut foreign = good.clone();
    foreign.redis_tls.ca = Some(other);
    let refusals = [
        (foreign, "UnknownIssuer"),
        (with(|tls| tls.server_name = None), "not valid for name"),
        (with(|tls| (tls.certificate, tls.key) = (None, None)), ""),
    ];
    for (config, why) in refusals {
        let error = RedisHealth::ask(&config).await.unwrap_err();
        assert_eq!(error.reason(), "REDIS_UNAVAILABLE");
        assert!(error.chain().contains(why), "{}", error.chain());
        let lonely = join_to(&config, "lonely").await.membership;
        assert!(lonely.members().borrow().is_stale());
    }
    RedisHealth::ask(good).await.unwrap();
    // An unusable file is named before any server is asked.
    let mut broken = good.clone();
    broken.redis_tls.ca = broken.redis_tls.key.clone();
    let error = RedisHealth::ask(&broken).await.unwrap_err();
    assert_eq!(error.violations()[0].field, "cluster.redis_tls.ca");
}

/// Waits until a lease is held again, settling any lapse as its holder would.
async fn held_again(lease: &Lease) {
    until(async || {
        if let Some(lapse) = lease.lapse() {
            // The test assumes that the storage reported no other writer.
            lease.settle(lapse);
        }
        lease.standing() == Standing::Held
    })
    .await;
}

#[tokio::test]
async fn after_the_master_was_killed_members_and_leases_go_on_with_its_replica() {
    let mut started = watched();
    let a = join_to(&started.config, "a").await;
    let b = join_to(&started.config, "b").await;
    sees(&a.membership, &["a", "b"]).await;
    let lease = acquire(&a.leases, &shard(0)).await;
    started.servers.master.kill().unwrap();
    // No caller waits longer than the configured limit.
    let asked = Instant::now();
    assert!(b.leases.acquire(&shard(1)).await.is_err());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());

    let _other = acquire_eventually(&b.leases, &shard(1)).await;
    held_again(&lease).await;
    assert_eq!(refused(&b.leases, &shard(0)).await, node("a"));
    sees(&a.membership, &["a", "b"]).await;
    let c = join_to(&started.config, "c").await;
    sees(&a.membership, &["a", "b", "c"]).await;
    sees(&c.membership, &["a", "b", "c"]).await;
    until(async || {
        a.cache.put("question", vec![1]);
        c.cache.get("question").await == Some(vec![1])
    })
    .await;
}

#[tokio::test]
async fn leases_follow_their_slot_to_another_master_and_miss_none_that_is_gone() {
    const LEASE: &str = "{clew:v1}:lease:notes:0";
    let mut started = clustered();
    let a = join_to(&started.config, "a").await;
    let b = join_to(&started.config, "b").await;
    sees(&a.membership, &["a", "b"]).await;
    let lease = acquire(&a.leases, &shard(0)).await;
    let from = started.servers.owner_of(LEASE).unwrap();
    let to = (from + 1) % started.servers.masters.len();
    started.servers.move_slot_of(LEASE, to).unwrap();
    assert_eq!(started.servers.owner_of(LEASE).unwrap(), to);

    assert_eq!(refused(&b.leases, &shard(0)).await, node("a"));
    let _other = acquire(&b.leases, &shard(1)).await;
    assert_eq!(b.leases.owners(&[shard(0), shard(1)]).await.unwrap().len(), 2);
    // A master without these leases may fail, even if it is the first seed or the slot's former
    // master.
    started.servers.masters[from].kill().unwrap();
    let owners = || async { b.leases.owners(&[shard(0), shard(1)]).await };
    until(async || owners().await.is_ok_and(|owners| owners.len() == 2)).await;
    let c = within(join_to(&started.config, "c")).await;
    sees(&c.membership, &["a", "b", "c"]).await;
    held_again(&lease).await;
    let _third = acquire_eventually(&c.leases, &shard(2)).await;
}
