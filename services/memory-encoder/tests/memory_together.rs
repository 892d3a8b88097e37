//! Tests of encoders that read one text together, over real servers on loopback, connections that
//! can be cut, and a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind, FormTask, MemoryEncoder, MemoryText};
use clew_memory_encoder::service::{EncoderEndpoint, OfferedModel};
use clew_memory_encoder::{EncoderConfig, EncoderPool, MemoryModelConfig, MemoryPool};
use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::read_together_request::Payload;
use clew_runtime::peer::Reach;
use clew_testkit::FaultyWire;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(120);
/// Repetitions of a sentence that make a text of at least four passes for each of three nodes.
const OF_THREE: usize = 1750;
/// The same for two nodes.
const OF_TWO: usize = 1170;
/// Tokens for each that is kept. With more to keep, the tests would take longer.
const RATIO: u32 = 16;
/// Gate of the shares that a peer computes, in the tree of running parts.
const SHARES: &str = "the memory model's room for texts of other nodes";
/// Gate of the texts that an encoder reads.
const TEXTS: &str = "the memory model's queue of texts";

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

async fn embedding() -> Arc<EncoderPool> {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_bert(folder.path(), 3).unwrap();
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    Arc::new(EncoderPool::load(folder.path().to_owned(), &config).await.unwrap())
}

/// Returns a memory model whose peers are the encoders at these addresses.
async fn memory_model(seed: u64, peers: &[&Server]) -> Arc<MemoryPool> {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_memory_model(folder.path(), seed).unwrap();
    let peers = peers.iter().map(|peer| peer.address().parse().unwrap()).collect();
    let folder = Some(folder.path().to_owned());
    let config = MemoryModelConfig { folder, threads: 1, peers, ..MemoryModelConfig::default() };
    let pool = MemoryPool::load(&config).await.unwrap().unwrap();
    pool.connect(Reach::default(), None).await.unwrap();
    let is_connected = || {
        let parts = pool.node().children;
        let peers = parts.iter().filter(|part| part.kind == "pool");
        peers.flat_map(|pool| &pool.children).all(|peer| peer.state == "serving")
    };
    until(is_connected).await;
    pool
}

/// Encoder service behind a wire that can be cut.
struct Server {
    memory: Arc<MemoryPool>,
    wire: FaultyWire,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    async fn start(embedding: &Arc<EncoderPool>, memory: Arc<MemoryPool>) -> Self {
        let endpoint = EncoderEndpoint::new(vec![OfferedModel::of_pool(embedding)], 32)
            .with_memory(Some(Arc::clone(&memory)));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let serving =
            tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
        Self { memory, wire, serving }
    }

    fn address(&self) -> String {
        format!("http://{}", self.wire.address())
    }

    /// Simulates the death of the process: it stops serving and its connections close.
    fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }
}

/// Returns the units of work that wait or run behind a gate.
fn queued(pool: &MemoryPool, gate: &str) -> u64 {
    pool.node().children.iter().find(|part| part.name == gate).unwrap().queued
}

