//! Tests of remote encoders over real servers on loopback, real connections and a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{
    Embedding, Encoder, EncoderIdentity, Encoders, Error, ErrorKind, Priority, Span, TextKind,
};
use clew_memory_encoder::service::{EncoderEndpoint, OfferedModel};
use clew_memory_encoder::{EncoderConfig, EncoderPool};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_remote::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteEncoders};
use clew_runtime::peer::PeerConfig;
use clew_testkit::{FaultyWire, TinyBert};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Loads a pool with a random model.
async fn pool(seed: u64) -> Arc<EncoderPool> {
    pool_of(TinyBert { seed, ..TinyBert::default() }).await
}

async fn pool_of(tiny: TinyBert) -> Arc<EncoderPool> {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join(format!("tiny-{}", tiny.seed));
    std::fs::create_dir(&model).unwrap();
    tiny.write(&model).unwrap();
    let config = EncoderConfig { threads: 2, ..EncoderConfig::default() };
    Arc::new(EncoderPool::load(model, &config).await.unwrap())
}

/// Device that begins a batch when the test allows it, and then really computes it.
struct Device {
    pool: Arc<EncoderPool>,
    begun: watch::Sender<Vec<Priority>>,
    allowed: Semaphore,
}

impl Device {
    /// Waits until the given number of batches in all has reached the device.
    async fn begun(&self, batches: usize) -> Vec<Priority> {
        let mut begun = self.begun.subscribe();
        let enough = begun.wait_for(|begun| begun.len() >= batches);
        tokio::time::timeout(PATIENCE, enough).await.unwrap().unwrap().clone()
    }

    fn batches(&self) -> usize {
        self.begun.borrow().len()
    }

    /// Allows all batches from now on.
    fn release(&self) {
        self.allowed.add_permits(1 << 20);
    }
}

#[async_trait]
impl Encoder for Device {
    fn identity(&self) -> &EncoderIdentity {
        self.pool.identity()
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.pool.token_spans(text)
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        self.begun.send_modify(|begun| begun.push(priority));
        self.allowed.acquire().await.unwrap().forget();
        self.pool.embed(texts, kind, priority, deadline).await
    }
}

/// Encoder service behind a wire that can be cut.
struct Server {
    device: Arc<Device>,
    /// Device of a model that is not the current one.
    next: Option<Arc<Device>>,
    listens: SocketAddr,
    wire: FaultyWire,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    async fn start(pool: &Arc<EncoderPool>) -> Self {
        Self::start_with(&[pool]).await
    }

    /// Starts a server that offers the models of `pools`.
    async fn start_with(pools: &[&Arc<EncoderPool>]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        Self::serve(listener, wire, pools)
    }

    fn serve(listener: TcpListener, wire: FaultyWire, pools: &[&Arc<EncoderPool>]) -> Self {
        let device = |pool: &&Arc<EncoderPool>| {
            let (begun, allowed) = (watch::Sender::new(Vec::new()), Semaphore::new(0));
            Arc::new(Device { pool: Arc::clone(pool), begun, allowed })
        };
        let devices: Vec<Arc<Device>> = pools.iter().map(device).collect();
        let offered = |device: &Arc<Device>| {
            let tokenizer = Bytes::copy_from_slice(device.pool.model().tokenizer_json());
            let encoder = Arc::clone(device) as Arc<dyn Encoder>;
            OfferedModel::new(encoder, tokenizer, "a test's device".to_owned())
        };
        let endpoint = EncoderEndpoint::new(devices.iter().map(offered).collect(), 32);
        let listens = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving =
            tokio::spawn(
                async move { endpoint.serve(listener, async { drop(stopped.await) }).await },
            );
        let (device, next) = (Arc::clone(&devices[0]), devices.get(1).cloned());
        Self { device, next, listens, wire, stop: Mutex::new(Some(stop)), serving }
    }

    /// Allows all batches from now on.
    fn release(&self) {
        self.device.release();
        self.next.iter().for_each(|next| next.release());
    }

