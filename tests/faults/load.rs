//! Clients that continue while faults are inflicted on a cluster: readers, and a writer for each
//! shard.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use clew_client::{Client, QuestionRequest};
use clew_core::{CorpusName, Error, ErrorKind, SearchMode};
use clew_proto::ingest::v1::ingest_response;
use clew_proto::query::v1::answer_response::Event;
use futures::StreamExt;
use tokio::task::JoinSet;

use crate::client::{document, id, query};
use crate::cluster::REQUEST_PATIENCE;
use crate::ledger::{EVERYWHERE, Ledger, SHARDS, text, version_in, written_documents};

/// Interval between two checks whether all requests succeed.
const LOOK_INTERVAL: Duration = Duration::from_millis(40);
/// Maximum number of documents in one stream.
const STREAM: usize = 5;
/// Latency above which a request counts as disturbed: many times what it takes without a fault.
const LATE: Duration = Duration::from_secs(2);
/// Maximum time for all clients to recover after a fault was healed.
const HEALING: Duration = Duration::from_secs(90);
/// Share of a writer's actions that forget, out of 256.
const FORGETTING: u8 = 40;

/// Requests of one client, which follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Searches,
    Reads,
    Writes(u32),
}

/// Request that ended.
#[derive(Clone, Copy, Debug)]
struct Request {
    lane: Lane,
    began: Instant,
    ended: Instant,
    /// Whether it succeeded: no error, no missing shard.
    is_done: bool,
}

impl Request {
    fn is_disturbed(&self) -> bool {
        !self.is_done || self.ended - self.began > LATE
    }
}

/// Observations of the clients.
#[derive(Debug, Default)]
struct Seen {
    ledger: Ledger,
    requests: Vec<Request>,
    counts: Counts,
    /// Violations.
    wrong: Vec<String>,
    /// Reasons of retryable errors.
    reasons: BTreeSet<String>,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub writes: usize,
    pub reads: usize,
    pub partial: usize,
    pub retryable: usize,
}

/// Running clients.
pub struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

struct Shared {
    endpoint: String,
    corpus: CorpusName,
    /// Pause between two requests of a client.
    pause: Duration,
    is_over: AtomicBool,
    seen: Mutex<Seen>,
}

/// Durations for which a fault disturbed requests, from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    pub searches: Duration,
    pub writes: Duration,
}

impl Load {
    /// Starts clients that wait for `pause` between two requests.
    pub fn start(
        endpoint: String,
        corpus: CorpusName,
        pause: Duration,
        random: &mut fastrand::Rng,
    ) -> Self {
        let seen = Mutex::new(Seen { ledger: Ledger::new(), ..Seen::default() });
        let is_over = AtomicBool::new(false);
        let shared = Arc::new(Shared { endpoint, corpus, pause, is_over, seen });
        let mut clients = JoinSet::new();
        for (shard, names) in (0..).zip(written_documents()) {
            clients.spawn(write(Arc::clone(&shared), shard, names, random.fork()));
        }
        clients.spawn(search(Arc::clone(&shared)));
        clients.spawn(read(Arc::clone(&shared), random.fork()));
        Self { shared, clients }
    }

