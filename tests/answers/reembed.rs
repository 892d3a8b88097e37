//! Tests of moving a corpus to another embedding model: while it is used, through kills, in a
//! cluster, and back.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clew_client::Client;
use clew_core::{
    Chunking, CorpusName, Embedding, Encoder, Priority, Query, SearchMode, StructureSettings,
    TextKind,
};
use clew_memory_encoder::{EncoderConfig, EncoderPool};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::corpus::v1 as wire;
use clew_proto::corpus::v1::{ReembedStep as Step, ReembeddingPhase as Phase};
use clew_proto::query::v1::Evidence;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{
    CHUNK_TOKENS, accept, assert_whole, by_words, chunks, corpus, document, id, idle, remember,
};
use crate::harness::{Home, PATIENCE, Ran, Server, eventually};
use crate::other_models::write_narrow_bert;
use crate::processes::Cluster;
use crate::seed::random;
use crate::words::word;

const SHARDS: u32 = 2;
/// Number of documents: so many that filling takes several commits of each shard.
const DOCUMENTS: usize = 48;
const PARAGRAPHS: usize = 12;
/// Number of kills while vectors are filled in.
const KILLS: usize = 4;
/// Maximum time from a start to the kill: about as long as filling takes.
const LONGEST_DELAY: Duration = Duration::from_millis(300);
/// Number of nearest chunks by which recall is measured.
const K: usize = 10;
const QUESTIONS: usize = 12;
/// Folders of both models, after which they are named.
const MODELS: [&str; 2] = ["model", "narrow"];

/// Words that the tiny models know.
const KNOWN: [&str; 24] = [
    "house", "city", "river", "tea", "dog", "cat", "book", "letter", "train", "friend", "mother",
    "father", "year", "day", "night", "morning", "spring", "summer", "autumn", "winter", "lives",
    "moved", "found", "lost",
];

/// Returns a home with a second model, whose vectors have half the dimension of the first one's.
fn home() -> Home {
    let home = Home::new();
    write_narrow_bert(&home.path(MODELS[1]));
    home
}

/// Returns the settings of nodes: both models, and work in small pieces.
fn settings(narrow: &std::path::Path) -> Vec<(&'static str, String)> {
    vec![
        ("CLEW_ENCODER__NEXT_MODEL", narrow.display().to_string()),
        ("CLEW_ENCODER__PRECISION", "float32".to_owned()),
        ("CLEW_ENCODER__THREADS", "1".to_owned()),
        ("CLEW_RETRIEVER__DERIVE_BYTES", (16 << 10).to_string()),
        ("CLEW_RETRIEVER__DERIVE_BATCHES", "1".to_owned()),
    ]
}

fn serve_command(home: &Home) -> Command {
    let mut command = home.serve_command();
    command.envs(settings(&home.path(MODELS[1])));
    command.env("CLEW_STORAGE__SNAPSHOTS", home.path("snapshots"));
    command
}

fn serve(home: &Home) -> Server {
    Server::start(serve_command(home))
}

