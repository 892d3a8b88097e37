//! Tests of models that compute no numbers: what they return is refused, and the ones that a check
//! finds out get no more work.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

#[path = "shared/kept.rs"]
mod kept;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    DraftTask, Encoder, Error, ErrorKind, FormTask, MemoryEncoder, MemoryText, Priority, TextKind,
};
use clew_memory_encoder::service::{EncoderEndpoint, OfferedModel};
use clew_memory_encoder::{EncoderConfig, EncoderPool, MemoryModelConfig, MemoryPool};
use clew_remote::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions};
use clew_runtime::peer::Reach;
use clew_telemetry::Severity;
use clew_testkit::{TinyBert, overflow, write_tiny_memory_model};
use tokio::net::TcpListener;

use self::kept::Kept;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Checks that an error tells to come again, because a device failed.
fn assert_failed(error: &Error) {
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "DEVICE_FAILED"));
    assert!(error.retry_after().is_some(), "{error}");
}

async fn embed(encoder: &dyn Encoder) -> Result<usize, Error> {
    let texts = vec!["the old house".to_owned(), "by the river".to_owned()];
    let embedded = encoder.embed(texts, TextKind::Passage, Priority::Interactive, soon()).await;
    embedded.map(|embeddings| embeddings.len())
}

#[tokio::test]
async fn vectors_that_are_no_numbers_reach_nobody_and_stop_nobody() {
    let folder = tempfile::tempdir().unwrap();
    TinyBert::default().write(folder.path()).unwrap();
    overflow(folder.path(), "encoder.layer.1.output.LayerNorm.weight").unwrap();
    for path in ["burn", "packed"] {
        let config =
            EncoderConfig { threads: 1, path: path.to_owned(), ..EncoderConfig::default() };
        let pool = match EncoderPool::load(folder.path().to_owned(), &config).await {
            Ok(pool) => Arc::new(pool),
            // This processor has no instructions for it.
            Err(_) if path == "packed" => continue,
            Err(error) => panic!("{error}"),
        };
        assert_failed(&embed(pool.as_ref()).await.unwrap_err());
        // A processor is trusted: the fault is the model's, and other texts may not overflow.
        assert!(pool.troubles().is_empty());

        let endpoint = EncoderEndpoint::new(vec![OfferedModel::of_pool(&pool)], 4);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving =
            tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
        let options = RemoteEncoderOptions {
            members: vec![("a".to_owned(), address)],
            expected: None,
            config: RemoteEncoderConfig::default(),
            peers: Reach::default(),
        };
        let remote = RemoteEncoder::connect(options, soon()).await.unwrap();
        assert_failed(&embed(&remote).await.unwrap_err());
        serving.abort();
        pool.stop().await;
    }
}

async fn memory_model(overflowing: &str) -> Arc<MemoryPool> {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_memory_model(folder.path(), 3).unwrap();
    overflow(folder.path(), overflowing).unwrap();
    let folder = Some(folder.path().to_owned());
    let config = MemoryModelConfig { folder, threads: 1, ..MemoryModelConfig::default() };
    MemoryPool::load(&config).await.unwrap().unwrap()
}

async fn form(pool: &MemoryPool) -> Result<Vec<u8>, Error> {
    let text = MemoryText { title: String::new(), text: "a clew ".repeat(20) };
    let task = FormTask { ratio: 4, begun: None, texts: vec![text] };
    pool.form(task, soon()).await.map(|formed| formed.snapshot)
}

/// Waits until the pool gets no more work, and checks that it refuses it at once.
async fn assert_out_of_service(pool: &MemoryPool) {
    while pool.troubles().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let trouble = &pool.troubles()[0];
    assert_eq!((trouble.part.as_str(), trouble.severity), ("memory model", Severity::Degraded));
    let refused = form(pool).await.unwrap_err();
    assert_failed(&refused);
    assert!(refused.message().contains("takes no work"), "{refused}");
}

#[tokio::test]
async fn a_memory_that_is_no_numbers_is_refused_and_its_model_gets_no_more_work() {
    let pool = memory_model("model.layers.0.input_layernorm.weight").await;
    assert_failed(&form(&pool).await.unwrap_err());
    assert_out_of_service(&pool).await;
    pool.stop().await;
}

#[tokio::test]
async fn drafts_without_likelihoods_are_refused_and_their_model_gets_no_more_work() {
    let pool = memory_model("model.norm.weight").await;
    let memory = Kept::new(1, form(&pool).await.unwrap());
    let task = DraftTask { question: "Who keeps the bees?".to_owned(), ..DraftTask::default() };
    assert_failed(&pool.draft(&memory, &task, soon()).await.unwrap_err());
    assert_eq!(memory.fetched(), 1);
    assert_eq!(pool.ready(), (0, 0), "what the device may have spoiled is dropped");
    assert_out_of_service(&pool).await;
    let refused = pool.draft(&memory, &task, soon()).await.unwrap_err();
    assert_failed(&refused);
    pool.stop().await;
}