    /// Waits until all clients succeed again, with requests from `healed` on. Returns how long
    /// requests were disturbed after `began`.
    pub async fn recovered(&mut self, began: Instant, healed: Instant) -> Recovery {
        let give_up = Instant::now() + HEALING;
        loop {
            self.check().await;
            let waiting = self.shared.lock().waiting(healed);
            if waiting.is_empty() {
                break;
            }
            assert!(
                Instant::now() < give_up,
                "{waiting:?} did not go on {HEALING:?} after the fault was healed: {:?}",
                self.shared.lock().reasons
            );
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let mut seen = self.shared.lock();
        let felt = |lane: Lane| felt(seen.requests.iter().filter(|r| r.lane == lane), began);
        let writes = (0..SHARDS).map(|shard| felt(Lane::Writes(shard))).max().unwrap_or_default();
        let recovery = Recovery { searches: felt(Lane::Searches), writes };
        seen.requests.clear();
        recovery
    }

    /// Fails if there was a violation.
    pub async fn check(&mut self) {
        let wrong = std::mem::take(&mut self.shared.lock().wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        while let Some(ended) = self.clients.try_join_next() {
            ended.unwrap();
        }
    }

    /// Lets the clients finish their current requests. Returns the ledger and the counts.
    pub async fn stop(mut self) -> (Ledger, Counts) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        self.check().await;
        let seen = self.shared.lock();
        println!("told to try again because of: {:?}", seen.reasons);
        assert!(seen.counts.writes > 10 && seen.counts.reads > 10, "{}", seen.counts);
        (seen.ledger.clone(), seen.counts)
    }
}

impl Seen {
    /// Returns the clients of which no request since `healed` has succeeded yet.
    fn waiting(&self, healed: Instant) -> Vec<Lane> {
        let is_fine = |lane: &Lane| {
            let mut since = self.requests.iter().filter(|r| r.lane == *lane && r.began >= healed);
            since.any(|request| request.is_done)
        };
        let mut lanes: Vec<Lane> = (0..SHARDS).map(Lane::Writes).chain([Lane::Searches]).collect();
        lanes.retain(|lane| !is_fine(lane));
        lanes
    }
}

/// Returns for how long after `began` the requests of one client were disturbed.
fn felt<'a>(requests: impl Iterator<Item = &'a Request>, began: Instant) -> Duration {
    let mut until = began;
    let mut is_disturbed = false;
    for request in requests.filter(|request| request.ended >= began) {
        if request.is_disturbed() || is_disturbed {
            until = request.ended;
        }
        // A late request has succeeded. A failure lasts until the next request that does not fail.
        is_disturbed = !request.is_done;
    }
    until - began
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Records how a request ended. After an error, the client connects anew.
    fn ended(&self, line: &mut Line, lane: Lane, began: Instant, outcome: Result<bool, Error>) {
        let is_done = *outcome.as_ref().unwrap_or(&false);
        let mut seen = self.lock();
        seen.requests.push(Request { lane, began, ended: Instant::now(), is_done });
        match lane {
            Lane::Writes(_) => seen.counts.writes += 1,
            Lane::Searches | Lane::Reads => seen.counts.reads += 1,
        }
        match outcome {
            Ok(true) => {}
            Ok(false) => seen.counts.partial += 1,
            Err(error) => {
                seen.counts.retryable += 1;
                line.client = None;
                seen.reasons.insert(error.reason().to_owned());
                if !error.is_retryable() {
                    seen.wrong.push(format!("{lane:?} failed for good: {}", error.chain()));
                }
            }
        }
    }
}

/// Connection of a client.
struct Line {
    client: Option<Client>,
}

impl Line {
    async fn client(&mut self, endpoint: &str) -> Result<Client, Error> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(endpoint, REQUEST_PATIENCE).await?,
        };
        Ok(self.client.insert(client).clone())
    }
}

/// Searches for everything, again and again.
async fn search(shared: Arc<Shared>) {
    let mut line = Line { client: None };
    while !shared.is_over.load(Ordering::SeqCst) {
        let (began, before) = (Instant::now(), shared.lock().ledger.clone());
        let outcome = async {
            let client = line.client(&shared.endpoint).await?;
            let wanted = query(EVERYWHERE, SearchMode::Hybrid);
            let found = client.search(&shared.corpus, wanted).await?;
            let mut seen = shared.lock();
            let wrong = seen.ledger.note_search(&before, &found);
            seen.wrong.extend(wrong);
            Ok(found.shards_missing.is_empty())
        };
        let outcome = outcome.await;
        shared.ended(&mut line, Lane::Searches, began, outcome);
        tokio::time::sleep(shared.pause).await;
    }
}

/// Reads documents and asks questions, again and again.
async fn read(shared: Arc<Shared>, mut random: fastrand::Rng) {
    let names: Vec<String> = written_documents().concat();
    let mut line = Line { client: None };
    while !shared.is_over.load(Ordering::SeqCst) {
        let (began, before) = (Instant::now(), shared.lock().ledger.clone());
        let name = &names[random.usize(..names.len())];
        let asks = random.u8(..) < 64;
        let outcome = async {
            let client = line.client(&shared.endpoint).await?;
            match asks {
                true => ask(&client, &shared.corpus).await,
                false => look_at(&shared, &client, &before, name).await,
            }
        };
        let outcome = outcome.await;
        shared.ended(&mut line, Lane::Reads, began, outcome);
        tokio::time::sleep(shared.pause).await;
    }
}