/// Returns a text of several chunks, each with words of its own.
fn text(number: usize) -> String {
    let mut random = Rng::with_seed(number as u64);
    let paragraph = |part: usize| {
        let known: Vec<&str> = (0..20).map(|_| KNOWN[random.usize(..KNOWN.len())]).collect();
        format!("{} {} {}.", word('n', number), known.join(" "), word('p', part))
    };
    (0..PARAGRAPHS).map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn name(number: usize) -> String {
    format!("d{number}")
}

async fn create(client: &Client, structure: Option<StructureSettings>) -> CorpusName {
    let new = NewCorpus {
        name: corpus("notes"),
        shards: SHARDS,
        chunking: Some(Chunking::Sections { max_tokens: CHUNK_TOKENS }),
        structure,
        retention_days: None,
        memory: None,
        chat: None,
    };
    client.create_corpus(new.clone()).await.unwrap();
    new.name
}

/// Creates a corpus of documents that can all be found.
async fn furnish(client: &Client) -> CorpusName {
    furnish_with(client, None).await
}

async fn furnish_with(client: &Client, structure: Option<StructureSettings>) -> CorpusName {
    let notes = create(client, structure).await;
    remember(client, &notes, (0..DOCUMENTS).map(|i| document(&name(i), text(i))).collect()).await;
    notes
}

/// Returns all chunks of the documents, in the order of the texts.
async fn stored(client: &Client, notes: &CorpusName) -> Vec<Evidence> {
    let ids: Vec<_> = (0..DOCUMENTS).map(|number| id(&name(number))).collect();
    let chunks = chunks(client, notes, &ids).await;
    for number in 0..DOCUMENTS {
        assert_whole(&text(number), &chunks[&name(number)]);
    }
    chunks.into_values().flatten().collect()
}

/// Searches that run while a corpus moves, and their number.
struct Load {
    ends: Arc<AtomicBool>,
    searches: Arc<AtomicUsize>,
    searching: JoinHandle<()>,
}

impl Load {
    /// Searches for one chunk after the other in every mode, until told to end. Every search must
    /// rank the chunk first.
    fn start(client: Client, notes: &CorpusName, stored: &[Evidence]) -> Self {
        let (ends, searches) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ended, searched) = (Arc::clone(&ends), Arc::clone(&searches));
        let (notes, stored) = (notes.clone(), stored.to_vec());
        let searching = tokio::spawn(async move {
            for chunk in stored.iter().cycle() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let number = searched.fetch_add(1, Ordering::Relaxed);
                let (mode, exact) = [
                    (SearchMode::Dense, true),
                    (SearchMode::Dense, false),
                    (SearchMode::Hybrid, false),
                ][number % 3];
                let query = Query { mode, exact, ..Query::new(&chunk.text, 3) };
                let found = client.search(&notes, query).await.unwrap_or_else(|error| {
                    panic!("search {number} failed: {}", error.chain());
                });
                assert!(found.shards_missing.is_empty(), "search {number} missed a shard");
                let first = &found.evidence[0];
                assert_eq!(first.chunk_id, chunk.chunk_id, "{mode:?} {exact}: {first:?}");
            }
        });
        Self { ends, searches, searching }
    }

    /// Waits until this many more searches have ended.
    async fn goes_on(&self, searches: usize) {
        let wanted = self.searches.load(Ordering::Relaxed) + searches;
        eventually("the load goes on", async || {
            assert!(!self.searching.is_finished(), "the load ended");
            (self.searches.load(Ordering::Relaxed) > wanted).then_some(())
        })
        .await;
    }

    async fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.searching.await.unwrap();
    }
}

/// Chunks nearest to questions by vectors of both models, which are computed in this process.
struct Yardstick {
    questions: Vec<String>,
    /// Ids of chunks, `[models][questions][K]`.
    nearest: Vec<Vec<Vec<String>>>,
}

impl Yardstick {
    async fn new(home: &Home, stored: &[Evidence]) -> Self {
        let mut random = Rng::with_seed(1);
        let mut question = || (0..6).map(|_| KNOWN[random.usize(..KNOWN.len())]).collect();
        let questions: Vec<Vec<&str>> = (0..QUESTIONS).map(|_| question()).collect();
        let questions: Vec<String> = questions.iter().map(|words| words.join(" ")).collect();
        let config =
            EncoderConfig { precision: "float32".to_owned(), threads: 1, ..Default::default() };
        let mut nearest = Vec::new();
        for model in MODELS {
            let encoder = EncoderPool::load(home.path(model), &config).await.unwrap();
            let embed = async |texts, kind| {
                let deadline = Instant::now() + PATIENCE;
                encoder.embed(texts, kind, Priority::Interactive, deadline).await.unwrap()
            };
            let texts = stored.iter().map(|chunk| chunk.text.clone()).collect();
            let chunks = embed(texts, TextKind::Passage).await;
            let asked = embed(questions.clone(), TextKind::Query).await;
            encoder.stop().await;
            nearest.push(asked.iter().map(|question| ranked(question, &chunks, stored)).collect());
        }
        Self { questions, nearest }
    }

    /// Returns, for each model, the share of its nearest chunks that an exact search finds.
    async fn recall(&self, client: &Client, notes: &CorpusName) -> [f32; 2] {
        let mut found = [0, 0];
        for (number, question) in self.questions.iter().enumerate() {
            let query = Query { mode: SearchMode::Dense, exact: true, ..Query::new(question, K) };
            let answer = client.search(notes, query).await.unwrap().evidence;
            for (model, found) in found.iter_mut().enumerate() {
                let nearest = &self.nearest[model][number];
                *found += answer.iter().filter(|item| nearest.contains(&item.chunk_id)).count();
            }
        }
        found.map(|found| found as f32 / (QUESTIONS * K) as f32)
    }

