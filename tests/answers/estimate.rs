//! Tests that estimates match what an ingestion takes: bytes on the disk, tokens and calls of
//! models, memories.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clew_client::Client;
use clew_core::CorpusName;
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use crate::client::{counts, id, structured};
use crate::harness::{Home, Server, eventually, files_below};

const PEOPLE: [&str; 12] = [
    "Maria Lindqvist",
    "Jon Okafor",
    "Ada Winter",
    "Carl Brandt",
    "Dora Keller",
    "Emil Sorensen",
    "Frida Vance",
    "Georg Amsel",
    "Hanna Ortiz",
    "Ivan Petrov",
    "Judith Marlow",
    "Karl Nyberg",
];
const PLACES: [&str; 8] =
    ["Bergen", "Lisbon", "Trieste", "Gdansk", "Marseille", "Rotterdam", "Aberdeen", "Naples"];
const NOUNS: [&str; 24] = [
    "ledger",
    "harbour",
    "warehouse",
    "contract",
    "herring",
    "railway",
    "archive",
    "letter",
    "voyage",
    "merchant",
    "engine",
    "committee",
    "cargo",
    "garden",
    "lantern",
    "bridge",
    "winter",
    "account",
    "question",
    "answer",
    "window",
    "machine",
    "river",
    "captain",
];
const VERBS: [&str; 16] = [
    "bought",
    "sold",
    "carried",
    "described",
    "measured",
    "repaired",
    "promised",
    "refused",
    "copied",
    "counted",
    "painted",
    "followed",
    "opened",
    "closed",
    "remembered",
    "searched",
];
const ADJECTIVES: [&str; 16] = [
    "old",
    "narrow",
    "expensive",
    "quiet",
    "broken",
    "famous",
    "distant",
    "careful",
    "northern",
    "silver",
    "hollow",
    "early",
    "second",
    "patient",
    "wooden",
    "uncertain",
];

/// Pseudo-random numbers, the same ones each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn sentence(&mut self) -> String {
        let (who, whom, place) = (self.of(&PEOPLE), self.of(&PEOPLE), self.of(&PLACES));
        let (verb, other) = (self.of(&VERBS), self.of(&VERBS));
        let (noun, thing, third) = (self.of(&NOUNS), self.of(&NOUNS), self.of(&NOUNS));
        let (how, which) = (self.of(&ADJECTIVES), self.of(&ADJECTIVES));
        match self.below(6) {
            0 => format!("{who} {verb} the {how} {noun} of {whom} in {place}."),
            1 => format!(
                "In the {which} {noun} nobody {verb} the {thing}, and the {how} {third} was {other} twice."
            ),
            2 => format!(
                "{who} met {whom} near the {how} {noun}, where they {verb} a {which} {thing}."
            ),
            3 => {
                format!("What the {noun} {verb} in {} was a {how} {thing}.", 1800 + self.below(200))
            }
            4 => format!(
                "The {how} {noun} that {who} {verb} lay beside the {third}, far from {place}."
            ),
            _ => format!(
                "Every {noun} has a {which} {thing}, but the {third} {verb} {} of them.",
                self.below(900)
            ),
        }
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            for _ in 0..3 + self.below(6) {
                text.push_str(&self.sentence());
                text.push(' ');
            }
            text.truncate(text.trim_end().len());
            text.push_str("\n\n");
        }
        text
    }
}

/// Writes documents of several lengths to a folder, each of at least `least` bytes.
fn write_documents(home: &Home, folder: &str, seed: u64, count: usize, least: usize) -> String {
    let mut draw = Draw(seed);
    for number in 0..count {
        let bytes = least + draw.below(30_000);
        home.write(&format!("{folder}/{number:03}.txt"), draw.text(bytes));
    }
    home.path(folder).display().to_string()
}

fn assert_near(what: &str, estimated: &Value, took: u64) {
    let estimated = estimated.as_u64().unwrap() as f64;
    println!("{what}: estimated {estimated}, took {took}");
    let off = (estimated / took as f64 - 1.0).abs();
    assert!(off <= 0.2, "{what}: estimated {estimated}, took {took}");
}

