//! Test of replacing and forgetting documents, killed thirty times.
//!
//! The test keeps a model: for each id, the contents that may be stored. Sending an operation adds
//! its result to them. Its acknowledgement leaves only this result. A killed operation may have
//! happened or not, but nothing in between.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clew_client::Client;
use clew_core::{CorpusName, Document};
use clew_proto::ingest::v1::{DocumentStage, ingest_response::Result as Outcome};
use fastrand::Rng;
use futures::StreamExt;
use tokio::sync::watch;

use super::KILLS;
use crate::client::{
    assert_whole, by_words, chunks, corpus, create_in_shards, document, id, idle, states, text_of,
};
use crate::harness::{Home, PATIENCE};
use crate::seed::random;
use crate::words::{text_with, word};

const IDS: usize = 60;
/// Several shards, so that an operation on some documents concerns some of the shards.
const SHARDS: u32 = 2;
/// Maximum numbers of documents in one stream and in one forgetting.
const STREAM: usize = 8;
const FORGET: usize = 3;
/// Maximum number of operations that are settled before a kill, and the maximum time from then to
/// the kill: about as long as forgetting takes.
const MOST_SETTLED: usize = 24;
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// Content of a document: the number of the revision, or `None` if it is absent.
type Content = Option<usize>;

struct Model {
    random: Rng,
    allowed: Vec<BTreeSet<Content>>,
    /// Ids with an operation under way.
    busy: BTreeSet<usize>,
    revisions: usize,
    settled: watch::Sender<usize>,
    is_killed: bool,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Model>>);

#[tokio::test(flavor = "multi_thread")]
async fn killed_replacements_and_deletions_happen_whole_or_not_at_all() {
    let mut random = random();
    let home = Home::new();
    let notes = corpus("notes");
    let model = Shared::new(random.fork());
    let mut server = home.serve();
    create_in_shards(&server.client().await, "notes", SHARDS).await;

    let mut hit_work = 0;
    for _ in 0..KILLS {
        let client = server.client().await;
        let mut settled = model.begin();
        let replacing = tokio::spawn(replace(model.clone(), client.clone(), notes.clone()));
        let forgetting = tokio::spawn(forget(model.clone(), client.clone(), notes.clone()));
        let wanted = random.usize(0..=MOST_SETTLED);
        let waiting = settled.wait_for(|settled| *settled >= wanted);
        tokio::time::timeout(PATIENCE, waiting).await.expect("operations come to an end").unwrap();
        tokio::time::sleep(LONGEST_DELAY.mul_f64(random.f64())).await;
        hit_work += usize::from(model.mark_killed() > 0);
        server.kill();
        for worker in [replacing, forgetting] {
            tokio::time::timeout(PATIENCE, worker).await.expect("it notices the kill").unwrap();
        }
        drop(client);
        server = home.serve();
        model.check_presence(&server.client().await, &notes).await;
    }
    println!("{hit_work} of {KILLS} kills hit an operation");
    assert!(hit_work >= KILLS / 2, "the kills came too late");

    let client = server.client().await;
    idle(&client, &notes).await;
    model.check_contents(&client, &notes).await;
}

fn revision(number: usize, revision: usize) -> Document {
    let text = text_with(&[&word('n', number), &word('r', revision)]);
    document(&name(number), text)
}

fn name(number: usize) -> String {
    format!("doc-{number:02}")
}

/// Replaces documents, several in each stream, until the server is killed.
async fn replace(model: Shared, client: Client, corpus: CorpusName) {
    loop {
        let documents = model.choose_replacements();
        let responses = match client.ingest(&corpus, futures::stream::iter(documents)).await {
            Ok(responses) => responses,
            Err(error) => return model.expect_killed(&error),
        };
        let mut responses = std::pin::pin!(responses);
        while let Some(response) = responses.next().await {
            match response {
                Ok(response) => match response.result {
                    Some(Outcome::Accepted(_)) => model.settle(&response.document_id, true),
                    other => panic!("`{}` was not accepted: {other:?}", response.document_id),
                },
                Err(error) => return model.expect_killed(&error),
            }
        }
    }
}

/// Forgets documents, several at a time, until the server is killed.
async fn forget(model: Shared, client: Client, corpus: CorpusName) {
    loop {
        let ids: Vec<_> = model.choose_forgotten().iter().map(|name| id(name)).collect();
        match client.forget(&corpus, &ids).await {
            Ok(receipt) => {
                assert!(receipt.verified, "{:?}", receipt.scan);
                receipt.documents.iter().for_each(|gone| model.settle(&gone.document_id, false));
            }
            Err(error) => return model.expect_killed(&error),
        }
    }
}