    /// Fails unless searches rank as the model with this index does, and the other one would rank
    /// differently.
    async fn assert_ranks(&self, client: &Client, notes: &CorpusName, model: usize) {
        let recall = self.recall(client, notes).await;
        println!("recall@{K} by {MODELS:?}: {recall:?}");
        // Chunks of the same similarity may change places.
        assert!(recall[model] >= 0.98, "{recall:?}");
        assert!(recall[1 - model] < 0.9, "{recall:?}");
    }
}

/// Returns the ids of the chunks that are most similar to a question.
fn ranked(question: &Embedding, chunks: &[Embedding], stored: &[Evidence]) -> Vec<String> {
    let cosine = |chunk: &Embedding| -> f32 {
        chunk.vector.iter().zip(&question.vector).map(|(a, b)| a * b).sum()
    };
    let mut ranked: Vec<(f32, &Evidence)> = chunks.iter().map(cosine).zip(stored).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(K).map(|(_, item)| item.chunk_id.clone()).collect()
}

async fn take(client: &Client, notes: &CorpusName, step: Step) -> wire::ReembedCorpusResponse {
    client.reembed_corpus(notes, step, "").await.unwrap_or_else(|error| {
        panic!("{step:?}: {}", error.chain());
    })
}

/// Waits until all documents have their vectors.
async fn filled(client: &Client, notes: &CorpusName) {
    eventually("all documents have their vectors", async || {
        // A shard does not answer while it moves.
        let told = client.reembedding(notes).await.ok()?;
        told.progress?.complete.then_some(())
    })
    .await;
}

/// Returns the model that is searched, and the phase of the move.
fn state(corpus: Option<&wire::Corpus>) -> (String, Option<Phase>) {
    let corpus = corpus.unwrap();
    let phase = corpus.reembedding.as_ref().map(wire::Reembedding::phase);
    (corpus.encoder.clone().unwrap().model, phase)
}

async fn now(client: &Client, notes: &CorpusName) -> (String, Option<Phase>) {
    state(Some(&client.corpus(notes).await.unwrap()))
}

fn is(model: usize, phase: Phase) -> (String, Option<Phase>) {
    (MODELS[model].to_owned(), Some(phase))
}

