//! Tests of shards that do not answer: every response about the corpus names them until they are
//! back.

use clew_core::{Chunking, MemorySettings, StructureSettings};
use clew_proto::convert::corpus::NewCorpus;
use serde_json::{Value, json};

use crate::client::{CHUNK_TOKENS, corpus, remember, structured};
use crate::compressed;
use crate::harness::eventually;
use crate::processes::Cluster;
use crate::tales::tales;

const CORPUS: &str = "tales";
const SHARDS: u32 = 4;
const QUESTION: &str = "Who killed the Minotaur?";

/// Returns commands that walk, search or list all shards of the corpus.
fn commands() -> Vec<Vec<&'static str>> {
    let of_corpus = |words: &[&'static str]| [words, &["--corpus", CORPUS, "--json"]].concat();
    let mut commands = vec![
        of_corpus(&["search", QUESTION]),
        of_corpus(&["tree"]),
        of_corpus(&["graph", "around", "Theseus"]),
        of_corpus(&["graph", "paths", "Theseus", "Minos"]),
        of_corpus(&["graph", "rank", "Theseus"]),
        of_corpus(&["memory", "list"]),
    ];
    let strategies =
        ["memwalker", "summary-levels", "qrmem-entity", "hgmem", "graph-walk", "memorag", "chat"];
    commands
        .extend(strategies.map(|strategy| of_corpus(&["ask", QUESTION, "--strategy", strategy])));
    commands
}

/// Returns the results of all commands, run concurrently because each waits for the shards that do
/// not answer.
fn told(cluster: &Cluster) -> Vec<(String, Value)> {
    let commands = commands();
    let run = |command: &Vec<&str>| (command.join(" "), cluster.run(command).done());
    let run = &run;
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let running: Vec<_> =
                commands.iter().map(|command| scope.spawn(move || run(command))).collect();
            running.into_iter().map(|command| command.join().unwrap()).collect()
        })
    })
}

/// Returns the shards that `clew corpus list` names, and whether it counts documents all the same.
fn listed(cluster: &Cluster) -> (Value, bool) {
    let listed = cluster.run(&["corpus", "list", "--json"]).done();
    let listed = &listed["corpora"][0];
    (listed["shards_missing"].clone(), listed["documents"].is_u64())
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_of_a_killed_retriever_are_named_by_trees_graphs_and_memories_as_by_searches() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = compressed::settings(&folder);
    // Longer than the test, so that nobody takes over the shards of the killed retriever.
    settings.push(("CLEW_CLUSTER__LEASE_TTL_MS", "600000".to_owned()));
    let mut cluster = Cluster::start_with(2, settings).await;
    let client = cluster.client().await;
    let tales_of_all = corpus(CORPUS);
    let made = client.create_corpus(NewCorpus {
        name: tales_of_all.clone(),
        shards: SHARDS,
        chunking: Some(Chunking::Sections { max_tokens: CHUNK_TOKENS }),
        structure: Some(StructureSettings::default()),
        retention_days: None,
        memory: Some(MemorySettings { ratio: 4, segment_tokens: 1000 }),
        chat: None,
    });
    made.await.unwrap();
    remember(&client, &tales_of_all, tales()).await;
    structured(&client, &tales_of_all).await;
    eventually("memories cover all documents", async || {
        let memories = client.memories(&tales_of_all).await.ok()?;
        (memories.covered_documents == tales().len() as u64).then_some(())
    })
    .await;
    for (command, told) in told(&cluster) {
        assert_eq!(told["shards_missing"], json!([]), "{command}: {told}");
    }

    let shards = client.topology().await.unwrap().shards;
    let killed = shards[0].owner.clone();
    let gone = shards.iter().filter(|shard| shard.owner == killed).map(|shard| shard.shard);
    let gone: Vec<u32> = gone.collect();
    assert!(gone.len() < SHARDS as usize, "the other retriever owns some: {shards:?}");
    cluster.kill(&killed);
    for (command, told) in told(&cluster) {
        assert_eq!(told["shards_missing"], json!(gone), "{command}: {told}");
    }
    assert_eq!(listed(&cluster), (json!(gone), false));

    // The restarted retriever takes over its shards again.
    cluster.start_again(&killed).await;
    eventually("all shards answer again", async || {
        let all_told = told(&cluster);
        all_told.iter().all(|(_, told)| told["shards_missing"] == json!([])).then_some(())
    })
    .await;
    assert_eq!(listed(&cluster), (json!([]), true));
    drop(client);
    cluster.stop();
}
