//! Clients that go on while a cluster is hurt, and what was acknowledged to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clew_client::Client;
use clew_core::{CorpusName, Error, ErrorKind, SearchMode};
use clew_proto::ingest::v1::{DocumentStage, ingest_response};
use futures::StreamExt;
use tokio::task::JoinHandle;

use super::processes::{Cluster, REQUEST_PATIENCE};
use crate::client::{assert_whole, by_words, chunks, document, id, query, text_of};
use crate::words::{text_with, word};

/// Documents that are written over and over.
const IDS: usize = 24;
/// In every chunk of every document.
const EVERYWHERE: &str = "xlantern";

/// Runs until it is told to stop.
pub struct Driver {
    is_done: Arc<AtomicBool>,
    writing: JoinHandle<Told>,
    reading: JoinHandle<Told>,
}

/// What a document may be now.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Texts of which one must be there, or nothing if `None` is among them: what was acknowledged
    /// last, and what was offered since without an answer.
    possible: Vec<Option<String>>,
}

/// What clients were told.
#[derive(Debug, Default)]
pub struct Told {
    documents: BTreeMap<String, Known>,
    writes: usize,
    searches: usize,
    partial: usize,
    /// Errors that came although they may be retried.
    failures: Vec<String>,
}

impl Driver {
    pub async fn start(cluster: &Cluster, corpus: &CorpusName, seed: u64) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let endpoint = cluster.endpoint();
        let writing = tokio::spawn(write(
            endpoint.clone(),
            corpus.clone(),
            fastrand::Rng::with_seed(seed),
            Arc::clone(&is_done),
        ));
        let reading = tokio::spawn(read(endpoint, corpus.clone(), Arc::clone(&is_done)));
        Self { is_done, writing, reading }
    }

    pub async fn stop(self) -> Told {
        self.is_done.store(true, Ordering::SeqCst);
        let mut told = self.writing.await.unwrap();
        let read = self.reading.await.unwrap();
        told.searches = read.searches;
        told.partial = read.partial;
        told.failures.extend(read.failures);
        told
    }
}

/// The text of a document's version: two words that no other version has.
fn text(name: usize, version: usize) -> String {
    text_with(&[EVERYWHERE, &word('n', name), &word('v', version)])
}

/// Writes and forgets, one after the other, and notes what was acknowledged.
async fn write(
    endpoint: String,
    corpus: CorpusName,
    mut random: fastrand::Rng,
    is_done: Arc<AtomicBool>,
) -> Told {
    let mut told = Told::default();
    let mut version = 0;
    while !is_done.load(Ordering::SeqCst) {
        let Ok(client) = Client::connect(&endpoint, REQUEST_PATIENCE).await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        // Until the connection fails.
        while !is_done.load(Ordering::SeqCst) {
            let name = random.usize(..IDS);
            let key = format!("d{name}");
            let (wanted, result) = if random.u8(..) < 40 {
                (None, client.forget(&corpus, &[id(&key)]).await.map(drop))
            } else {
                version += 1;
                let new = text(name, version);
                let offered = offer(&client, &corpus, document(&key, new.clone())).await;
                (Some(new), offered)
            };
            told.writes += 1;
            let known = told.documents.entry(key).or_insert_with(|| Known { possible: vec![None] });
            match result {
                Ok(()) => known.possible = vec![wanted],
                Err(error) => {
                    // It may have happened all the same.
                    known.possible.push(wanted);
                    assert!(is_expected(&error), "{}", error.chain());
                    told.failures.push(error.chain());
                    break;
                }
            }
        }
    }
    told
}

/// Sends one document and waits for its acknowledgement.
async fn offer(
    client: &Client,
    corpus: &CorpusName,
    document: clew_core::Document,
) -> Result<(), Error> {
    let sending = async {
        let responses = client.ingest(corpus, futures::stream::iter([document])).await?;
        futures::pin_mut!(responses);
        let response = responses.next().await;
        let response = response.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "the stream ended early")
        })??;
        match response.result {
            Some(ingest_response::Result::Accepted(_)) => Ok(()),
            Some(ingest_response::Result::Refused(refused)) => {
                assert!(refused.retryable, "{refused:?}");
                Err(Error::new(ErrorKind::Unavailable, "UNAVAILABLE", refused.message))
            }
            None => panic!("a response without a result"),
        }
    };
    let timeout = tokio::time::timeout(REQUEST_PATIENCE, sending).await;
    timeout.unwrap_or_else(|_elapsed| Err(Error::deadline("ingesting")))
}

/// Searches, again and again: right, or partial and saying so, or a typed error.
async fn read(endpoint: String, corpus: CorpusName, is_done: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    while !is_done.load(Ordering::SeqCst) {
        let Ok(client) = Client::connect(&endpoint, REQUEST_PATIENCE).await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        while !is_done.load(Ordering::SeqCst) {
            match client.search(&corpus, query(EVERYWHERE, SearchMode::Hybrid)).await {
                Ok(found) => {
                    told.searches += 1;
                    told.partial += usize::from(!found.shards_missing.is_empty());
                    let mut versions = BTreeMap::new();
                    for item in &found.evidence {
                        let first = versions.entry(&item.document_id).or_insert(item.version);
                        assert_eq!(*first, item.version, "two versions of {}", item.document_id);
                    }
                }
                Err(error) => {
                    assert!(is_expected(&error), "{}", error.chain());
                    told.failures.push(error.chain());
                    break;
                }
            }
        }
    }
    told
}

/// Whether a client may be told this while machines fail.
fn is_expected(error: &Error) -> bool {
    // A connection that broke in the middle of a call has no reason of ours.
    error.is_retryable() || error.reason() == "TRANSPORT"
}

impl Told {
    /// Most requests were answered.
    pub fn assert_went_on(&self) {
        assert!(self.writes > 10 && self.searches > 10, "{self}");
        assert!(self.failures.len() < self.writes + self.searches, "{self}: {:#?}", self.failures);
    }

    /// Holds the corpus against what was acknowledged: every document once, whole and searchable, in
    /// a version that it may have; every forgotten one absent.
    pub async fn assert_kept(&self, client: &Client, corpus: &CorpusName) {
        let listed = client.documents(corpus, DocumentStage::Unspecified).await.unwrap();
        let mut present = BTreeMap::new();
        for state in &listed {
            assert_eq!(present.insert(state.id.clone(), state), None, "{} twice", state.id);
        }
        let ids: Vec<_> = present.keys().map(|key| id(key)).collect();
        let shown = chunks(client, corpus, &ids).await;
        for (key, known) in &self.documents {
            let Some(state) = present.get(key) else {
                assert!(known.possible.contains(&None), "{key} is lost: {known:#?}");
                continue;
            };
            let text = text_of(client, corpus, &id(key)).await;
            let is_possible = known.possible.iter().flatten().any(|known| *known == text);
            assert!(is_possible, "{key} is {text:?}, which is none of {known:#?}");
            assert_eq!(state.version, state.live_version, "{key}");
            assert_whole(&text, &shown[key]);
            for other in known.possible.iter().flatten().filter(|other| **other != text) {
                let words = other.split_whitespace().find(|word| word.starts_with("xv")).unwrap();
                assert!(by_words(client, corpus, words).await.is_empty(), "{words} is found");
            }
        }
        assert!(present.keys().all(|key| self.documents.contains_key(key)), "{present:?}");
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes, {} searches ({} partial), {} failed and were repeated",
            self.writes,
            self.searches,
            self.partial,
            self.failures.len()
        )
    }
}