impl Shared {
    fn new(random: Rng) -> Self {
        let (settled, _) = watch::channel(0);
        let nothing = BTreeSet::from([None]);
        let allowed = vec![nothing; IDS];
        let (busy, revisions, is_killed) = (BTreeSet::new(), 0, false);
        Self(Arc::new(Mutex::new(Model { random, allowed, busy, revisions, settled, is_killed })))
    }

    /// Begins a round in which nothing is under way.
    fn begin(&self) -> watch::Receiver<usize> {
        let mut model = self.0.lock().unwrap();
        model.busy.clear();
        model.is_killed = false;
        model.settled.send_replace(0);
        model.settled.subscribe()
    }

    fn mark_killed(&self) -> usize {
        let mut model = self.0.lock().unwrap();
        model.is_killed = true;
        model.busy.len()
    }

    fn expect_killed(&self, error: &clew_core::Error) {
        assert!(self.0.lock().unwrap().is_killed, "{}", error.chain());
    }

    fn choose_replacements(&self) -> Vec<Document> {
        let mut model = self.0.lock().unwrap();
        let chosen = model.choose(STREAM);
        let replacements = chosen.into_iter().map(|number| {
            model.revisions += 1;
            let new = model.revisions;
            model.allowed[number].insert(Some(new));
            revision(number, new)
        });
        replacements.collect()
    }

    fn choose_forgotten(&self) -> Vec<String> {
        let mut model = self.0.lock().unwrap();
        let chosen = model.choose(FORGET);
        chosen
            .into_iter()
            .map(|number| {
                model.allowed[number].insert(None);
                name(number)
            })
            .collect()
    }

    /// Records an acknowledgement, which leaves only the newest revision or nothing.
    fn settle(&self, name: &str, is_kept: bool) {
        let mut model = self.0.lock().unwrap();
        let number: usize = name.trim_start_matches("doc-").parse().unwrap();
        assert!(model.busy.remove(&number), "`{name}` is acknowledged unasked");
        let newest = model.allowed[number].last().copied().flatten();
        model.allowed[number] = BTreeSet::from([newest.filter(|_| is_kept)]);
        model.settled.send_modify(|settled| *settled += 1);
    }

    /// Fails if a document is missing that must be stored, or stored that must not be.
    async fn check_presence(&self, client: &Client, corpus: &CorpusName) {
        let states = states(client, corpus).await;
        let model = self.0.lock().unwrap();
        assert!(states.len() <= IDS, "there are documents that no one sent");
        for (number, allowed) in model.allowed.iter().enumerate() {
            let is_there = states.contains_key(&name(number));
            let fits = allowed.iter().any(|content| content.is_some() == is_there);
            assert!(fits, "`{}` is there: {is_there}, allowed: {allowed:?}", name(number));
        }
    }

    /// Fails unless each document is one of its allowed contents, complete.
    async fn check_contents(&self, client: &Client, corpus: &CorpusName) {
        self.check_presence(client, corpus).await;
        let allowed = self.0.lock().unwrap().allowed.clone();
        let states = states(client, corpus).await;
        let ids: Vec<_> = (0..IDS).map(|number| id(&name(number))).collect();
        let chunks = chunks(client, corpus, &ids).await;
        assert!(chunks.keys().eq(states.keys()), "searches and the list do not agree");
        for (number, allowed) in allowed.iter().enumerate() {
            let name = name(number);
            let found = by_words(client, corpus, &word('n', number)).await;
            let Some(state) = states.get(&name) else {
                assert!(found.is_empty(), "`{name}` is gone but found");
                continue;
            };
            let text = text_of(client, corpus, &ids[number]).await;
            let contents: Vec<String> =
                allowed.iter().flatten().map(|new| revision(number, *new).text).collect();
            assert!(contents.contains(&text), "`{name}` is none of {allowed:?}: {text}");
            assert_eq!(state.stage(), DocumentStage::Indexed, "{state:?}");
            assert_eq!(assert_whole(&text, &chunks[&name]), state.version);
            assert_eq!(found.len(), chunks[&name].len(), "`{name}` is found in part or twice");
        }
    }
}

impl Model {
    /// Chooses up to `count` random ids that have no operation under way, and marks them as busy.
    fn choose(&mut self, count: usize) -> Vec<usize> {
        let free = (0..IDS).filter(|number| !self.busy.contains(number));
        let chosen = self.random.choose_multiple(free, count);
        self.busy.extend(&chosen);
        chosen
    }
}