/// Asks a question. Returns whether no shard was missing.
async fn ask(client: &Client, corpus: &CorpusName) -> Result<bool, Error> {
    let question = QuestionRequest {
        text: "What came from the city?".to_owned(),
        ..QuestionRequest::default()
    };
    let events = client.answer(corpus, question).await?;
    futures::pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Some(Event::Answer(answer)) = event?.event {
            return Ok(answer.shards_missing.is_empty());
        }
    }
    Err(Error::internal("an answer ended without its last message"))
}

/// Reads a document and compares it with the ledger.
async fn look_at(
    shared: &Shared,
    client: &Client,
    before: &Ledger,
    name: &str,
) -> Result<bool, Error> {
    let read = client.document(&shared.corpus, &id(name)).await;
    let mut seen = shared.lock();
    let wrong = match read {
        Ok((document, _)) => {
            let text = String::from_utf8_lossy(&document.text);
            match version_in(&text) {
                Some(version) => seen.ledger.saw(before, name, version, &text),
                None => Some(format!("{name} was read as {text:?}")),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => seen.ledger.saw_nothing(before, name),
        Err(error) => return Err(error),
    };
    seen.wrong.extend(wrong);
    Ok(true)
}

/// Writes, replaces and forgets documents of one shard, again and again.
async fn write(shared: Arc<Shared>, shard: u32, names: Vec<String>, mut random: fastrand::Rng) {
    let mut line = Line { client: None };
    while !shared.is_over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let count = random.usize(1..=STREAM);
        let chosen = random.choose_multiple(&names, count);
        let outcome = async {
            let client = line.client(&shared.endpoint).await?;
            match random.u8(..) < FORGETTING {
                true => forget(&shared, &client, chosen[0]).await,
                false => offer(&shared, &client, &chosen).await,
            }
        };
        let outcome = match tokio::time::timeout(REQUEST_PATIENCE, outcome).await {
            Ok(done) => done.map(|()| true),
            Err(_elapsed) => Err(Error::deadline("writing")),
        };
        shared.ended(&mut line, Lane::Writes(shard), began, outcome);
        tokio::time::sleep(shared.pause).await;
    }
}

async fn forget(shared: &Shared, client: &Client, name: &str) -> Result<(), Error> {
    shared.lock().ledger.forget(name);
    let receipt = client.forget(&shared.corpus, &[id(name)]).await?;
    let mut seen = shared.lock();
    if receipt.verified {
        seen.ledger.forgotten(name);
    } else {
        seen.wrong.push(format!("{name} was not forgotten: {receipt:?}"));
    }
    Ok(())
}

/// Sends documents in one stream and waits for their acknowledgements.
async fn offer(shared: &Shared, client: &Client, names: &[&String]) -> Result<(), Error> {
    let new = |name: &&String| {
        let version = shared.lock().ledger.offer(name);
        document(name, text(name, version))
    };
    let documents: Vec<_> = names.iter().map(new).collect();
    let responses = client.ingest(&shared.corpus, futures::stream::iter(documents)).await?;
    futures::pin_mut!(responses);
    let mut refusal = None;
    for name in names {
        let early = || Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "the stream ended early");
        let response = responses.next().await.ok_or_else(early)??;
        let mut seen = shared.lock();
        match response.result {
            _ if response.document_id != **name => {
                seen.wrong.push(format!("expected an answer for {name}, got {response:?}"));
            }
            Some(ingest_response::Result::Accepted(_)) => seen.ledger.accepted(name),
            Some(ingest_response::Result::Refused(refused)) => {
                seen.reasons.insert(refused.reason.clone());
                if !refused.retryable {
                    seen.wrong.push(format!("{name} was refused for good: {refused:?}"));
                }
                let problem = format!("{}: {}", refused.reason, refused.message);
                refusal = Some(Error::new(ErrorKind::Unavailable, "REFUSED", problem));
            }
            None => seen.wrong.push(format!("{name} was answered with nothing")),
        }
    }
    refusal.map_or(Ok(()), Err)
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, reads, partial, retryable } = self;
        write!(
            f,
            "{writes} writes and {reads} reads; {partial} answers named shards as missing, \
             {retryable} requests were told to try again"
        )
    }
}