    /// Kills the server and starts another process at the same address.
    async fn replaced(self, pools: &[&Arc<EncoderPool>]) -> Self {
        self.kill();
        let Self { wire, mut serving, listens, .. } = self;
        assert!((&mut serving).await.unwrap_err().is_cancelled());
        let deadline = soon();
        let listener = loop {
            match TcpListener::bind(listens).await {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        wire.forward();
        let server = Self::serve(listener, wire, pools);
        server.release();
        server
    }

    /// Starts a server that computes what it is given.
    async fn willing(pool: &Arc<EncoderPool>) -> Self {
        Self::willing_with(&[pool]).await
    }

    async fn willing_with(pools: &[&Arc<EncoderPool>]) -> Self {
        let server = Self::start_with(pools).await;
        server.release();
        server
    }

    /// Simulates the death of the process: it stops serving and its connections close.
    fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }

    /// Simulates a process that is told to end.
    fn shut_down(&self) {
        self.stop.lock().unwrap().take().unwrap().send(()).unwrap();
    }
}

fn members(servers: &[&Server]) -> Vec<(String, String)> {
    let member = |(i, server): (usize, &&Server)| {
        (format!("encoder-{i}"), format!("http://{}", server.wire.address()))
    };
    servers.iter().enumerate().map(member).collect()
}

fn options(servers: &[&Server]) -> RemoteEncoderOptions {
    RemoteEncoderOptions {
        members: members(servers),
        expected: None,
        // Small batches, so that a call has several.
        config: RemoteEncoderConfig { batch_tokens: 64, ..RemoteEncoderConfig::default() },
        peers: PeerConfig {
            keepalive_interval_ms: 1000,
            keepalive_timeout_ms: 1000,
            ..PeerConfig::default()
        }
        .into(),
    }
}

/// Connects a remote encoder and waits until all its members serve.
async fn connect(options: RemoteEncoderOptions) -> Arc<RemoteEncoder> {
    let encoder = Arc::new(RemoteEncoder::connect(options, soon()).await.unwrap());
    let all = encoder.node().await.children.len();
    states(&encoder, &vec!["serving"; all]).await;
    encoder
}

/// Waits until the members are in the expected states.
async fn states(encoder: &RemoteEncoder, expected: &[&str]) {
    let deadline = soon();
    loop {
        let node = encoder.node().await;
        let states: Vec<_> = node.children.iter().map(|peer| peer.state.clone()).collect();
        if states == expected {
            return;
        }
        assert!(Instant::now() < deadline, "expected {expected:?}:\n{node}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn texts(count: usize) -> Vec<String> {
    (0..count)
        .map(|i| format!("the cat {i} moved to the old house {}", "a ".repeat(i % 50)))
        .collect()
}

fn embed(
    encoder: &Arc<RemoteEncoder>,
    texts: Vec<String>,
    priority: Priority,
) -> JoinHandle<Result<Vec<Embedding>, Error>> {
    let encoder = Arc::clone(encoder);
    tokio::spawn(async move { encoder.embed(texts, TextKind::Passage, priority, soon()).await })
}

/// Asserts that remote embeddings are those that this machine computes.
async fn assert_as_local(pool: &EncoderPool, texts: Vec<String>, remote: &[Embedding]) {
    let local = pool.embed(texts, TextKind::Passage, Priority::Bulk, soon()).await.unwrap();
    assert_eq!(local.len(), remote.len());
    for (i, (local, remote)) in local.iter().zip(remote).enumerate() {
        assert_eq!((local.tokens, local.truncated), (remote.tokens, remote.truncated), "text {i}");
        let cosine: f32 = local.vector.iter().zip(&remote.vector).map(|(a, b)| a * b).sum();
        // Batches of other texts differ in the last bits.
        assert!(cosine > 0.9999, "text {i}: {cosine}");
    }
}

#[tokio::test]
async fn several_encoders_share_a_call_and_compute_what_a_local_one_does() {
    let pool = pool(1).await;
    let (a, b) = (Server::willing(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a, &b])).await;
    assert_eq!(encoder.identity(), pool.identity());
    let text = "Née Zoë moved; the tea went cold.";
    assert_eq!(encoder.token_spans(text), pool.token_spans(text));

    let mut texts = texts(300);
    texts[7] = "a long river ".repeat(20_000);
    texts[8] = String::new();
    let embedded = embed(&encoder, texts.clone(), Priority::Bulk).await.unwrap().unwrap();
    assert_as_local(&pool, texts, &embedded).await;
    assert!(embedded[7].truncated);
    assert!(a.device.batches() > 3 && b.device.batches() > 3, "both had work");
    let none = embed(&encoder, Vec::new(), Priority::Interactive).await.unwrap().unwrap();
    assert!(none.is_empty());
    assert!(encoder.embedded_tokens() > 3000);
}

#[tokio::test]
async fn batches_that_are_lost_with_an_encoder_are_embedded_by_another() {
    let pool = pool(1).await;
    let (a, b) = (Server::start(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a, &b])).await;
    let texts = texts(100);
    let call = embed(&encoder, texts.clone(), Priority::Bulk);
    a.device.begun(2).await;
    a.kill();
    let embedded = call.await.unwrap().unwrap();
    assert_as_local(&pool, texts, &embedded).await;
}

#[tokio::test]
async fn an_encoder_that_falls_silent_is_missed_within_the_keepalive() {
    let pool = pool(1).await;
    let (a, b) = (Server::willing(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a, &b])).await;
    a.wire.fall_silent();
    let silent = Instant::now();
    let texts = texts(100);
    let embedded = embed(&encoder, texts.clone(), Priority::Bulk).await.unwrap().unwrap();
    let noticed = silent.elapsed();
    assert_as_local(&pool, texts, &embedded).await;
    // One second until the ping, one second for its answer, and a margin for a busy machine.
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    // The member is used again once it answers.
    a.wire.forward();
    states(&encoder, &["serving", "serving"]).await;
}

