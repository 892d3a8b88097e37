//! Tests of rerankers, and of embedding models behind endpoints, over real servers on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod wired;

use std::path::Path;
use std::sync::Arc;

use clew_core::{Encoder, ErrorKind, NoReranker, Priority, Reranker, TextKind};
use clew_memory_encoder::service::EncoderEndpoint;
use clew_memory_encoder::{EncoderConfig, EncoderPools, RerankerPool};
use clew_remote::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteReranker};
use clew_runtime::peer::Reach;
use clew_testkit::{ModelEndpoint, write_tiny_bert, write_tiny_reranker};

use crate::wired::{Server, pool, soon};

const QUESTION: &str = "who lives by the river?";

async fn pools(folder: &Path, config: &EncoderConfig) -> EncoderPools {
    write_tiny_bert(folder, 3).unwrap();
    EncoderPools::load(Some(folder.to_owned()), config).await.unwrap()
}

async fn reranker(folder: &Path) -> Arc<RerankerPool> {
    write_tiny_reranker(folder, 5).unwrap();
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    Arc::new(RerankerPool::load(folder.to_owned(), &config).await.unwrap())
}

async fn serve(pools: &EncoderPools, reranker: Arc<dyn Reranker>) -> Server {
    Server::start(EncoderEndpoint::of_pools(pools, 32).with_reranker(reranker)).await
}

#[tokio::test]
async fn passages_are_reranked_elsewhere_as_here_also_when_an_encoder_is_lost() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    let pools = pools(folders[0].path(), &config).await;
    let here = reranker(folders[1].path()).await;
    let servers =
        [serve(&pools, Arc::clone(&here) as _).await, serve(&pools, Arc::clone(&here) as _).await];
    let there = RemoteReranker::new(
        pool("rerankers", vec![servers[0].member("a"), servers[1].member("b")]).await,
    );
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
    let server = serve(&pools(folder.path(), &config).await, Arc::new(NoReranker)).await;
    let there = RemoteReranker::new(pool("rerankers", vec![server.member("a")]).await);
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
    let server = serve(&pools, Arc::new(NoReranker)).await;
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
