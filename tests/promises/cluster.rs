//! Tests of a cluster of real processes over a real Redis, on the loopback interface.
//! `tests/faults` tests faults of machines and networks.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use clew_core::{ErrorKind, ExtractionTask, GraphBuilder};
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest, RedisServer};
use serde_json::json;

use crate::client::{by_words, create, create_in_shards, document, exhaustive, remember, search};
use crate::harness::{Home, Server, eventually};
use crate::processes::Cluster;
use crate::words::{text_with, word};

const SHARDS: u32 = 4;

/// Maximum time of a request in a cluster whose nodes are killed.
const REQUEST_PATIENCE: Duration = Duration::from_secs(20);

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
    // A retriever that heard of the other one late hands over what it took before.
    eventually("every shard is where it belongs", async || {
        let topology = client.topology().await.unwrap();
        topology.shards.iter().all(|shard| shard.owner == shard.placed_on).then_some(())
    })
    .await;
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
async fn corpora_keep_their_models_while_encoders_get_others() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, vec![document("d0", text_with(&[&word('c', 0)]))]).await;
    let (first, other) = (cluster.models.0.clone(), cluster.other_model());

    // The other model comes first. Existing corpora are searched and added to as before.
    cluster.kill("encoder-0");
    cluster.models = (other.clone(), Some(first));
    cluster.start_again("encoder-0").await;
    remember(&client, &notes, vec![document("d1", text_with(&[&word('c', 1)]))]).await;
    let found = search(&client, &notes, exhaustive(&word('c', 1))).await;
    let documents: BTreeSet<&str> = found.iter().map(|item| item.document_id.as_str()).collect();
    assert_eq!(documents, BTreeSet::from(["d0", "d1"]));
    let tale = eventually("new corpora are made with the other model", async || {
        let tale = create(&client, "tale").await;
        let made_with = client.corpus(&tale).await.unwrap().encoder.unwrap();
        if made_with.model == "other-model" {
            return Some(tale);
        }
        client.delete_corpus(&tale).await.unwrap();
        None
    })
    .await;
    remember(&client, &tale, vec![document("d2", text_with(&[&word('c', 2)]))]).await;
    assert!(!search(&client, &tale, exhaustive(&word('c', 2))).await.is_empty());
    let asked = cluster.run(&["ask", "--corpus", "notes", "--json", "What came from the city?"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let tree = cluster.run(&["cluster", "tree"]).stdout;
    for part in ["encoders of `model` (pool)", "encoders of `other-model` (pool)"] {
        assert!(tree.contains(part), "no {part} in\n{tree}");
    }

    // Without the first model, the corpus with its vectors reports that, and the rest continues.
    cluster.kill("encoder-0");
    cluster.models = (other, None);
    cluster.start_again("encoder-0").await;
    eventually("the encoder is there", async || {
        client.search(&tale, exhaustive("city")).await.ok()
    })
    .await;
    let error = client.search(&notes, exhaustive("city")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("`model`"), "{error}");
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

    // Without a graph builder, the error comes before the client's deadline.
    cluster.kill("graph-builder-0");
    let error = client.extract(tasks(), soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.chain());

    cluster.start_again("graph-builder-0").await;
    eventually("the graph builder that is back answers", async || {
        client.extract(tasks(), soon()).await.ok().filter(|again| *again == found)
    })
    .await;

    // With a second graph builder, killing one in the middle of calls fails none of them.
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

/// Reads the tale of Crete, in the form that the prompts ask for.
fn reads_crete(request: &ModelRequest) -> ModelReply {
    let entity = |name| json!({ "name": name, "kind": "person" });
    let reply = match request.body["response_format"].to_string() {
        format if format.contains("\"entities\"") => {
            json!({ "entities": [entity("Theseus"), entity("Minotaur")] }).to_string()
        }
        format if format.contains("\"relations\"") => {
            let quote = "Theseus killed the Minotaur.";
            let relation = json!({ "head": 1, "relation": "slew", "tail": 2, "quote": quote });
            json!({ "relations": [relation] }).to_string()
        }
        _ => "A hero, a thread and a monster.".to_owned(),
    };
    ModelReply::Text(reply)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_builder_reads_with_the_model_of_a_generator() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(reads_crete);
    let settings = vec![
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
        ("CLEW_GRAPH_BUILDER__READER", "model".to_owned()),
    ];
    let mut cluster = Cluster::start_with(1, settings).await;
    let text = "Ariadne gave Theseus a ball of thread. Theseus killed the Minotaur.";
    let file = cluster.write("crete.txt", text);
    let outlined = cluster.run(&["outline", &file, "--json"]).done();
    let read = &outlined["documents"][0];
    assert_eq!(read["summary"], "A hero, a thread and a monster.", "{read}");
    assert_eq!(
        (&read["relations"][0]["head"], &read["relations"][0]["text"]),
        (&json!("Theseus"), &json!("slew")),
        "{read}"
    );
    assert_eq!(endpoint.requests().len(), 3);
    assert_eq!(cluster.run(&["outline", &file, "--json"]).done(), outlined);
    assert_eq!(endpoint.requests().len(), 3, "what was read once is known");
    // Another process knows it as well, because the cluster caches it.
    cluster.kill("graph-builder-0");
    cluster.start_again("graph-builder-0").await;
    let outlined_again = eventually("the graph builder that is back answers", async || {
        let ran = cluster.run(&["outline", &file, "--json"]);
        (ran.code == Some(0)).then(|| ran.json())
    })
    .await;
    assert_eq!(outlined_again, outlined);
    assert_eq!(endpoint.requests().len(), 3);
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_rested_while_redis_lost_their_leases_open_again() {
    let rest_soon = vec![("CLEW_RETRIEVER__REST_AFTER_SECS", "1".to_owned())];
    let cluster = Cluster::start_with(1, rest_soon).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    let documents = (0..8).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    eventually("the shards rest", async || {
        let tree = cluster.run(&["cluster", "tree", "--json"]).done();
        let rests = |shard: &str| part_of(&tree["nodes"], shard).is_some_and(is_resting);
        (rests("notes/shard-0") && rests("notes/shard-1")).then_some(())
    })
    .await;
    cluster.redis.empty().unwrap();
    eventually("the node has the leases again", async || {
        let kept = cluster.redis.command("KEYS *lease:notes:*", "\r\n").unwrap();
        kept.starts_with("*2").then_some(())
    })
    .await;
    remember(&client, &notes, vec![document("d8", text_with(&[&word('c', 8)]))]).await;
    let found = eventually("every shard answers", async || {
        let found = client.search(&notes, exhaustive("the")).await.ok()?;
        found.shards_missing.is_empty().then_some(found.evidence)
    })
    .await;
    let documents: BTreeSet<String> = found.into_iter().map(|item| item.document_id).collect();
    assert_eq!(documents.len(), 9, "{documents:?}");
    cluster.stop();
}

fn is_resting(shard: &serde_json::Value) -> bool {
    shard["state"] == "resting"
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nodes_that_own_nothing_are_found_by_the_names_of_their_services() {
    let home = Home::new();
    let [readers, retriever] = [free_address(), free_address()];
    let (_, port) = readers.rsplit_once(':').unwrap();
    // A name that stands for one address or two, of which nobody listens on the second.
    let config = format!(
        r#"[cluster]
members = [{{ id = "retriever-0", address = "http://{retriever}", roles = ["retriever"] }}]
services = [{{ address = "http://localhost:{port}", roles = ["encoder", "generator", "graph-builder"] }}]
"#
    );
    let config = home.write("cluster.toml", config);
    let node = |roles: &str, listen: &str| {
        let mut command = home.serve_command_at(listen);
        command.args(["--roles", roles, "--config"]).arg(&config);
        command
    };
    let unnamed = Server::try_start(node("retriever", "127.0.0.1:0"));
    let refused = unnamed.err().expect("a retriever has to be named");
    assert!(refused.log.contains("cluster.node_id"), "{}", refused.log);

    let reading = Server::start(node("encoder,generator,graph-builder", &readers));
    let mut owner = node("retriever", &retriever);
    owner.env("CLEW_CLUSTER__NODE_ID", "retriever-0");
    let owner = Server::start(owner);
    let gateway = Server::start(node("gateway", "127.0.0.1:0"));
    let client = gateway.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    let documents = (0..8).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    assert_eq!(by_words(&client, &notes, &word('c', 5)).await[0].document_id, "d5");
    let ask = ["ask", "--corpus", "notes", "--json", "What came from the city?"];
    let asked = home.run_at(&gateway, &ask);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let topology = client.topology().await.unwrap();
    let found = format!("http://{readers}");
    assert!(topology.members.iter().any(|member| member.address == found), "{topology:?}");
    assert!(topology.shards.iter().all(|shard| shard.owner == "retriever-0"), "{topology:?}");
    for server in [gateway, owner, reading] {
        assert!(server.terminate().success());
    }
}

#[test]
fn a_server_that_is_still_starting_ends_when_it_is_told_to() {
    let home = Home::new();
    let redis = RedisServer::start().unwrap();
    let mut lonely = home.clew();
    lonely.args(["serve", "--roles", "retriever", "--listen", "127.0.0.1:0"]);
    lonely.env("CLEW_CLUSTER__REDIS", redis.url()).env("CLEW_CLUSTER__NODE_ID", "retriever-0");
    lonely.env("CLEW_LOG", "info");
    // Simulates storage that does not answer: nobody ever writes into the pipe.
    let model = home.model();
    let weights = model.join("model.safetensors");
    std::fs::remove_file(&weights).unwrap();
    assert!(Command::new("mkfifo").arg(&weights).status().unwrap().success());
    let mut stuck = home.clew();
    stuck.args(["serve", "--listen", "127.0.0.1:0", "--model"]).arg(&model);
    stuck.env("CLEW_ADMIN__LISTEN", "127.0.0.1:0");
    for (command, waits) in
        [(lonely, "waiting for an encoder"), (stuck, "metrics and health on http://")]
    {
        let waiting =
            Server::start_until(command, move |line| line.contains(waits).then_some(waits));
        let mut server = waiting.ok().expect(waits);
        assert!(server.end().success(), "{waits}");
    }
}

/// Returns an address on which nobody listened a moment ago.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Returns whether nothing is queued in a part of the tree.
fn is_idle(tree: &serde_json::Value) -> bool {
    tree["queued"] == 0 && tree["children"].as_array().unwrap().iter().all(is_idle)
}

/// Returns the part of that name, anywhere in the trees.
fn part_of<'t>(trees: &'t serde_json::Value, name: &str) -> Option<&'t serde_json::Value> {
    trees.as_array()?.iter().find_map(|tree| match tree["name"] == name {
        true => Some(tree),
        false => part_of(&tree["children"], name),
    })
}