/// Waits until `is_so` holds.
async fn until(is_so: impl Fn() -> bool) {
    let deadline = soon();
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn task(repetitions: usize) -> FormTask {
    let text = "the roof is flat and sunny ".repeat(repetitions);
    FormTask {
        ratio: RATIO,
        begun: None,
        texts: vec![MemoryText { title: "Bees".to_owned(), text }],
    }
}

/// Forms a memory, and returns it with the number of peers that were seen to read with the leader.
async fn formed(leader: &Arc<MemoryPool>, peers: &[&Server], task: FormTask) -> (Vec<u8>, usize) {
    let forming = tokio::spawn({
        let leader = Arc::clone(leader);
        async move { leader.form(task, soon()).await }
    });
    let mut seen = vec![false; peers.len()];
    while !forming.is_finished() {
        for (seen, peer) in seen.iter_mut().zip(peers) {
            *seen |= queued(&peer.memory, SHARES) > 0;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let snapshot = forming.await.unwrap().unwrap().snapshot;
    (snapshot, seen.into_iter().filter(|seen| *seen).count())
}

#[tokio::test]
async fn encoders_form_the_memory_of_one_together() {
    let embedding = embedding().await;
    let first = Server::start(&embedding, memory_model(4, &[]).await).await;
    let second = Server::start(&embedding, memory_model(4, &[]).await).await;
    let alone = memory_model(4, &[]).await;
    let leader = memory_model(4, &[&first, &second]).await;
    let expected = alone.form(task(OF_THREE), soon()).await.unwrap().snapshot;
    let (together, seen) = formed(&leader, &[&first, &second], task(OF_THREE)).await;
    assert!(together == expected, "bit by bit");
    assert_eq!(seen, 2);
    // A short text is read alone.
    let (begun, seen) = formed(&leader, &[&first, &second], task(100)).await;
    assert_eq!(seen, 0);
    // A memory is continued together as well, here with several texts, which are long enough for
    // two nodes.
    let begun = Some(Arc::new(begun));
    let texts = [&task(OF_TWO / 2).texts[..], &task(OF_TWO / 2).texts].concat();
    let go_on = || FormTask { begun: begun.clone(), texts: texts.clone(), ..task(1) };
    let expected = alone.form(go_on(), soon()).await.unwrap().snapshot;
    let (together, seen) = formed(&leader, &[&first, &second], go_on()).await;
    assert!(together == expected, "bit by bit");
    assert_eq!(seen, 1);
    until(|| queued(&first.memory, SHARES) + queued(&second.memory, SHARES) == 0).await;
}

#[tokio::test]
async fn a_peer_that_is_lost_refuses_or_is_busy_costs_time_and_not_the_memory() {
    let embedding = embedding().await;
    let alone = memory_model(4, &[]).await;
    let expected = alone.form(task(OF_THREE), soon()).await.unwrap().snapshot;
    let peer = Server::start(&embedding, memory_model(4, &[]).await).await;
    let lost = Server::start(&embedding, memory_model(4, &[]).await).await;
    let leader = memory_model(4, &[&peer, &lost]).await;
    let forming = tokio::spawn({
        let leader = Arc::clone(&leader);
        async move { leader.form(task(OF_THREE), soon()).await }
    });
    until(|| queued(&lost.memory, SHARES) > 0 && queued(&peer.memory, SHARES) > 0).await;
    lost.kill();
    assert!(forming.await.unwrap().unwrap().snapshot == expected);
    // The work of the other peer ends with that of the group.
    until(|| queued(&peer.memory, SHARES) == 0).await;

    let expected = alone.form(task(OF_TWO), soon()).await.unwrap().snapshot;
    let other = Server::start(&embedding, memory_model(5, &[]).await).await;
    let leader = memory_model(4, &[&other]).await;
    assert!(formed(&leader, &[&other], task(OF_TWO)).await == (expected.clone(), 0));

    let busy = tokio::spawn({
        let peer = Arc::clone(&peer.memory);
        // So long that nobody would wait for it.
        async move { peer.form(task(20 * OF_TWO), soon()).await }
    });
    until(|| queued(&peer.memory, TEXTS) > 0).await;
    let leader = memory_model(4, &[&peer]).await;
    assert!(formed(&leader, &[&peer], task(OF_TWO)).await == (expected, 0));
    busy.abort();
}

#[tokio::test]
async fn the_work_of_peers_ends_with_their_caller_and_at_the_deadline() {
    let embedding = embedding().await;
    let peer = Server::start(&embedding, memory_model(4, &[]).await).await;
    let leader = memory_model(4, &[&peer]).await;
    let begin = |patience| {
        let leader = Arc::clone(&leader);
        // So long that nobody would wait for it.
        tokio::spawn(async move { leader.form(task(20 * OF_TWO), Instant::now() + patience).await })
    };
    let is_idle = || queued(&peer.memory, SHARES) == 0 && queued(&leader, TEXTS) == 0;
    let left = begin(PATIENCE);
    until(|| queued(&peer.memory, SHARES) > 0).await;
    left.abort();
    until(is_idle).await;
    let late = begin(Duration::from_secs(2));
    until(|| queued(&peer.memory, SHARES) > 0).await;
    assert_eq!(late.await.unwrap().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    until(is_idle).await;
    // Both have room for other work again.
    assert_eq!(formed(&leader, &[&peer], task(OF_TWO)).await.1, 1);
}

/// Calls a peer with these payloads, and returns how the call ended.
async fn called(peer: &Server, payloads: Vec<Payload>) -> Result<usize, Error> {
    let mut client = EncoderServiceClient::connect(peer.address()).await.unwrap();
    let requests = payloads.into_iter().map(|it| wire::ReadTogetherRequest { payload: Some(it) });
    let requests = futures::stream::iter(requests.collect::<Vec<_>>());
    let called = client.read_together(requests).await;
    let mut answers = called.map_err(|status| clew_proto::from_status(&status))?.into_inner();
    let mut slots = 0;
    loop {
        match answers.message().await {
            Ok(Some(_)) => slots += 1,
            Ok(None) => return Ok(slots),
            Err(status) => return Err(clew_proto::from_status(&status)),
        }
    }
}

#[tokio::test]
async fn a_peer_refuses_what_does_not_fit() {
    let embedding = embedding().await;
    let peer = Server::start(&embedding, memory_model(4, &[]).await).await;
    let identity = peer.memory.identity();
    let snapshot = between_windows(&peer.memory).await;
    let begin = || wire::BeginReading {
        model: identity.fingerprint.clone(),
        slot_bytes: identity.slot_bytes,
        own: 1,
        nodes: 2,
        pass_rows: 80,
        snapshot_bytes: snapshot.len() as u64,
        tokens: 128,
    };
    let part = || convert::snapshot_parts(Arc::new(snapshot.clone())).map(Payload::SnapshotPart);
    let tokens =
        |count: usize, id: u32| Payload::Tokens(wire::TextTokens { tokens: vec![id; count] });
    let slots = |pass: u64, layer: u32, bytes: usize| {
        let slots = convert::LayerSlots { pass, layer, bytes: vec![0; bytes].into() };
        convert::slots_to_wire(slots).map(Payload::Slots)
    };
    // A pass of one window adds four slots, in each of two layers.
    let bytes = 4 * usize::try_from(identity.slot_bytes).unwrap() / 2;
    let begun = |begin: wire::BeginReading| -> Vec<Payload> {
        std::iter::once(Payload::Begin(begin)).chain(part()).collect()
    };
    let read = |more: Vec<Payload>| -> Vec<Payload> {
        begun(begin()).into_iter().chain([tokens(128, 97)]).chain(more).collect()
    };
    // A call ends before its room is free again.
    let is_idle = || queued(&peer.memory, SHARES) == 0 && queued(&peer.memory, TEXTS) == 0;
    let good = [0, 1].iter().flat_map(|layer| slots(0, *layer, bytes)).collect();
    assert_eq!(called(&peer, read(good)).await.unwrap(), 2, "one pass in two layers");
    for (payloads, field) in [
        (vec![], "begin"),
        (vec![tokens(1, 1)], "begin"),
        (begun(wire::BeginReading { model: "other".to_owned(), ..begin() }), "begin.model"),
        (begun(wire::BeginReading { slot_bytes: 1, ..begin() }), "begin.slot_bytes"),
        (begun(wire::BeginReading { own: 0, ..begin() }), "begin.own"),
        (begun(wire::BeginReading { own: 2, ..begin() }), "begin.own"),
        (begun(wire::BeginReading { nodes: 65, ..begin() }), "begin.nodes"),
        (begun(wire::BeginReading { nodes: 0, ..begin() }), "begin.nodes"),
        (begun(wire::BeginReading { pass_rows: 0, ..begin() }), "begin.pass_rows"),
        (begun(wire::BeginReading { snapshot_bytes: 0, ..begin() }), "begin.snapshot_bytes"),
        (begun(wire::BeginReading { tokens: u64::MAX, ..begin() }), "begin.tokens"),
        (vec![Payload::Begin(begin()), tokens(1, 1)], "payload"),
        (begun(begin()), "payload"),
        (begun(begin()).into_iter().chain([tokens(129, 1)]).collect(), "payload"),
        (read(vec![tokens(1, 1)]), "payload"),
        (read(slots(0, 0, 9 << 20).collect()), "slots.bytes"),
    ] {
        until(is_idle).await;
        let error = called(&peer, payloads).await.unwrap_err();
        let fields: Vec<&str> =
            error.violations().iter().map(|violation| violation.field.as_str()).collect();
        assert!(fields.contains(&field), "{field}: {error:?}");
    }
    for more in [
        // Nothing comes, or what is too short, or is of a wrong pass or layer.
        vec![],
        slots(0, 0, 8).collect(),
        slots(1, 0, bytes).collect(),
        slots(9, 0, bytes).collect(),
        slots(0, 7, bytes).collect(),
    ] {
        until(is_idle).await;
        let error = called(&peer, read(more)).await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "PEER_LOST"));
    }
    until(is_idle).await;
}

/// Returns a memory that ends with a window.
async fn between_windows(pool: &MemoryPool) -> Vec<u8> {
    for letters in 1..=64 {
        let texts = vec![MemoryText { title: String::new(), text: "a".repeat(letters) }];
        let task = FormTask { ratio: RATIO, begun: None, texts };
        let formed = pool.form(task, soon()).await.unwrap();
        if formed.tokens.is_multiple_of(64) {
            return formed.snapshot;
        }
    }
    panic!("no text of up to a window ends with one");
}

#[tokio::test]
async fn a_memory_that_is_larger_than_the_room_for_memories_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_memory_model(folder.path(), 4).unwrap();
    let config = MemoryModelConfig {
        folder: Some(folder.path().to_owned()),
        threads: 1,
        cache_bytes: 1 << 20,
        ..MemoryModelConfig::default()
    };
    let pool = MemoryPool::load(&config).await.unwrap().unwrap();
    let server = Server::start(&embedding().await, Arc::clone(&pool)).await;
    let mut client = EncoderServiceClient::connect(server.address()).await.unwrap();
    let begun = FormTask { ratio: 1, ..task(400) };
    let formed = pool.form(begun, soon()).await.unwrap();
    assert!(formed.snapshot.len() as u64 > config.cache_bytes, "{}", formed.snapshot.len());
    let room = queued(&pool, "the room for snapshots on their way");
    assert_eq!(room, 0);
    let begun = Some(Arc::new(formed.snapshot));
    let go_on = FormTask { ratio: 1, begun, ..task(1) };
    let requests = futures::stream::iter(convert::form_to_wire(go_on));
    let mut events = client.form_memory(requests).await.unwrap().into_inner();
    let mut tokens = 0;
    while let Some(event) = events.message().await.unwrap() {
        if let Some(wire::form_memory_response::Payload::Formed(formed)) = event.payload {
            tokens = formed.tokens;
        }
    }
    assert!(tokens > formed.tokens, "{tokens}");
}