#[tokio::test]
async fn an_encoder_that_leaves_finishes_and_gets_no_new_work() {
    let pool = pool(1).await;
    let (mut a, b) = (Server::start(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a])).await;
    let begun = embed(&encoder, texts(20), Priority::Bulk);
    // As many as the window holds, so that none is still on its way.
    a.device.begun(4).await;
    encoder.update(members(&[&a, &b])).await.unwrap();
    states(&encoder, &["serving", "serving"]).await;
    a.shut_down();
    states(&encoder, &["draining", "serving"]).await;
    let given = a.device.batches();
    let texts_then = texts(40);
    let then = embed(&encoder, texts_then.clone(), Priority::Interactive).await.unwrap().unwrap();
    assert_as_local(&pool, texts_then, &then).await;
    assert_eq!(a.device.batches(), given, "no new work");
    assert!(!begun.is_finished());
    a.device.release();
    assert_as_local(&pool, texts(20), &begun.await.unwrap().unwrap()).await;
    let ended = tokio::time::timeout(PATIENCE, &mut a.serving).await;
    ended.expect("it ends when it has finished").unwrap().unwrap();
}

#[tokio::test]
async fn a_member_that_is_taken_out_finishes_what_it_has() {
    let pool = pool(1).await;
    let (a, b) = (Server::start(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a])).await;
    let begun = embed(&encoder, texts(3), Priority::Bulk);
    a.device.begun(1).await;
    encoder.update(members(&[&b])).await.unwrap();
    a.device.release();
    assert_as_local(&pool, texts(3), &begun.await.unwrap().unwrap()).await;
    let then = embed(&encoder, texts(5), Priority::Interactive).await.unwrap().unwrap();
    assert_as_local(&pool, texts(5), &then).await;
}

