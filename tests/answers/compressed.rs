//! Tests of compressed memories: formed on encoders that come and go, asked for clues, and gone
//! with the documents that they cover.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{document, idle, remember};
use crate::harness::{Home, eventually, files_below};
use crate::processes::Cluster;

const CORPUS: &str = "tales";

/// Returns settings with a memory model whose tokens are bytes.
pub(crate) fn settings(folder: &tempfile::TempDir) -> Vec<(&'static str, String)> {
    clew_testkit::write_tiny_memory_model(folder.path(), 5).unwrap();
    vec![
        ("CLEW_MEMORY_MODEL__FOLDER", folder.path().to_string_lossy().into_owned()),
        ("CLEW_MEMORY_MODEL__DRAFT_TOKENS", "16".to_owned()),
        ("CLEW_RETRIEVER__MEMORY_INTERVAL_MS", "50".to_owned()),
    ]
}

fn tale(number: usize) -> clew_core::Document {
    let text = format!("Tale {number} is of a ship that sailed to port {number}. ").repeat(20);
    document(&format!("tale-{number:02}"), text)
}

fn create() -> [&'static str; 9] {
    [
        "corpus",
        "create",
        CORPUS,
        "--shards=2",
        "--no-structure",
        "--memory-ratio=4",
        "--memory-segment-tokens=1000",
        "--json",
        "--log=warn",
    ]
}

const LIST: [&str; 5] = ["memory", "list", "--corpus", CORPUS, "--json"];

/// Returns the documents of each memory.
fn covered(listed: &Value) -> Vec<BTreeSet<String>> {
    let memories = listed["memories"].as_array().unwrap().iter();
    let ids = |memory: &Value| {
        let parts = memory["parts"].as_array().unwrap().iter();
        parts.map(|part| part["document_id"].as_str().unwrap().to_owned()).collect()
    };
    memories.map(ids).collect()
}

fn keys(listed: &Value) -> Vec<String> {
    let memories = listed["memories"].as_array().unwrap().iter();
    memories.map(|memory| memory["key"].as_str().unwrap().to_owned()).collect()
}

