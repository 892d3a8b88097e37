//! The pool over a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Encoder, Encoders, ErrorKind, Priority, TextKind};
use clew_memory_encoder::{EncoderConfig, EncoderPool, EncoderPools};
use clew_model::EmbeddingModel;
use clew_testkit::TinyBert;

async fn pool(config: EncoderConfig) -> (EncoderPool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_bert(folder.path(), 3).unwrap();
    let options = config.model_options().unwrap();
    let model = EmbeddingModel::load(folder.path(), &options).unwrap();
    (EncoderPool::start(model, &config).await.unwrap(), folder)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn many_texts_come_back_in_order_and_equal_to_each_alone() {
    let (pool, _folder) = pool(EncoderConfig { threads: 2, ..EncoderConfig::default() }).await;
    let texts: Vec<String> = (0..300).map(|i| format!("a clew {}", "b ".repeat(i % 40))).collect();
    let (kind, bulk) = (TextKind::Passage, Priority::Bulk);
    let together = pool.embed(texts.clone(), kind, bulk, soon()).await.unwrap();
    assert_eq!(together.len(), texts.len());
    for i in [0, 39, 150, 299] {
        let one = vec![texts[i].clone()];
        let alone = pool.embed(one, kind, Priority::Interactive, soon()).await.unwrap();
        let product: f32 =
            alone[0].vector.iter().zip(&together[i].vector).map(|(a, b)| a * b).sum();
        // Unit vectors; batched bfloat16 sums differ in the last bits only.
        assert!(product > 0.9999, "text {i}: {product}");
    }
    assert!(pool.busy() > Duration::ZERO);
    pool.stop().await;
    let refused = pool.embed(texts, kind, Priority::Interactive, soon()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_full_queue_refuses_people_at_once_and_slows_bulk_work_down() {
    let config = EncoderConfig { threads: 1, queue_tokens: 1024, ..EncoderConfig::default() };
    let (pool, _folder) = pool(config).await;
    let pool = Arc::new(pool);
    let texts = || vec!["a b c d e f g h ".repeat(6); 200];
    let bulk = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.embed(texts(), TextKind::Passage, Priority::Bulk, soon()).await }
    });
    // Until the bulk work fills the queue, questions are answered; then one is refused.
    let mut refused = false;
    while !refused && !bulk.is_finished() {
        let asked = pool.embed(texts(), TextKind::Query, Priority::Interactive, soon()).await;
        refused = asked.is_err_and(|error| error.kind() == ErrorKind::Exhausted);
    }
    assert!(refused, "the queue was never full");
    assert_eq!(bulk.await.unwrap().unwrap().len(), 200, "bulk work waited and got through");
    pool.stop().await;
}

#[tokio::test]
async fn two_models_are_there_side_by_side() {
    let folders = tempfile::tempdir().unwrap();
    let written = |name: &str, seed, width| {
        let folder = folders.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        TinyBert { seed, width, ..TinyBert::default() }.write(&folder).unwrap();
        folder
    };
    let (first, second) = (written("first", 1, 64), written("second", 2, 32));
    let config =
        EncoderConfig { threads: 1, next_model: Some(second.clone()), ..EncoderConfig::default() };
    let pools = EncoderPools::load(first.clone(), &config).await.unwrap();
    let offered = pools.offered();
    assert_eq!(offered.iter().map(|it| it.dimension).collect::<Vec<_>>(), [64, 32]);
    assert_eq!(pools.current().identity(), &offered[0]);
    for identity in &offered {
        let encoder = pools.of(identity, soon()).await.unwrap();
        assert_eq!(encoder.identity(), identity);
        let text = vec!["the old house".to_owned()];
        let bulk = Priority::Bulk;
        let embedded = encoder.embed(text, TextKind::Passage, bulk, soon()).await.unwrap();
        assert_eq!(embedded[0].vector.len(), identity.dimension as usize);
    }
    let nodes: Vec<String> = pools.nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(nodes, ["encoders of `first`", "encoders of `second`"]);

    let alone = EncoderConfig { next_model: None, ..config.clone() };
    let alone = EncoderPools::load(first.clone(), &alone).await.unwrap();
    let missing = alone.of(&offered[1], soon()).await.map(drop).unwrap_err();
    assert_eq!((missing.kind(), missing.reason()), (ErrorKind::WrongState, "ENCODER_MISMATCH"));
    assert!(offered.iter().all(|it| missing.message().contains(&it.revision)), "{missing}");

    let twice = EncoderPools::load(second, &config).await.map(drop).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidInput);
    assert_eq!(twice.violations()[0].field, "encoder.next_model");

    pools.stop().await;
    alone.stop().await;
    for pool in pools.all() {
        let asked = pool.embed(vec![String::new()], TextKind::Query, Priority::Bulk, soon()).await;
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