fn assert_sound(ran: &Ran) {
    let report = ran.done();
    let sound = |corpus: &Value| corpus["breaches"] == 0;
    assert!(report["corpora"].as_array().unwrap().iter().all(sound), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corpus_moves_to_another_model_and_back_while_it_is_searched_and_written_to() {
    let home = home();
    let server = serve(&home);
    let client = server.client().await;
    let notes = furnish_with(&client, Some(StructureSettings::default())).await;
    let before = stored(&client, &notes).await;
    let yardstick = Yardstick::new(&home, &before).await;
    yardstick.assert_ranks(&client, &notes, 0).await;
    let run = |arguments: &[&str]| {
        let arguments = [&["corpus", "reembed"], arguments, &["notes", "--json"]].concat();
        home.run_at(&server, &arguments)
    };
    assert_eq!(run(&["cut-over"]).error()["reason"], "REEMBEDDING_STATE");
    let unknown =
        home.run_at(&server, &["corpus", "reembed", "start", "notes", "--to", "other", "--json"]);
    assert_eq!(unknown.error()["reason"], "MODEL_NOT_OFFERED");

    let load = Load::start(server.client().await, &notes, &before);
    load.goes_on(9).await;
    let started = take(&client, &notes, Step::Start).await;
    assert_eq!(state(started.corpus.as_ref()), is(0, Phase::Filling));
    // A cut-over is refused until all documents have vectors of the new model.
    let early = client.reembed_corpus(&notes, Step::CutOver, "").await.unwrap_err();
    assert_eq!(early.reason(), "REEMBEDDING_UNFINISHED", "{}", early.chain());
    // The corpus is written to meanwhile.
    for round in 0..4 {
        let some = |kind: &str| {
            let name = format!("{kind}{round}");
            document(&name, format!("{name} {} is by the river", word('r', round)))
        };
        accept(&client, &notes, vec![some("new"), some("gone")]).await;
        client.forget(&notes, &[id(&format!("gone{round}"))]).await.unwrap();
    }
    let listed = home.run_at(&server, &["corpus", "list", "--json"]).done();
    let under_way = json!({
        "phase": "filling", "other_model": MODELS[1], "first_model": MODELS[0], "number": 1
    });
    assert_eq!(listed["corpora"][0]["reembedding"], under_way, "{listed}");
    idle(&client, &notes).await;
    let told = run(&["status", "--wait"]).done();
    assert_eq!((&told["complete"], &told["outdated"]), (&json!(true), &json!(0)), "{told}");
    assert_eq!(told["documents"], DOCUMENTS + 4, "{told}");
    assert_eq!(told["reembedding"]["phase"], "filling", "{told}");
    yardstick.assert_ranks(&client, &notes, 0).await;
    load.goes_on(9).await;

    // Each step twice: the second time nothing happens.
    let steps = [
        ("start", 0, Phase::Filling),
        ("cut-over", 1, Phase::CutOver),
        ("cut-over", 1, Phase::CutOver),
        ("back", 0, Phase::Filling),
        ("back", 0, Phase::Filling),
        ("cut-over", 1, Phase::CutOver),
        ("confirm", 1, Phase::Confirmed),
        ("confirm", 1, Phase::Confirmed),
    ];
    for (number, (step, model, phase)) in steps.into_iter().enumerate() {
        let told = run(&[step]).done();
        assert_eq!(told["model"], MODELS[model], "{step}: {told}");
        assert_eq!(now(&client, &notes).await, is(model, phase), "{step}");
        yardstick.assert_ranks(&client, &notes, model).await;
        load.goes_on(3).await;
        // New documents are found by the model that is searched.
        let text = format!("{} by the river", word('l', number));
        remember(&client, &notes, vec![document(&format!("late{number}"), text.clone())]).await;
        let query = Query { mode: SearchMode::Dense, exact: true, ..Query::new(&text, 1) };
        let first = client.search(&notes, query).await.unwrap().evidence.remove(0);
        assert_eq!(first.text, text, "{step}");
    }
    assert_eq!(run(&["abandon"]).error()["reason"], "REEMBEDDING_STATE");
    filled(&client, &notes).await;
    load.goes_on(9).await;
    load.end().await;

    // Passages and their ids are unchanged.
    let places = |chunks: &[Evidence]| -> BTreeMap<String, String> {
        chunks.iter().map(|item| (item.chunk_id.clone(), item.text.clone())).collect()
    };
    assert_eq!(places(&stored(&client, &notes).await), places(&before));
    for round in 0..4 {
        let found: Vec<String> = by_words(&client, &notes, &word('r', round))
            .await
            .into_iter()
            .map(|item| item.document_id)
            .collect();
        assert_eq!(found, [format!("new{round}")]);
    }
    assert_sound(&home.run_at(&server, &["check", "--json"]));
    assert!(server.terminate().success());
}

/// Move that a kill may hit at any moment.
struct Killed<'a> {
    home: &'a Home,
    server: Server,
    notes: CorpusName,
    random: Rng,
}

impl Killed<'_> {
    async fn restart(&mut self) -> Client {
        self.server.kill();
        self.server = serve(self.home);
        self.server.client().await
    }

    /// Takes a step, kills the server during it or just after, and takes the step again.
    async fn take(&mut self, step: Step, model: usize, phase: Phase) -> Client {
        let before = now(&self.server.client().await, &self.notes).await;
        let (client, notes) = (self.server.client().await, self.notes.clone());
        let taking = tokio::spawn(async move { client.reembed_corpus(&notes, step, "").await });
        tokio::time::sleep(Duration::from_millis(self.random.u64(0..20))).await;
        let client = self.restart().await;
        let is_taken = taking.await.unwrap().is_ok();
        let after = now(&client, &self.notes).await;
        println!("{step:?}: acknowledged {is_taken}, {after:?}");
        assert!(after == is(model, phase) || (!is_taken && after == before), "{after:?}");
        take(&client, &self.notes, step).await;
        assert_eq!(now(&client, &self.notes).await, is(model, phase));
        client
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_goes_on_after_kills_at_every_stage() {
    let home = home();
    let server = serve(&home);
    let client = server.client().await;
    let notes = furnish(&client).await;
    let before = stored(&client, &notes).await;
    let yardstick = Yardstick::new(&home, &before).await;
    let mut killed = Killed { home: &home, server, notes: notes.clone(), random: random() };

    let mut client = killed.take(Step::Start, 0, Phase::Filling).await;
    let mut hit = 0;
    for _ in 0..KILLS {
        tokio::time::sleep(LONGEST_DELAY.mul_f64(killed.random.f64())).await;
        let told = client.reembedding(&notes).await.unwrap();
        hit += usize::from(!told.progress.unwrap().complete);
        client = killed.restart().await;
        yardstick.assert_ranks(&client, &notes, 0).await;
    }
    println!("{hit} of {KILLS} kills hit the filling");
    filled(&client, &notes).await;
    for (step, model, phase) in [
        (Step::CutOver, 1, Phase::CutOver),
        (Step::Back, 0, Phase::Filling),
        (Step::CutOver, 1, Phase::CutOver),
        (Step::Confirm, 1, Phase::Confirmed),
    ] {
        let client = killed.take(step, model, phase).await;
        filled(&client, &notes).await;
        yardstick.assert_ranks(&client, &notes, model).await;
    }
    let client = killed.restart().await;
    yardstick.assert_ranks(&client, &notes, 1).await;
    assert_eq!(stored(&client, &notes).await.len(), before.len());
    assert_sound(&home.run_at(&killed.server, &["check", "--json"]));
    assert!(killed.server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_a_corpus_while_all_gateways_search_and_a_node_is_lost() {
    let home = home();
    let mut cluster = Cluster::start_with(2, settings(&home.path(MODELS[1]))).await;
    cluster.start_again("gateway-1").await;
    let client = cluster.client().await;
    let other = cluster.node("gateway-1").client().await;
    let notes = furnish(&client).await;
    let before = stored(&client, &notes).await;
    let yardstick = Yardstick::new(&home, &before).await;
    yardstick.assert_ranks(&client, &notes, 0).await;

    take(&client, &notes, Step::Start).await;
    cluster.kill("retriever-1");
    cluster.start_again("retriever-1").await;
    filled(&client, &notes).await;
    idle(&client, &notes).await;
    // From now on shards stay where they are, once the node that came back owns its own again.
    eventually("the shards are where they belong", async || {
        for _ in 0..20 {
            let found = other.search(&notes, Query::new("river", 1)).await.ok()?;
            if !found.shards_missing.is_empty() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(())
    })
    .await;
    let loads = [
        Load::start(cluster.client().await, &notes, &before),
        Load::start(cluster.node("gateway-1").client().await, &notes, &before),
    ];
    for (step, model) in [(Step::CutOver, 1), (Step::Back, 0), (Step::CutOver, 1)] {
        take(&client, &notes, step).await;
        yardstick.assert_ranks(&client, &notes, model).await;
        for load in &loads {
            load.goes_on(9).await;
        }
    }
    // Through the other gateway, which may not have heard of the previous step.
    take(&client, &notes, Step::Back).await;
    take(&other, &notes, Step::CutOver).await;
    take(&client, &notes, Step::Confirm).await;
    let again = other.reembed_corpus(&notes, Step::Back, "").await.unwrap_err();
    assert_eq!(again.reason(), "REEMBEDDING_STATE", "{}", again.chain());
    for load in &loads {
        load.goes_on(30).await;
    }
    for load in loads {
        load.end().await;
    }
    for client in [&client, &other] {
        yardstick.assert_ranks(client, &notes, 1).await;
        assert_eq!(now(client, &notes).await, is(1, Phase::Confirmed));
    }
    assert_sound(&cluster.run(&["check", "--json"]));
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_taken_in_the_middle_goes_on_where_it_is_restored() {
    let home = home();
    let server = serve(&home);
    let client = server.client().await;
    let notes = furnish(&client).await;
    let before = stored(&client, &notes).await;
    let yardstick = Yardstick::new(&home, &before).await;
    take(&client, &notes, Step::Start).await;
    let taken = home.run_at(&server, &["corpus", "snapshot", "notes", "middle", "--json"]).done();
    assert_eq!(taken["documents"], DOCUMENTS, "{taken}");
    // The corpus moves on and is deleted.
    client.reembed_corpus(&notes, Step::Abandon, "").await.unwrap();
    client.delete_corpus(&notes).await.unwrap();
    home.run_at(&server, &["corpus", "restore", "notes", "middle", "--json"]).done();
    assert_eq!(now(&client, &notes).await, is(0, Phase::Filling));
    yardstick.assert_ranks(&client, &notes, 0).await;
    filled(&client, &notes).await;
    take(&client, &notes, Step::CutOver).await;
    yardstick.assert_ranks(&client, &notes, 1).await;
    assert_sound(&home.run_at(&server, &["check", "--json"]));
    assert!(server.terminate().success());
}