/// Waits until memories cover all documents.
async fn all_covered(cluster: &Cluster, documents: usize) -> Value {
    let what = format!("{documents} documents are covered");
    eventually(&what, async || {
        let listed = cluster.run(&LIST).done();
        let is_covered =
            listed["covered_documents"] == documents && listed["documents"] == documents;
        is_covered.then_some(listed)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn memories_are_formed_by_encoders_that_are_killed_and_forgotten_with_their_documents() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start_with(2, settings(&folder)).await;
    cluster.start_again("encoder-1").await;
    let made = cluster.run(&create()).done();
    assert_eq!(made["memory"], json!({ "ratio": 4, "segment_tokens": 1000 }));
    let client = cluster.client().await;
    let tales = crate::client::corpus(CORPUS);
    remember(&client, &tales, (0..12).map(tale).collect()).await;
    // In the middle of forming, whichever encoder is at work.
    cluster.kill("encoder-1");
    remember(&client, &tales, (12..24).map(tale).collect()).await;
    cluster.start_again("encoder-1").await;
    idle(&client, &tales).await;
    let listed = all_covered(&cluster, 24).await;
    let memories = listed["memories"].as_array().unwrap();
    // 24 texts of a thousand bytes, over two shards, in memories of about four thousand bytes.
    assert!((6..=14).contains(&memories.len()), "{} memories", memories.len());
    let sum =
        |name: &str| memories.iter().map(|memory| memory[name].as_u64().unwrap()).sum::<u64>();
    assert!(sum("slots") * 2 < sum("tokens"), "{listed}");
    assert!(listed["model"]["window"].as_u64().unwrap() > 0);
    assert_eq!(listed["model"]["prompts"], "clew@1");

    let ask = [
        "ask",
        "--corpus",
        CORPUS,
        "--strategy",
        "memorag",
        "--json",
        "Which ship went to port 7?",
    ];
    let asked = cluster.run(&ask).done();
    let spent = |name: &str| asked["cost"][name].as_u64().unwrap();
    assert!(spent("model_calls") > 0 && spent("completion_tokens") > 0, "{asked}");
    // Answers of memories are reported where they are requested.
    let answers = |asked: &Value| -> usize {
        let steps = asked["trace"].as_array().unwrap().iter();
        let drafted = steps.filter(|step| step["step"] == "drafted");
        drafted.map(|step| step["answers"].as_array().unwrap().len()).sum()
    };
    let answered = cluster.run(&[&ask[..], &["--memory-use=answer"]].concat()).done();
    assert!(answers(&asked) == 0 && answers(&answered) > 0, "{answered}");

    // Another owner of the shards has the same memories.
    cluster.kill("retriever-0");
    let again = all_covered(&cluster, 24).await;
    assert_eq!(keys(&again), keys(&listed));
    cluster.start_again("retriever-0").await;

    let receipt =
        cluster.run(&["forget", "--corpus", CORPUS, "--json", "--document", "tale-07"]).done();
    assert_eq!(receipt["documents"][0]["memories"], 1, "{receipt}");
    assert_eq!(receipt["verified"], true);
    let gone: Vec<String> = keys(&listed)
        .into_iter()
        .zip(covered(&listed))
        .filter(|(_, ids)| ids.contains("tale-07"))
        .map(|(key, _)| key)
        .collect();
    for (path, bytes) in files_below(&cluster.data_dir()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!gone.iter().any(|key| name.contains(key)), "{}", path.display());
        let is_memory = name.ends_with(".memory");
        let told = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
        assert!(!(is_memory && told(b"tale-07")), "{}", path.display());
    }
    let listed = all_covered(&cluster, 23).await;
    assert!(!covered(&listed).iter().any(|ids| ids.contains("tale-07")));
    drop(client);
    cluster.stop();
}

#[test]
fn a_document_that_is_replaced_or_added_is_read_into_memories_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new();
    let mut command = home.serve_command();
    command.envs(settings(&folder));
    let server = crate::harness::Server::start(command);
    let run = |arguments: &[&str]| home.run_at(&server, arguments).done();
    run(&create());
    let write = |number: usize, text: &str| {
        let line = json!({ "id": format!("tale-{number:02}"), "text": text, "title": "Tales" });
        home.write(&format!("tale-{number}.jsonl"), format!("{line}\n"))
            .to_string_lossy()
            .into_owned()
    };
    let ingest = |file: &str| run(&["ingest", "--corpus", CORPUS, "--json", file]);
    let list = || run(&[&LIST[..], &["--wait-secs=60"]].concat());
    for number in 0..3 {
        ingest(&write(number, &tale(number).text));
    }
    let first = list();
    assert_eq!(first["covered_documents"], 3, "{first}");
    ingest(&write(1, &format!("{} It sank.", tale(1).text)));
    let second = list();
    assert_eq!(second["covered_documents"], 3, "{second}");
    let kept = |listed: &Value| -> BTreeSet<String> { keys(listed).into_iter().collect() };
    assert_ne!(kept(&first), kept(&second));
    let versions = |listed: &Value, wanted: &str| -> Vec<u64> {
        let parts = listed["memories"].as_array().unwrap().iter();
        let parts = parts.flat_map(|memory| memory["parts"].as_array().unwrap().clone());
        parts
            .filter(|part| part["document_id"] == wanted)
            .map(|part| part["version"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(versions(&second, "tale-01").len(), 1);
    assert!(versions(&second, "tale-01") > versions(&first, "tale-01"));
    let without = home.run_at(&server, &["memory", "list", "--corpus", "nobody", "--json"]);
    assert_eq!(without.error()["reason"], "NOT_FOUND");
    run(&["corpus", "create", "plain", "--json"]);
    let without = home.run_at(&server, &["memory", "list", "--corpus", "plain", "--json"]);
    assert_eq!(without.error()["reason"], "NO_COMPRESSED_MEMORY");
}

#[test]
fn a_corpus_whose_memories_cannot_be_kept_is_refused_with_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new();
    let mut command = home.serve_command();
    command.envs(settings(&folder)).env("CLEW_MEMORY_MODEL__CACHE_BYTES", "1048576");
    let server = crate::harness::Server::start(command);
    let create = |tokens: &str| {
        let segment = format!("--memory-segment-tokens={tokens}");
        home.run_at(&server, &["corpus", "create", CORPUS, "--memory-ratio=4", &segment, "--json"])
    };
    let refused = create("1000000").error();
    let message = refused["message"].as_str().unwrap();
    for part in ["corpus.memory.segment_tokens", "at most 1048576 bytes", "got ", "1000000 tokens"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    let listed = home.run_at(&server, &["corpus", "list", "--json"]).done();
    assert!(!listed.to_string().contains(CORPUS), "{listed}");
    create("300").done();
}