#[tokio::test]
async fn people_go_before_bulk_work_and_a_full_queue_refuses_them_at_once() {
    let pool = pool(1).await;
    let server = Server::start(&pool).await;
    let mut options = options(&[&server]);
    options.config.window = 1;
    options.config.queue_tokens = 1024;
    let encoder = connect(options).await;
    let bulk = embed(&encoder, texts(30), Priority::Bulk);
    server.device.begun(1).await;
    let person = embed(&encoder, texts(1), Priority::Interactive);
    let begun = server.device.begun(2).await;
    assert_eq!(begun, [Priority::Bulk, Priority::Interactive], "bulk keeps to its window");

    // More bulk work fills the queue, and waits.
    let more = embed(&encoder, texts(100), Priority::Bulk);
    let deadline = soon();
    let refused = loop {
        let asked =
            encoder.embed(texts(20), TextKind::Query, Priority::Interactive, Instant::now());
        match asked.await.unwrap_err() {
            error if error.kind() == ErrorKind::Exhausted => break error,
            // The queue had room, but the deadline had passed.
            error => assert_eq!(error.kind(), ErrorKind::DeadlineExceeded),
        }
        assert!(Instant::now() < deadline, "the queue was never full");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(refused.retry_after().is_some());
    server.device.release();
    assert_eq!(person.await.unwrap().unwrap().len(), 1);
    assert_eq!(bulk.await.unwrap().unwrap().len(), 30);
    assert_eq!(more.await.unwrap().unwrap().len(), 100);
    assert_eq!(encoder.node().await.queued, 0);
}

#[tokio::test]
async fn an_encoder_with_another_model_is_refused_and_not_used() {
    let (pool, other) = (pool(1).await, pool(2).await);
    let (a, b) = (Server::willing(&pool).await, Server::willing(&other).await);
    let mut options = options(&[&a, &b]);
    options.expected = Some(pool.identity().clone());
    let encoder = RemoteEncoder::connect(options.clone(), soon()).await.unwrap();
    let encoder = Arc::new(encoder);
    states(&encoder, &["serving", "refused"]).await;
    let embedded = embed(&encoder, texts(60), Priority::Bulk).await.unwrap().unwrap();
    assert_as_local(&pool, texts(60), &embedded).await;
    assert_eq!(b.device.batches(), 0);

    options.members = members(&[&b]);
    let alone = RemoteEncoder::connect(options, soon()).await;
    assert_mismatch(alone.map(drop), &pool, &[&other]);
}

#[tokio::test]
async fn without_any_encoder_callers_are_told_and_later_served() {
    let pool = pool(1).await;
    let server = Server::willing(&pool).await;
    let mut options = options(&[&server]);
    options.peers.config.wait_ms = 100;
    options.peers.config.reconnect_max_ms = 50;
    let encoder = connect(options).await;
    server.wire.cut();
    let deadline = soon();
    // The first call may be under way when the connection is cut.
    let refused = embed(&encoder, texts(3), Priority::Interactive).await.unwrap().unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Unavailable, "NO_PEER"));
    server.wire.forward();
    while embed(&encoder, texts(3), Priority::Interactive).await.unwrap().is_err() {
        assert!(Instant::now() < deadline, "it was never served again");
    }
}

/// Asserts that the error names the model that was asked for, and those that are there.
fn assert_mismatch(asked: Result<(), Error>, wanted: &EncoderPool, offered: &[&Arc<EncoderPool>]) {
    let error = asked.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "ENCODER_MISMATCH"));
    let (wanted_first, others) = error.message().split_once(" loaded is ").unwrap();
    assert!(wanted_first.contains(&wanted.identity().to_string()), "{error}");
    for pool in offered {
        assert!(others.contains(&pool.identity().to_string()), "{error}");
    }
}

async fn connect_all(servers: &[&Server]) -> RemoteEncoders {
    RemoteEncoders::connect(options(servers), soon()).await.unwrap()
}

