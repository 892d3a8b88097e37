//! A cluster of real processes over a real Redis, and what happens to its machines.
//!
//! Every role is a process of its own. A driver keeps ingesting, replacing, forgetting and searching
//! while faults are done to them, and knows what was acknowledged; at the end the cluster is held
//! against what it knows. `tests/README.md` lists the faults.

pub mod driver;
pub mod processes;

use std::time::{Duration, Instant};

use clew_core::{ErrorKind, ExtractionTask, GraphBuilder};

use crate::client::{by_words, create_in_shards, document, idle, remember};
use crate::harness::eventually;
use crate::words::{text_with, word};
use driver::Driver;
use processes::{Cluster, REQUEST_PATIENCE};

const SHARDS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn roles_in_processes_of_their_own_answer_as_one() {
    let cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    let documents = (0..40).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    for i in [0, 17, 39] {
        let found = by_words(&client, &notes, &word('c', i)).await;
        assert!(!found.is_empty() && found.iter().all(|item| item.document_id == format!("d{i}")));
    }
    let topology = client.topology().await.unwrap();
    assert_eq!(topology.members.len(), 6, "{topology:?}");
    assert_eq!(topology.shards.len(), SHARDS as usize);
    assert!(topology.shards.iter().all(|shard| shard.owner == shard.placed_on), "{topology:?}");
    let tree = cluster.run(&["cluster", "tree"]);
    assert_eq!(tree.code, Some(0), "{tree:?}");
    let nodes = ["gateway-0", "retriever-0", "retriever-1", "encoder-0", "generator-0"];
    for part in nodes.into_iter().chain(["graph-builder-0", "graph-builders (pool)", "notes/"]) {
        assert!(tree.stdout.contains(part), "no {part} in\n{}", tree.stdout);
    }
    let asked = cluster.run(&["ask", "--corpus", "notes", "--json", "What came from the city?"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    eventually("every credit is given back", async || {
        let tree = cluster.run(&["cluster", "tree", "--json"]).done();
        tree["nodes"].as_array().unwrap().iter().all(is_idle).then_some(())
    })
    .await;
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_hand_over_loses_nothing_and_fails_nothing_for_good() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    let driver = Driver::start(&cluster, &notes, 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.restart_gracefully("retriever-0").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.restart_gracefully("retriever-1").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = driver.stop().await;
    // On a machine that is busy beside the test a write may run out of its time, and is repeated.
    println!("{told}");
    told.assert_went_on();
    idle(&client, &notes).await;
    told.assert_kept(&client, &notes).await;
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_stopped_and_forgotten_by_redis_nothing_acknowledged_is_lost() {
    let seed = std::env::var("CLEW_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = fastrand::Rng::with_seed(seed.unwrap_or_else(|| fastrand::u64(..)));
    println!("seed: CLEW_TEST_SEED={}", random.get_seed());
    let mut cluster = Cluster::start(3).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    let driver = Driver::start(&cluster, &notes, random.u64(..)).await;
    let retriever = |random: &mut fastrand::Rng| format!("retriever-{}", random.usize(..3));
    for round in 0..2 {
        println!("round {round}");
        let name = retriever(&mut random);
        cluster.kill(&name);
        pause(&mut random, 1.0..2.5).await;
        cluster.start_again(&name).await;

        let name = retriever(&mut random);
        cluster.signal(&name, "STOP");
        // Longer than its leases last.
        pause(&mut random, 2.5..4.0).await;
        cluster.signal(&name, "CONT");
        pause(&mut random, 0.5..1.5).await;

        cluster.kill("encoder-0");
        pause(&mut random, 0.3..1.0).await;
        cluster.start_again("encoder-0").await;

        cluster.redis().kill().unwrap();
        pause(&mut random, 0.5..3.0).await;
        cluster.redis().restart_empty().unwrap();
        pause(&mut random, 0.5..1.5).await;

        cluster.kill("generator-0");
        cluster.kill("graph-builder-0");
        cluster.kill("gateway-0");
        cluster.start_again("generator-0").await;
        cluster.start_again("graph-builder-0").await;
        cluster.start_again("gateway-0").await;
    }
    let told = driver.stop().await;
    println!("{told}");
    told.assert_went_on();
    let client = cluster.client().await;
    idle(&client, &notes).await;
    told.assert_kept(&client, &notes).await;
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_read_by_whichever_graph_builder_is_there() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client().await;
    let text = "Ariadne gave Theseus a ball of thread. Theseus killed the Minotaur.";
    let tasks = || {
        let tasks = (0..100).map(|i| format!("{text} That was told {i} times."));
        let task = |text| ExtractionTask { text, ..ExtractionTask::default() };
        tasks.map(task).collect::<Vec<_>>()
    };
    let soon = || Instant::now() + REQUEST_PATIENCE;
    let found = client.extract(tasks(), soon()).await.unwrap();
    assert_eq!(found.len(), 100);
    let names: Vec<&str> = found[99].entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names, ["Ariadne", "Theseus", "Minotaur"]);

    // Nobody is there: told before the client's time is up.
    cluster.kill("graph-builder-0");
    let error = client.extract(tasks(), soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.chain());

    cluster.start_again("graph-builder-0").await;
    eventually("the graph builder that is back answers", async || {
        client.extract(tasks(), soon()).await.ok().filter(|again| *again == found)
    })
    .await;

    // With another beside it, a kill in the midst of calls fails none of them.
    cluster.start_again("graph-builder-1").await;
    eventually("both are known", async || {
        let tree = cluster.run(&["cluster", "tree", "--json"]).done();
        let pool = part_of(&tree["nodes"], "graph-builders")?;
        let serving =
            |name| part_of(&pool["children"], name).is_some_and(|m| m["state"] == "serving");
        (serving("graph-builder-0") && serving("graph-builder-1")).then_some(())
    })
    .await;
    let calling = async {
        for _ in 0..40 {
            assert_eq!(client.extract(tasks(), soon()).await.unwrap(), found);
        }
    };
    let killing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.kill("graph-builder-0");
    };
    tokio::join!(calling, killing);

    let file = cluster.write("crete.txt", text);
    let outline = cluster.run(&["outline", &file, "--json"]).done();
    let outline = &outline["documents"][0];
    assert_eq!(outline["summary"], text);
    assert_eq!(outline["relations"][0]["head"], "Ariadne");
    cluster.stop();
}

/// Whether nothing waits or is worked on in a part of a tree.
fn is_idle(tree: &serde_json::Value) -> bool {
    tree["queued"] == 0 && tree["children"].as_array().unwrap().iter().all(is_idle)
}

/// The part of that name, anywhere in trees.
fn part_of<'t>(trees: &'t serde_json::Value, name: &str) -> Option<&'t serde_json::Value> {
    trees.as_array()?.iter().find_map(|tree| match tree["name"] == name {
        true => Some(tree),
        false => part_of(&tree["children"], name),
    })
}

async fn pause(random: &mut fastrand::Rng, seconds: std::ops::Range<f64>) {
    let span = seconds.end - seconds.start;
    let seconds = seconds.start + random.f64() * span;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}
