//! Tests of `clew doctor` on real storage and a real Redis, sound and broken.

use std::path::PathBuf;

use clew_testkit::{RedisServer, S3Server};
use serde_json::Value;

use crate::client::create;
use crate::harness::{Home, Ran, Server};

fn findings(ran: &Ran) -> Vec<Value> {
    ran.json()["findings"].as_array().unwrap().clone()
}

/// Returns the worst state among the findings of `check`.
fn state(findings: &[Value], check: &str) -> String {
    let of = findings.iter().filter(|finding| finding["check"] == check);
    let mut states: Vec<&str> = of.map(|finding| finding["state"].as_str().unwrap()).collect();
    states.sort_by_key(|state| ["fail", "warn", "ok"].iter().position(|known| known == state));
    (*states.first().unwrap_or(&"nothing")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_needs_is_looked_at_and_named_if_it_is_missing() {
    let home = Home::new();
    let ran = home.run_embedded(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = findings(&ran);
    for (check, expected) in
        [("configuration", "ok"), ("embedding model", "ok"), ("corpora", "ok"), ("redis", "ok")]
    {
        assert_eq!(state(&found, check), expected, "{check}: {found:?}");
    }
    assert_ne!(state(&found, "data directory"), "fail", "{found:?}");
    // The place for snapshots is missing, which is reported with advice.
    assert_eq!(state(&found, "snapshots"), "warn");
    let left = std::fs::read_dir(home.data_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["corpora"]);

    let broken = [
        (vec!["--snapshots", "/dev/null/x"], "snapshots"),
        (vec!["--config", "missing.toml"], "configuration"),
    ];
    for (arguments, check) in broken {
        let mut words = vec!["doctor", "--json"];
        words.extend(arguments);
        let ran = home.run_embedded(&words);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let found = findings(&ran);
        assert_eq!(state(&found, check), "fail", "{found:?}");
        let advised = found.iter().filter(|finding| finding["state"] == "fail");
        assert!(advised.clone().all(|finding| !finding["advice"].as_str().unwrap().is_empty()));
    }

    // A corpus of another model.
    let server = home.serve();
    create(&server.client().await, "notes").await;
    let asked = home.run_at(&server, &["doctor", "--json"]);
    assert_eq!(state(&findings(&asked), "server"), "ok", "{asked:?}");
    assert!(server.terminate().success());
    let model = home.path("other-model");
    std::fs::create_dir(&model).unwrap();
    clew_testkit::write_tiny_bert(&model, 2).unwrap();
    let mut command = home.clew();
    command.args(["doctor", "--json", "--data-dir"]).arg(home.data_dir());
    command.arg("--model").arg(&model);
    let found = findings(&Ran::of(command));
    assert_eq!(state(&found, "corpora"), "fail", "{found:?}");

    // The check passes if the corpus' model is configured as well.
    let beside = |next: PathBuf| {
        let mut command = home.clew();
        command.args(["doctor", "--json", "--data-dir"]).arg(home.data_dir());
        command.arg("--model").arg(&model).env("CLEW_ENCODER__NEXT_MODEL", next);
        findings(&Ran::of(command))
    };
    let found = beside(home.model());
    let models = found.iter().filter(|finding| finding["check"] == "embedding model");
    assert_eq!(models.map(|finding| &finding["state"]).collect::<Vec<_>>(), ["ok", "ok"]);
    assert_eq!(state(&found, "corpora"), "ok", "{found:?}");
    for next in [model.clone(), home.path("missing")] {
        let found = beside(next);
        assert_eq!(state(&found, "embedding model"), "fail", "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_and_a_redis_are_tried_as_they_are_used() {
    let home = Home::new();
    let bucket = tokio::task::spawn_blocking(|| S3Server::start().unwrap()).await.unwrap();
    let redis = RedisServer::start().unwrap();
    let doctor = |redis: &str| {
        let mut command = home.clew();
        command.args(["doctor", "--json", "--data-dir", &bucket.url()]);
        command.arg("--model").arg(home.model()).envs(bucket.environment());
        command.env("CLEW_CLUSTER__REDIS", redis);
        Ran::of(command)
    };
    let ran = doctor(&redis.url());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = findings(&ran);
    assert_ne!(state(&found, "data directory"), "fail", "{found:?}");
    assert_eq!(state(&found, "redis"), "ok", "{found:?}");
    let ran = doctor("redis://127.0.0.1:1/0");
    assert_eq!((ran.code, state(&findings(&ran), "redis").as_str()), (Some(1), "fail"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_starts_with_a_redis_that_drops_leases() {
    let (home, redis) = (Home::new(), RedisServer::start().unwrap());
    let set = |setting: &str| {
        assert!(redis.command(setting, "\r\n").unwrap().starts_with("+OK"), "{setting}");
    };
    let serve = || {
        let mut command = home.serve_command();
        command.args(["--roles", "retriever,encoder,graph-builder"]);
        command.env("CLEW_CLUSTER__REDIS", redis.url());
        command
    };
    let doctor = || {
        let mut command = home.clew();
        command.args(["doctor", "--json", "--data-dir"]).arg(home.data_dir());
        command.arg("--model").arg(home.model()).env("CLEW_CLUSTER__REDIS", redis.url());
        findings(&Ran::of(command))
    };
    set("CONFIG SET maxmemory 100mb");
    set("CONFIG SET maxmemory-policy volatile-lru");
    // The policy is also found if only one of the two ways to ask is permitted.
    for permitted in ["+@all", "+@all -config", "+@all -info"] {
        set(&format!("ACL SETUSER default {permitted}"));
        let Err(ended) = Server::try_start(serve()) else { panic!("it serves") };
        assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
        for part in ["volatile-lru", "maxmemory-policy noeviction", "104857600"] {
            assert!(ended.log.contains(part), "{}", ended.log);
        }
        assert!(redis.command("KEYS *", "\r\n").unwrap().starts_with("*0"), "nobody was seen");
        assert!(!home.data_dir().exists());
        assert_eq!(state(&doctor(), "redis"), "fail");
        std::fs::remove_dir_all(home.data_dir()).unwrap();
    }
    // If neither is permitted, a node starts and says so.
    set("ACL SETUSER default +@all -config -info");
    let mut server = Server::start(serve());
    assert!(server.log().contains("does not tell its `maxmemory-policy`"), "{}", server.log());
    assert!(server.end().success());
    assert_eq!(state(&doctor(), "redis"), "warn");
    set("ACL SETUSER default +@all");
    set("CONFIG SET maxmemory-policy noeviction");
    assert!(Server::start(serve()).terminate().success());
    assert_eq!(state(&doctor(), "redis"), "ok");
}