/// Waits until the members are in the expected states, for each model that was asked for.
async fn states_by_model(encoders: &RemoteEncoders, expected: &[&[&str]]) {
    let deadline = soon();
    loop {
        let nodes = encoders.nodes().await;
        let states: Vec<Vec<_>> = nodes
            .iter()
            .map(|node| node.children.iter().map(|peer| peer.state.clone()).collect())
            .collect();
        if states == expected {
            return;
        }
        assert!(Instant::now() < deadline, "expected {expected:?}, got {states:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asserts that the encoders of a model compute what the pool computes here.
async fn assert_serves(encoders: &RemoteEncoders, pool: &EncoderPool) {
    let encoder = encoders.of(pool.identity(), soon()).await.unwrap();
    assert_eq!(encoder.identity(), pool.identity());
    let texts = texts(30);
    let (kind, bulk) = (TextKind::Passage, Priority::Bulk);
    let embedded = encoder.embed(texts.clone(), kind, bulk, soon()).await.unwrap();
    assert_as_local(pool, texts, &embedded).await;
}

/// Loads two models whose vectors differ in dimension.
async fn two() -> (Arc<EncoderPool>, Arc<EncoderPool>) {
    let narrow = TinyBert { seed: 2, width: 32, ..TinyBert::default() };
    (pool(1).await, pool_of(narrow).await)
}

#[tokio::test]
async fn a_member_that_offers_two_models_embeds_with_each() {
    let (a, b) = two().await;
    let server = Server::willing_with(&[&a, &b]).await;
    let encoders = connect_all(&[&server]).await;
    assert_eq!(encoders.current().identity(), a.identity());
    assert_eq!(encoders.offered(), [a.identity().clone(), b.identity().clone()]);
    // Simultaneous callers get the same encoder.
    let (one, other) =
        tokio::join!(encoders.of(b.identity(), soon()), encoders.of(b.identity(), soon()),);
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    assert_serves(&encoders, &a).await;
    assert_serves(&encoders, &b).await;
    let batches = |device: &Device| device.batches() > 0;
    assert!(batches(&server.device) && batches(server.next.as_ref().unwrap()));
    states_by_model(&encoders, &[&["serving"], &["serving"]]).await;
}

#[tokio::test]
async fn a_member_with_one_of_two_models_is_used_for_that_one_alone() {
    let (a, b) = two().await;
    let (both, one) = (Server::willing_with(&[&a, &b]).await, Server::willing(&a).await);
    let encoders = connect_all(&[&both, &one]).await;
    assert_serves(&encoders, &b).await;
    states_by_model(&encoders, &[&["serving", "serving"], &["serving", "refused"]]).await;
    assert_serves(&encoders, &b).await;
    assert_eq!(one.device.batches(), 0);
    both.kill();
    assert_serves(&encoders, &a).await;
    assert!(one.device.batches() > 0);
}

#[tokio::test]
async fn a_model_that_nobody_offers_is_refused_until_somebody_does() {
    let ((a, b), c) = (two().await, pool(3).await);
    let (first, second) = (Server::willing_with(&[&a, &b]).await, Server::willing(&a).await);
    let encoders = connect_all(&[&first, &second]).await;
    let asked = encoders.of(c.identity(), soon()).await;
    assert_mismatch(asked.map(drop), &c, &[&a, &b]);
    // A member that does not answer might offer the model, so it is given its time.
    second.wire.cut();
    first.wire.cut();
    states_by_model(&encoders, &[&["dead", "dead"], &["dead", "dead"]]).await;
    let asked = encoders.of(c.identity(), Instant::now() + Duration::from_millis(50)).await;
    assert_eq!(asked.map(drop).unwrap_err().kind(), ErrorKind::Unavailable);
    let third = Server::willing_with(&[&a, &c]).await;
    encoders.update(members(&[&third])).await.unwrap();
    assert_serves(&encoders, &c).await;
    assert_serves(&encoders, &a).await;
}

#[tokio::test]
async fn members_whose_models_change_places_serve_both_and_then_agree_on_the_current_one() {
    let (a, b) = two().await;
    let first = Server::willing_with(&[&a, &b]).await;
    let second = Server::willing_with(&[&a, &b]).await;
    let encoders = connect_all(&[&first, &second]).await;
    let of_a = encoders.current();
    assert_serves(&encoders, &b).await;
    let all: &[&str] = &["serving", "serving"];
    let mut servers = [first, second];
    for (replaced, current) in [&a, &b].into_iter().enumerate() {
        let [first, second] = servers;
        servers = match replaced {
            0 => [first.replaced(&[&b, &a]).await, second],
            _ => [first, second.replaced(&[&b, &a]).await],
        };
        states_by_model(&encoders, &[all, all]).await;
        for pool in [&a, &b] {
            assert_serves(&encoders, pool).await;
        }
        encoders.follow_current().await;
        assert_eq!(encoders.current().identity(), current.identity());
    }
    assert_eq!(encoders.offered(), [b.identity().clone(), a.identity().clone()]);
    // A caller that holds the old encoder can continue with it.
    let (kind, bulk) = (TextKind::Passage, Priority::Bulk);
    let embedded = of_a.embed(texts(5), kind, bulk, soon()).await.unwrap();
    assert_as_local(&a, texts(5), &embedded).await;
}

#[tokio::test]
async fn whoever_has_a_model_that_nobody_offers_any_more_is_told_which_are_there() {
    let (a, b) = two().await;
    let server = Server::willing(&a).await;
    let mut options = options(&[&server]);
    options.peers.config.wait_ms = 100;
    options.peers.config.reconnect_max_ms = 50;
    let encoders = RemoteEncoders::connect(options, soon()).await.unwrap();
    let of_a = encoders.current();
    let server = server.replaced(&[&b]).await;
    states_by_model(&encoders, &[&["refused"]]).await;
    let asked = of_a.embed(texts(1), TextKind::Query, Priority::Interactive, soon()).await;
    let error = asked.unwrap_err();
    // The model may be configured again.
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "NO_PEER"));
    assert!(error.message().contains(&b.identity().to_string()), "{error}");
    encoders.follow_current().await;
    assert_eq!(encoders.current().identity(), b.identity());
    assert_serves(&encoders, &b).await;
    let _server = server.replaced(&[&a, &b]).await;
    states_by_model(&encoders, &[&["serving"], &["serving"]]).await;
    of_a.embed(texts(1), TextKind::Query, Priority::Interactive, soon()).await.unwrap();
}

#[tokio::test]
async fn a_server_refuses_what_it_does_not_offer_and_names_what_it_does() {
    let ((a, b), c) = (two().await, pool(3).await);
    let server = Server::willing_with(&[&a, &b]).await;
    let address = format!("http://{}", server.wire.address());
    let mut client = EncoderServiceClient::connect(address).await.unwrap();
    let encoder = c.identity().fingerprint();
    let refused = client.describe(wire::DescribeRequest { encoder: encoder.clone() }).await;
    let refused = clew_proto::from_status(&refused.unwrap_err());
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "ENCODER_MISMATCH"));
    for pool in [&a, &b] {
        assert!(refused.message().contains(&pool.identity().fingerprint()), "{refused}");
    }
    let batch = |encoder: String| wire::EmbedRequest {
        id: 1,
        texts: vec!["the old house".to_owned()],
        kind: wire::TextKind::Query.into(),
        priority: wire::Priority::Interactive.into(),
        timeout: Some(PATIENCE.try_into().unwrap()),
        encoder,
        ..Default::default()
    };
    // An empty name means the current model.
    let batches = [batch(encoder), batch(b.identity().fingerprint()), batch(String::new())];
    let mut dimensions = Vec::new();
    for batch in batches {
        let responses = client.embed(tokio_stream::once(batch)).await.unwrap();
        let response = responses.into_inner().message().await.unwrap().unwrap();
        dimensions.push(match response.result.unwrap() {
            wire::embed_response::Result::Embeddings(all) => Ok(all.embeddings[0].vector.len() / 4),
            wire::embed_response::Result::Refusal(refusal) => Err(refusal.reason),
        });
    }
    assert_eq!(dimensions, [Err("ENCODER_MISMATCH".to_owned()), Ok(32), Ok(64)]);
}
