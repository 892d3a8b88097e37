//! Test of an ingestion of 500 documents that is killed thirty times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clew_client::Client;
use clew_core::{CorpusName, Document};
use clew_proto::ingest::v1::{DocumentStage, ingest_response::Result as Outcome};
use clew_proto::query::v1::Evidence;
use fastrand::Rng;
use futures::{Stream, StreamExt};
use tokio::sync::Semaphore;

use super::KILLS;
use crate::client::{
    accept, assert_whole, by_words, chunks, corpus, counts, create, document, idle, states, text_of,
};
use crate::harness::{Home, PATIENCE, Server, start_and_kill};
use crate::seed::random;
use crate::words::{text_with, word};

const DOCUMENTS: usize = 500;
/// Number of documents sent ahead of their acknowledgements: few, so that the ingestion lasts for
/// all kills.
const WINDOW: usize = 8;
/// After this many kills, the server is also killed while it starts and reads its tables.
const KILL_WHILE_STARTING: usize = 6;
/// Maximum time from the chosen acknowledgement to the kill: about as long as a commit takes.
const LONGEST_DELAY: Duration = Duration::from_millis(30);
/// Number of documents that are checked concurrently at the end.
const CHECKS: usize = 8;
/// Number of texts that are compared after each restart. All are compared at the end.
const SAMPLE: usize = 10;

/// Documents of a client with their acknowledgements.
struct Ingestion {
    random: Rng,
    corpus: CorpusName,
    documents: Vec<Document>,
    /// Versions of acknowledged documents.
    acknowledged: BTreeMap<String, u64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_ingest_keeps_each_acknowledged_document_once_and_whole() {
    let mut ingestion = Ingestion {
        random: random(),
        corpus: corpus("notes"),
        documents: (0..DOCUMENTS).map(numbered).collect(),
        acknowledged: BTreeMap::new(),
    };
    let home = Home::new();
    let started = Instant::now();
    let mut server = home.serve();
    let starting = started.elapsed();
    create(&server.client().await, "notes").await;

    let (mut hit_accepting, mut hit_work) = (0, 0);
    for kill in 0..KILLS {
        let client = server.client().await;
        let in_flight = ingestion.send_until_killed(&client, &mut server, KILLS - kill).await;
        drop(client);
        if kill % KILL_WHILE_STARTING == 0 {
            let after = starting.mul_f64(ingestion.random.f64());
            start_and_kill(home.serve_command(), after);
        }
        server = home.serve();
        let pending = ingestion.check_acknowledged(&server.client().await).await;
        hit_accepting += usize::from(in_flight > 0);
        hit_work += usize::from(in_flight > 0 || pending > 0);
    }
    println!("of {KILLS} kills {hit_work} hit work, {hit_accepting} a document being accepted");
    assert!(hit_work >= KILLS / 2 && hit_accepting >= KILLS / 4, "the kills came too late");

    ingestion.finish(&server.client().await).await;
}

fn numbered(number: usize) -> Document {
    document(&format!("doc-{number:03}"), text_with(&[&word('n', number), &word('m', number)]))
}

impl Ingestion {
    /// Sends what is not acknowledged yet, kills the server at a random moment, and records every
    /// acknowledgement that arrives. Returns how many documents were under way at the kill.
    async fn send_until_killed(
        &mut self,
        client: &Client,
        server: &mut Server,
        kills_left: usize,
    ) -> usize {
        let mut unsent: Vec<Document> = self.documents.clone();
        unsent.retain(|document| !self.acknowledged.contains_key(document.id.as_str()));
        self.random.shuffle(&mut unsent);
        // On average, the documents last exactly until the last kill.
        let wanted = self.random.usize(0..=2 * unsent.len() / kills_left).min(unsent.len());
        // A few more are under way when the chosen one is acknowledged. The rest is for later
        // kills.
        unsent.truncate(wanted + WINDOW);
        let mut kill_at = (wanted == 0).then(|| Instant::now() + self.delay());

        let sent = Arc::new(AtomicUsize::new(0));
        let room = Arc::new(Semaphore::new(WINDOW));
        let documents = paced(unsent, Arc::clone(&room), Arc::clone(&sent));
        let corpus = self.corpus.clone();
        let mut responses = std::pin::pin!(client.ingest(&corpus, documents).await.unwrap());
        let mut received = 0;
        let mut ended = false;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let moment = kill_at.unwrap_or(deadline).into();
            tokio::select! {
                () = tokio::time::sleep_until(moment) => break,
                response = responses.next(), if !ended => match response {
                    Some(response) => {
                        self.note(response.unwrap());
                        received += 1;
                        room.add_permits(1);
                        if received == wanted {
                            kill_at = Some(Instant::now() + self.delay());
                        }
                    }
                    None => ended = true,
                },
            }
        }
        assert!(Instant::now() < deadline, "waited too long for {wanted} acknowledgements");
        let in_flight = sent.load(Ordering::SeqCst) - received;
        server.kill();
        // Responses that were on their way at the kill are acknowledgements, too.
        while !ended && let Some(Ok(response)) = responses.next().await {
            self.note(response);
        }
        in_flight
    }

