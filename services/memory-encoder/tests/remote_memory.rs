//! Tests of remote memory models over real servers on loopback, real connections and a real, tiny
//! model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

#[path = "shared/kept.rs"]
mod kept;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    DraftTask, DraftedClues, Error, ErrorKind, FormTask, MemoryEncoder, MemoryText, Task,
};
use clew_memory_encoder::service::{EncoderEndpoint, OfferedModel};
use clew_memory_encoder::{EncoderConfig, EncoderPool, MemoryModelConfig, MemoryPool};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::form_memory_request::Payload;
use clew_remote::RemoteMemoryEncoder;
use clew_runtime::peer::{PeerOptions, Reach};
use clew_runtime::pool::Pool;
use clew_testkit::FaultyWire;
use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Code;

use self::kept::Kept;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);
const QUESTION: &str = "Who keeps the bees?";

fn about(task: Task, question: &str) -> DraftTask {
    DraftTask { task, question: question.to_owned(), answers: false }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

async fn embedding() -> Arc<EncoderPool> {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_bert(folder.path(), 3).unwrap();
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    Arc::new(EncoderPool::load(folder.path().to_owned(), &config).await.unwrap())
}

async fn memory_model() -> Arc<MemoryPool> {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("tiny");
    std::fs::create_dir(&model).unwrap();
    clew_testkit::write_tiny_memory_model(&model, 4).unwrap();
    let config = MemoryModelConfig {
        folder: Some(model),
        threads: 1,
        draft_tokens: 16,
        ..MemoryModelConfig::default()
    };
    MemoryPool::load(&config).await.unwrap().unwrap()
}

/// Encoder service behind a wire that can be cut.
struct Server {
    memory: Option<Arc<MemoryPool>>,
    wire: FaultyWire,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    async fn start(embedding: &Arc<EncoderPool>, memory: Option<Arc<MemoryPool>>) -> Self {
        let endpoint = EncoderEndpoint::new(vec![OfferedModel::of_pool(embedding)], 32)
            .with_memory(memory.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let serving =
            tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
        Self { memory, wire, serving }
    }

    /// Simulates the death of the process: it stops serving and its connections close.
    fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }

    fn ready(&self) -> usize {
        self.memory.as_ref().unwrap().ready().0
    }

    /// Returns the number of tokens of texts that wait or are read.
    fn forming(&self) -> u64 {
        let node = self.memory.as_ref().unwrap().node();
        let gate = node.children.iter().find(|gate| gate.name.ends_with("texts")).unwrap();
        gate.queued
    }

    fn address(&self) -> String {
        format!("http://{}", self.wire.address())
    }
}

/// Waits until `is_so` holds.
async fn until(is_so: impl Fn() -> bool) {
    let deadline = soon();
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn remote(servers: &[&Server]) -> Arc<RemoteMemoryEncoder> {
    let service = "clew.encoder.v1.EncoderService".to_owned();
    let options = PeerOptions { service, credits: 64, reach: Reach::default() };
    let pool = Pool::new("encoders", options);
    let member = |(i, server): (usize, &&Server)| (format!("encoder-{i}"), server.address());
    pool.update(servers.iter().enumerate().map(member).collect()).await.unwrap();
    until(|| pool.node().children.iter().all(|peer| peer.state == "serving")).await;
    Arc::new(RemoteMemoryEncoder::new(pool))
}

fn task(words: usize) -> FormTask {
    let text = "the roof is flat and sunny ".repeat(words);
    FormTask { ratio: 2, begun: None, texts: vec![MemoryText { title: "Bees".to_owned(), text }] }
}

async fn draft(encoder: &dyn MemoryEncoder, memory: &Kept, question: &str) -> DraftedClues {
    encoder.draft(memory, &about(Task::Answer, question), soon()).await.unwrap()
}

#[tokio::test]
async fn another_encoder_takes_over_the_memories_of_one_that_is_lost() {
    let embedding = embedding().await;
    let first = Server::start(&embedding, Some(memory_model().await)).await;
    let second = Server::start(&embedding, Some(memory_model().await)).await;
    let encoder = remote(&[&first, &second]).await;
    let here = memory_model().await;
    assert_eq!(encoder.memory_model(soon()).await.unwrap(), Some(here.identity()));
    // Of two memories that differ by a text, one has the tokens of that text more.
    let counted = encoder.count_tokens(task(3).texts, soon()).await.unwrap();
    let [longer, shorter] = [task(3).texts, Vec::new()].map(|texts| FormTask { texts, ..task(3) });
    let tokens = async |task| here.form(task, soon()).await.unwrap().tokens;
    assert_eq!(counted, tokens(longer).await - tokens(shorter).await);
    // Larger than one message.
    let formed = encoder.form(task(320), soon()).await.unwrap();
    assert!(formed.snapshot.len() > 1 << 20, "{}", formed.snapshot.len());
    let alike = here.form(task(320), soon()).await.unwrap();
    assert_eq!((formed.tokens, formed.slots), (alike.tokens, alike.slots));
    assert_eq!(formed.snapshot, alike.snapshot);
    let memory = Kept::new(1, formed.snapshot);
    let drafted = draft(&*here, &memory, QUESTION).await;
    assert!(!drafted.clues.clues.is_empty());
    for _ in 0..4 {
        assert_eq!(draft(&*encoder, &memory, QUESTION).await, drafted);
    }
    // Fetched once for `here`, and once for the one encoder that is asked about it.
    assert_eq!((memory.fetched(), first.ready() + second.ready()), (2, 1));
    let (keeper, other) = if first.ready() == 1 { (&first, &second) } else { (&second, &first) };
    let forming = tokio::spawn({
        let encoder = Arc::clone(&encoder);
        async move { encoder.form(task(200), soon()).await }
    });
    until(|| keeper.forming() + other.forming() > 0).await;
    keeper.kill();
    assert_eq!(draft(&*encoder, &memory, QUESTION).await, drafted);
    assert_eq!((memory.fetched(), other.ready()), (3, 1));
    assert!(forming.await.unwrap().is_ok(), "what was lost is formed by the other");
    let begun = Some(Arc::clone(&memory.bytes));
    let go_on = FormTask { begun, ..task(3) };
    let longer = encoder.form(go_on, soon()).await.unwrap();
    assert!(longer.tokens > formed.tokens);
    other.kill();
    let lost = encoder.draft(&memory, &about(Task::Answer, QUESTION), soon()).await.unwrap_err();
    assert!(lost.is_retryable(), "{lost:?}");
}

#[tokio::test]
async fn several_who_miss_a_memory_are_answered_by_one_encoder() {
    let server = Server::start(&embedding().await, Some(memory_model().await)).await;
    let encoder = remote(&[&server]).await;
    let memory = Kept::new(1, encoder.form(task(320), soon()).await.unwrap().snapshot);
    // The first caller sends the memory for all: the others are answered before everything they
    // send was read.
    let drafts = join_all((0..6).map(|_| draft(&*encoder, &memory, QUESTION))).await;
    assert!(drafts.iter().all(|drafted| *drafted == drafts[0]));
    assert_eq!(server.ready(), 1);
}

#[tokio::test]
async fn without_a_memory_model_it_is_said_so() {
    let server = Server::start(&embedding().await, None).await;
    let encoder = remote(&[&server]).await;
    assert_eq!(encoder.memory_model(soon()).await.unwrap(), None);
    let formed = encoder.form(task(1), soon()).await.unwrap_err();
    let counted = encoder.count_tokens(task(1).texts, soon()).await.unwrap_err();
    let memory = Kept::new(1, vec![1]);
    let drafted = encoder.draft(&memory, &about(Task::Answer, QUESTION), soon()).await.unwrap_err();
    for error in [formed, counted, drafted] {
        assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "NO_MEMORY_MODEL"));
    }
    server.kill();
    assert_eq!(encoder.memory_model(soon()).await.unwrap(), None, "it is believed for a while");
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_reading() {
    let server = Server::start(&embedding().await, Some(memory_model().await)).await;
    let encoder = remote(&[&server]).await;
    let forming = tokio::spawn({
        let encoder = Arc::clone(&encoder);
        // So long that nobody would wait for it.
        async move { encoder.form(task(20_000), soon()).await }
    });
    until(|| server.forming() > 0).await;
    forming.abort();
    until(|| server.forming() == 0).await;
    let late = Instant::now() + Duration::from_millis(50);
    let error = encoder.form(task(20_000), late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    until(|| server.forming() == 0).await;
}

#[tokio::test]
async fn what_is_not_as_announced_is_refused() {
    let server = Server::start(&embedding().await, Some(memory_model().await)).await;
    let mut client = EncoderServiceClient::connect(server.address()).await.unwrap();
    let begin = |snapshot_bytes| Payload::Begin(wire::BeginMemory { ratio: 4, snapshot_bytes });
    let part = |bytes: &'static [u8]| Payload::SnapshotPart(bytes.into());
    let text = |text: &'static [u8]| {
        Payload::Text(wire::MemoryText { title: String::new(), text: text.into() })
    };
    let more = |text: &'static [u8]| Payload::TextPart(text.into());
    for (payloads, expected) in [
        (vec![], Err("begin")),
        (vec![text(b"a")], Err("begin")),
        (vec![begin(u64::MAX)], Err("snapshot_bytes")),
        (vec![begin(4), part(b"abc")], Err("snapshot_bytes")),
        (vec![begin(2), part(b"abc")], Err("snapshot_bytes")),
        (vec![begin(3), part(b"abc")], Err("snapshot")),
        (vec![begin(3), text(b"a")], Err("payload")),
        (vec![begin(0), more(b"a")], Err("text_part")),
        (vec![begin(0), text(b"a"), begin(0)], Err("payload")),
        (vec![begin(0), text(b"\xff")], Err("text")),
        (vec![begin(0), text(b"h\xc3"), more(b"\xa9")], Ok(())),
    ] {
        let requests = payloads.into_iter().map(|it| wire::FormMemoryRequest { payload: Some(it) });
        let requests = futures::stream::iter(requests.collect::<Vec<_>>());
        let mut events = client.form_memory(requests).await.unwrap().into_inner();
        let ended = loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        match (ended, expected) {
            (Ok(()), Ok(())) => {}
            (Err(status), Err(field)) => {
                let error = clew_proto::from_status(&status);
                assert_eq!(error.violations()[0].field, field, "{status:?}");
            }
            (ended, expected) => panic!("expected {expected:?}, got {ended:?}"),
        }
    }
    let ask = wire::AskMemory { key: "short".to_owned(), ..Default::default() };
    let payload = Some(wire::generate_clues_request::Payload::Ask(ask));
    let requests = futures::stream::iter([wire::GenerateCluesRequest { payload }]);
    let refused = client.generate_clues(requests).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}
