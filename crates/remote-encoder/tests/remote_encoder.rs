//! Remote encoders over real servers on loopback, real connections and a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind};
use clew_memory_encoder::service::EncoderEndpoint;
use clew_memory_encoder::{EncoderConfig, EncoderPool};
use clew_remote_encoder::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions};
use clew_runtime::peer::PeerConfig;
use clew_testkit::FaultyWire;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

/// Longest time that a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// A pool with a random model.
async fn pool(seed: u64) -> Arc<EncoderPool> {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("tiny");
    std::fs::create_dir(&model).unwrap();
    clew_testkit::write_tiny_bert(&model, seed).unwrap();
    let config = EncoderConfig { threads: 2, ..EncoderConfig::default() };
    Arc::new(EncoderPool::load(model, &config).await.unwrap())
}

/// A device that begins a batch when the test lets it, and then really computes it.
struct Device {
    pool: Arc<EncoderPool>,
    begun: watch::Sender<Vec<Priority>>,
    allowed: Semaphore,
}

impl Device {
    /// Waits until so many batches have reached it in all.
    async fn begun(&self, batches: usize) -> Vec<Priority> {
        let mut begun = self.begun.subscribe();
        let enough = begun.wait_for(|begun| begun.len() >= batches);
        tokio::time::timeout(PATIENCE, enough).await.unwrap().unwrap().clone()
    }

    fn batches(&self) -> usize {
        self.begun.borrow().len()
    }

    /// Computes everything, from now on.
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

/// An encoder service of its own, behind a wire that can be cut.
struct Server {
    device: Arc<Device>,
    wire: FaultyWire,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    async fn start(pool: &Arc<EncoderPool>) -> Self {
        let device = Arc::new(Device {
            pool: Arc::clone(pool),
            begun: watch::Sender::new(Vec::new()),
            allowed: Semaphore::new(0),
        });
        let tokenizer = Bytes::copy_from_slice(pool.model().tokenizer_json());
        let encoder: Arc<dyn Encoder> = Arc::clone(&device) as Arc<dyn Encoder>;
        let endpoint = EncoderEndpoint::new(encoder, tokenizer, "a test's device".to_owned(), 32);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving =
            tokio::spawn(
                async move { endpoint.serve(listener, async { drop(stopped.await) }).await },
            );
        Self { device, wire, stop: Mutex::new(Some(stop)), serving }
    }

    /// A server that computes what it is given.
    async fn willing(pool: &Arc<EncoderPool>) -> Self {
        let server = Self::start(pool).await;
        server.device.release();
        server
    }

    /// As when its process is killed: it stops serving and its connections close.
    fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }

    /// As when its process is told to end.
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
        // Small batches, so that there are several.
        config: RemoteEncoderConfig { batch_tokens: 64, ..RemoteEncoderConfig::default() },
        peers: PeerConfig {
            keepalive_interval_ms: 1000,
            keepalive_timeout_ms: 1000,
            ..PeerConfig::default()
        }
        .into(),
    }
}

/// A remote encoder whose members are all known and serving.
async fn connect(options: RemoteEncoderOptions) -> Arc<RemoteEncoder> {
    let encoder = Arc::new(RemoteEncoder::connect(options, soon()).await.unwrap());
    let all = encoder.node().await.children.len();
    states(&encoder, &vec!["serving"; all]).await;
    encoder
}

/// Waits until the members are in these states.
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

/// What came from elsewhere is what this machine computes.
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
    // A second until the ping, a second for its answer, and a margin for a busy machine.
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    // It is used again once it speaks.
    a.wire.forward();
    states(&encoder, &["serving", "serving"]).await;
}

#[tokio::test]
async fn an_encoder_that_leaves_finishes_and_gets_no_new_work() {
    let pool = pool(1).await;
    let (mut a, b) = (Server::start(&pool).await, Server::willing(&pool).await);
    let encoder = connect(options(&[&a])).await;
    let begun = embed(&encoder, texts(20), Priority::Bulk);
    // As many as the window holds, so that none is still on its way there.
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
            // There was room still, and no time.
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
    let alone = RemoteEncoder::connect(options, Instant::now() + Duration::from_millis(300)).await;
    assert_eq!(alone.err().unwrap().kind(), ErrorKind::Unavailable);
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