    fn delay(&mut self) -> Duration {
        LONGEST_DELAY.mul_f64(self.random.f64())
    }

    fn note(&mut self, response: clew_proto::ingest::v1::IngestResponse) {
        match response.result {
            Some(Outcome::Accepted(accepted)) => {
                self.acknowledged.insert(response.document_id, accepted.version);
            }
            other => panic!("`{}` was not accepted: {other:?}", response.document_id),
        }
    }

    /// Fails unless everything that was acknowledged is stored. Returns how many documents wait to
    /// be indexed.
    async fn check_acknowledged(&mut self, client: &Client) -> u64 {
        let pending = counts(client, &self.corpus).await.pending_documents;
        let states = states(client, &self.corpus).await;
        for (id, version) in &self.acknowledged {
            let stored = states.get(id).unwrap_or_else(|| panic!("`{id}` was lost"));
            assert_eq!(stored.version, *version, "`{id}` has another version");
        }
        for document in self.random.choose_multiple(&self.documents, SAMPLE) {
            if states.contains_key(document.id.as_str()) {
                assert_eq!(text_of(client, &self.corpus, &document.id).await, document.text);
            }
        }
        pending
    }

    /// Sends everything once more, waits until it is indexed, and checks every document.
    async fn finish(&self, client: &Client) {
        let accepted = accept(client, &self.corpus, self.documents.clone()).await;
        for (document, accepted) in self.documents.iter().zip(&accepted) {
            if let Some(version) = self.acknowledged.get(document.id.as_str()) {
                assert!(accepted.unchanged, "`{}` was taken in twice", document.id);
                assert_eq!(accepted.version, *version);
            }
        }
        idle(client, &self.corpus).await;

        let states = states(client, &self.corpus).await;
        assert_eq!(states.len(), DOCUMENTS);
        let ids: Vec<_> = self.documents.iter().map(|document| document.id.clone()).collect();
        let chunks = chunks(client, &self.corpus, &ids).await;
        for (document, accepted) in self.documents.iter().zip(&accepted) {
            let name = document.id.as_str();
            let (state, found) = (&states[name], &chunks[name]);
            assert_eq!(state.stage(), DocumentStage::Indexed, "{state:?}");
            assert_eq!(assert_whole(&document.text, found), accepted.version);
            assert_eq!(state.chunks as usize, found.len());
        }
        let counts = counts(client, &self.corpus).await;
        assert_eq!(counts.documents, DOCUMENTS as u64);
        assert_eq!(counts.indexed_documents, DOCUMENTS as u64);
        assert_eq!(counts.chunks as usize, chunks.values().map(Vec::len).sum::<usize>());

        let checks = (0..DOCUMENTS).map(|number| async move {
            let document = numbered(number);
            assert_eq!(text_of(client, &self.corpus, &document.id).await, document.text);
            by_words(client, &self.corpus, &word('n', number)).await
        });
        let found: Vec<Vec<Evidence>> =
            futures::stream::iter(checks).buffered(CHECKS).collect().await;
        for (document, found) in self.documents.iter().zip(found) {
            let name = document.id.as_str();
            assert!(found.iter().all(|item| item.document_id == name), "{found:#?}");
            assert_eq!(found.len(), chunks[name].len(), "`{name}` is found in part");
        }
    }
}

/// Returns a stream that yields a document for each permit and counts the documents.
fn paced(
    documents: Vec<Document>,
    room: Arc<Semaphore>,
    sent: Arc<AtomicUsize>,
) -> impl Stream<Item = Document> + Send + 'static {
    futures::stream::iter(documents).then(move |document| {
        let (room, sent) = (Arc::clone(&room), Arc::clone(&sent));
        async move {
            room.acquire().await.expect("no one closes it").forget();
            sent.fetch_add(1, Ordering::SeqCst);
            document
        }
    })
}