/// Returns the size of a corpus on the disk, after older versions of its tables are removed.
async fn stored_bytes(home: &Home, client: &Client, notes: &CorpusName) -> u64 {
    client.forget(notes, &[id("nothing-of-that-name")]).await.unwrap();
    let files = files_below(&home.data_dir().join("corpora"));
    files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

fn ingest(home: &Home, server: &Server, folder: &str, more: &[&str]) -> Value {
    home.run_at(server, &[&["ingest", "--corpus", "notes", folder, "--json"], more].concat()).done()
}

/// Waits until the words of the chunks are indexed, which happens behind a fast ingestion.
async fn words_indexed(home: &Home) {
    /// More than an index without words has.
    const SOME_BYTES: usize = 10_000;
    eventually("the words of the chunks are indexed", async || {
        let files = files_below(&home.data_dir().join("corpora"));
        let is_index = |path: &Path| {
            let has = |name: &str| path.components().any(|part| part.as_os_str() == name);
            has("chunks.lance") && has("_indices")
        };
        let of_index = files.iter().filter(|(path, _)| is_index(path));
        let bytes: usize = of_index.map(|(_, bytes)| bytes.len()).sum();
        (bytes > SOME_BYTES).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_near_what_reading_by_rules_then_takes() {
    let home = Home::new();
    let folder = write_documents(&home, "docs", 7, 30, 2_000);
    let server = home.serve();
    let estimated = ingest(&home, &server, &folder, &["--estimate"]);
    assert_eq!(estimated["model_calls"], 0, "{estimated}");
    assert_eq!(
        (&estimated["basis"], &estimated["sampled_documents"]),
        (&json!("of these files"), &json!(30))
    );
    let client = server.client().await;
    let notes = crate::client::corpus("notes");
    assert!(client.corpora().await.unwrap().is_empty(), "an estimate creates nothing");
    let taken = ingest(&home, &server, &folder, &[]);
    structured(&client, &notes).await;
    words_indexed(&home).await;
    let counted = counts(&client, &notes).await;
    assert_near("tokens", &estimated["tokens"], taken["tokens"].as_u64().unwrap());
    assert_near("chunks", &estimated["chunks"], counted.chunks);
    assert_near("nodes", &estimated["nodes"], counted.nodes);
    let stored = stored_bytes(&home, &client, &notes).await;
    assert_near("stored bytes", &estimated["stored_bytes"], stored);
}

/// Waits until one tree node stands above all documents.
async fn whole(home: &Home, server: &Server) {
    eventually("the tree has a top", async || {
        let tree = ["tree", "--corpus", "notes", "--depth", "1", "--json"];
        let tree = home.run_at(server, &tree).done();
        (tree["nodes"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
}

/// Numbers of calls and words that the model's server reports.
#[derive(Default)]
struct Told {
    calls: AtomicU64,
    prompt: AtomicU64,
    reply: AtomicU64,
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Replies as a model that names the names it knows, relates those of a sentence, and summarises a
/// text by its beginning.
fn read(request: &ModelRequest) -> String {
    let messages = request.messages();
    let (system, user) = (messages[0].1, request.last());
    let named_in = |text: &str| -> Vec<&str> {
        PEOPLE.iter().chain(&PLACES).filter(|name| text.contains(*name)).copied().collect()
    };
    if system.starts_with("You condense") {
        let most = system.split("at most ").nth(1).and_then(|rest| rest.split(' ').next());
        let most: usize = most.and_then(|number| number.parse().ok()).unwrap();
        let text = user.split_once("\n\n").unwrap().1;
        let said: Vec<&str> = text.split_whitespace().take(most * 3 / 4).collect();
        return said.join(" ").replace(['[', ']'], "");
    }
    let passage = user.split_once("Passage:\n").unwrap().1;
    if system.starts_with("You list") {
        let kind = |name: &str| if PLACES.contains(&name) { "place" } else { "person" };
        let entity = |name: &&str| json!({ "name": name, "kind": kind(name) });
        let entities: Vec<Value> = named_in(passage).iter().map(entity).collect();
        return json!({ "entities": entities }).to_string();
    }
    assert!(system.starts_with("You describe how"), "{system}");
    let listed = user.split_once("Entities:\n\n").unwrap().1.split("\n\nPassage:").next().unwrap();
    let listed: Vec<&str> = listed
        .split("\n\n")
        .filter_map(|line| line.split_once("] "))
        .map(|(_, name)| name)
        .collect();
    let mut relations = Vec::new();
    for sentence in passage.split(". ") {
        let place = |name: &&str| listed.iter().position(|listed| listed == name);
        let places: Vec<usize> = named_in(sentence).iter().filter_map(place).collect();
        if let [head, tail, ..] = places[..] {
            let relation =
                sentence.split_whitespace().skip(2).take(3).collect::<Vec<_>>().join(" ");
            relations.push(json!({ "head": head + 1, "relation": relation, "tail": tail + 1, "quote": sentence }));
        }
    }
    json!({ "relations": relations }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_near_what_a_model_is_then_asked_and_says() {
    let endpoint = ModelEndpoint::start().unwrap();
    let told = Arc::new(Told::default());
    let counting = Arc::clone(&told);
    endpoint.reply_by(move |request| {
        let reply = read(request);
        counting.calls.fetch_add(1, Ordering::Relaxed);
        let prompt = request.messages().iter().map(|(_, text)| words(text)).sum::<u64>();
        counting.prompt.fetch_add(prompt, Ordering::Relaxed);
        counting.reply.fetch_add(words(&reply), Ordering::Relaxed);
        ModelReply::Text(reply)
    });
    let home = Home::new();
    let first = write_documents(&home, "first", 3, 3, 2_000);
    let folder = write_documents(&home, "docs", 11, 8, 2_000);
    let mut command = home.serve_command();
    command.env("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "test");
    command.env("CLEW_GRAPH_BUILDER__READER", "model");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = crate::client::corpus("notes");
    // From now on the server knows how the model counts tokens.
    ingest(&home, &server, &first, &[]);
    structured(&client, &notes).await;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    whole(&home, &server).await;
    let before = [&told.calls, &told.prompt, &told.reply].map(read);
    let estimated = ingest(&home, &server, &folder, &["--estimate"]);
    assert_eq!([&told.calls, &told.prompt, &told.reply].map(read), before, "no model is asked");
    ingest(&home, &server, &folder, &[]);
    structured(&client, &notes).await;
    whole(&home, &server).await;
    let took = |counter, place: usize| read(counter) - before[place];
    assert_near("calls", &estimated["model_calls"], took(&told.calls, 0));
    assert_near("prompt tokens", &estimated["prompt_tokens"], took(&told.prompt, 1));
    assert_near("completion tokens", &estimated["completion_tokens"], took(&told.reply, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_near_what_compressed_memories_then_take() {
    let model = tempfile::tempdir().unwrap();
    let home = Home::new();
    let mut command = home.serve_command();
    command.envs(crate::compressed::settings(&model));
    let server = Server::start(command);
    let create = ["corpus", "create", "notes", "--no-structure", "--json"];
    let memories = ["--memory-ratio=4", "--memory-segment-tokens=1000"];
    home.run_at(&server, &[&create[..], &memories].concat()).done();
    // No document fits into a memory beside another, so their order does not matter.
    let folder = write_documents(&home, "docs", 13, 12, 5_000);
    let estimated = ingest(&home, &server, &folder, &["--estimate"]);
    ingest(&home, &server, &folder, &[]);
    let listed = eventually("all is covered", async || {
        let listed = ["memory", "list", "--corpus", "notes", "--json"];
        let listed = home.run_at(&server, &listed).done();
        (listed["covered_documents"] == 12).then_some(listed)
    })
    .await;
    let memories = listed["memories"].as_array().unwrap();
    let sum = |field: &str| memories.iter().map(|it| it[field].as_u64().unwrap()).sum::<u64>();
    assert_near("memories", &estimated["memories"], memories.len() as u64);
    assert_near("memory tokens", &estimated["memory_tokens"], sum("tokens"));
    assert_near("memory bytes", &estimated["memory_bytes"], sum("bytes"));
}
