//! Tests of rerankers, and of embedding models behind endpoints, over real servers on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Encoder, Error, ErrorKind, NoReranker, Priority, Reranker, TextKind};
use clew_memory_encoder::service::EncoderEndpoint;
use clew_memory_encoder::{EncoderConfig, EncoderPools, RerankerPool};
use clew_remote::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteReranker};
use clew_runtime::peer::{PeerOptions, Reach};
use clew_runtime::pool::Pool;
use clew_testkit::{FaultyWire, ModelEndpoint, write_tiny_bert, write_tiny_reranker};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);
const QUESTION: &str = "who lives by the river?";

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

async fn pools(folder: &Path, config: &EncoderConfig) -> EncoderPools {
    write_tiny_bert(folder, 3).unwrap();
    EncoderPools::load(Some(folder.to_owned()), config).await.unwrap()
}

async fn reranker(folder: &Path) -> Arc<RerankerPool> {
    write_tiny_reranker(folder, 5).unwrap();
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    Arc::new(RerankerPool::load(folder.to_owned(), &config).await.unwrap())
}

/// Encoder service behind a wire that can be cut.
struct Server {
    wire: FaultyWire,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    async fn start(pools: &EncoderPools, reranker: Arc<dyn Reranker>) -> Self {
        let endpoint = EncoderEndpoint::of_pools(pools, 32).with_reranker(reranker);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let serving =
            tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
        Self { wire, serving }
    }

    fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }

    fn member(&self, name: &str) -> (String, String) {
        (name.to_owned(), format!("http://{}", self.wire.address()))
    }
}

async fn remote(members: Vec<(String, String)>) -> RemoteReranker {
    let service = "clew.encoder.v1.EncoderService".to_owned();
    let options = PeerOptions { service, credits: 64, reach: Reach::default() };
    let pool = Pool::new("rerankers", options);
    pool.update(members).await.unwrap();
    let deadline = soon();
    while !pool.node().children.iter().all(|peer| peer.state == "serving") {
        assert!(Instant::now() < deadline, "they never served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    RemoteReranker::new(pool)
}

#[tokio::test]
async fn passages_are_reranked_elsewhere_as_here_also_when_an_encoder_is_lost() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    let pools = pools(folders[0].path(), &config).await;
    let here = reranker(folders[1].path()).await;
    let servers = [
        Server::start(&pools, Arc::clone(&here) as _).await,
        Server::start(&pools, Arc::clone(&here) as _).await,
    ];
    let there = remote(vec![servers[0].member("a"), servers[1].member("b")]).await;
    assert_eq!(
        there.reranker_model(soon()).await.unwrap(),
        here.reranker_model(soon()).await.unwrap()
    );
    let passages: Vec<String> =
        (0..100).map(|i| format!("the old house {}", "by the river ".repeat(i % 7))).collect();
    let expected = here.score(QUESTION, passages.clone(), soon()).await.unwrap();
    for is_one_lost in [false, true] {
        if is_one_lost {
            servers[0].kill();
        }
        let scored = there.score(QUESTION, passages.clone(), soon()).await.unwrap();
        assert_eq!(scored.tokens, expected.tokens);
        for (score, expected) in scored.scores.iter().zip(&expected.scores) {
            assert!((score - expected).abs() < 1e-3, "{score} and {expected}");
        }
        assert_eq!(scored.scores.len(), passages.len());
    }
    let long = there.score(&"dog ".repeat(400), passages, soon()).await.unwrap_err();
    assert_eq!(
        (long.kind(), long.violations()[0].field.as_str()),
        (ErrorKind::InvalidInput, "query")
    );
}

#[tokio::test]
async fn encoders_without_a_reranker_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    let server = Server::start(&pools(folder.path(), &config).await, Arc::new(NoReranker)).await;
    let there = remote(vec![server.member("a")]).await;
    assert_eq!(there.reranker_model(soon()).await.unwrap(), None);
    let refused = there.score(QUESTION, vec!["p".to_owned()], soon()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_RERANKER"));
}

#[tokio::test]
async fn a_model_behind_an_endpoint_is_reached_through_an_encoder() {
    let endpoint = ModelEndpoint::start().unwrap();
    let config = EncoderConfig {
        endpoint: Some(clew_endpoint::EmbeddingConfig {
            url: endpoint.url(),
            model: "remote".to_owned(),
            dimension: 8,
            ..Default::default()
        }),
        ..EncoderConfig::default()
    };
    let pools = EncoderPools::load(None, &config).await.unwrap();
    let server = Server::start(&pools, Arc::new(NoReranker)).await;
    let options = RemoteEncoderOptions {
        members: vec![server.member("a")],
        expected: None,
        config: RemoteEncoderConfig { batch_tokens: 64, ..RemoteEncoderConfig::default() },
        peers: Reach::default(),
    };
    let there = RemoteEncoder::connect(options, soon()).await.unwrap();
    assert_eq!(there.identity(), pools.first().identity());
    // No side has the tokenizer: both estimate, and cut texts alike.
    let text = "Ariadne's clew 東京";
    assert_eq!(there.token_spans(text), pools.first().encoder().token_spans(text));
    let mut texts: Vec<String> = (0..50).map(|i| format!("text {i}")).collect();
    texts.push("long ".repeat(100_000));
    let (kind, bulk) = (TextKind::Passage, Priority::Bulk);
    let embedded = there.embed(texts.clone(), kind, bulk, soon()).await.unwrap();
    let expected = pools.first().encoder().embed(texts, kind, bulk, soon()).await.unwrap();
    assert_eq!(embedded, expected);
    assert!(embedded[50].truncated && !embedded[0].truncated);
}
