//! Tests of the encoder pool with a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Encoder, Encoders, ErrorKind, Priority, TextKind};
use clew_endpoint::EmbeddingConfig;
use clew_memory_encoder::{
    EncoderConfig, EncoderPool, EncoderPools, OwnReader, OwnReranker, RerankerConfig,
};
use clew_model::EmbeddingModel;
use clew_testkit::{ModelEndpoint, TinyBert, write_tiny_reranker};

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
    // Questions are answered until the bulk work fills the queue. Then one is refused.
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
    let pools = EncoderPools::load(Some(first.clone()), &config).await.unwrap();
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
    let alone = EncoderPools::load(Some(first.clone()), &alone).await.unwrap();
    let missing = alone.of(&offered[1], soon()).await.map(drop).unwrap_err();
    assert_eq!((missing.kind(), missing.reason()), (ErrorKind::WrongState, "ENCODER_MISMATCH"));
    assert!(offered.iter().all(|it| missing.message().contains(&it.revision)), "{missing}");

    let twice = EncoderPools::load(Some(second), &config).await.map(drop).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidInput);
    assert_eq!(twice.violations()[0].field, "encoder.next_model");

    pools.stop().await;
    alone.stop().await;
    for pool in pools.all() {
        let asked = pool.encoder();
        let asked = asked.embed(vec![String::new()], TextKind::Query, Priority::Bulk, soon()).await;
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}

async fn reranker(encoder: &EncoderConfig) -> (OwnReranker, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("cross");
    std::fs::create_dir(&model).unwrap();
    write_tiny_reranker(&model, 5).unwrap();
    let config = RerankerConfig { model: Some(model), endpoint: None };
    (OwnReranker::load(&config, encoder, &OwnReader::None).await.unwrap(), folder)
}

#[tokio::test]
async fn passages_are_scored_as_the_model_scores_each_alone() {
    let encoder = EncoderConfig { threads: 2, batch_tokens: 64, ..EncoderConfig::default() };
    let (own, folder) = reranker(&encoder).await;
    let seam = own.seam();
    assert_eq!(seam.reranker_model(soon()).await.unwrap().as_deref(), Some("cross"));
    let passages: Vec<String> =
        (0..40).map(|i| format!("the dog went {}", "home to the river ".repeat(i % 9))).collect();
    let question = "where did the dog go?";
    let scored = seam.score(question, passages.clone(), soon()).await.unwrap();
    let options = clew_model::ModelOptions::default();
    let model = clew_model::RerankerModel::load(&folder.path().join("cross"), &options).unwrap();
    let mut tokens = 0;
    for (passage, score) in passages.iter().zip(&scored.scores) {
        let pair = model.encode(question, passage).unwrap();
        tokens += pair.ids.len() as u64;
        let logit = model.score_pairs(&[pair], &mut clew_model::Scratch::default()).unwrap()[0];
        let share = 1.0 / (1.0 + f64::from(-logit).exp());
        // Sums in another order differ in the last bits.
        assert!((share - f64::from(*score)).abs() < 1e-3, "{share} and {score}");
    }
    assert_eq!(scored.tokens, tokens);

    let long = seam.score(&"dog ".repeat(500), vec![String::new()], soon()).await.unwrap_err();
    assert_eq!(long.violations()[0].field, "query");
    let late = seam.score(question, passages.clone(), Instant::now()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    own.stop().await;
    let gone = seam.score(question, passages, soon()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn more_passages_than_the_queue_holds_are_refused_at_once() {
    // The first batch takes the whole queue.
    let encoder = EncoderConfig { threads: 1, queue_tokens: 1024, ..EncoderConfig::default() };
    let (own, _folder) = reranker(&encoder).await;
    let passages = vec!["the old house by the river ".repeat(20); 200];
    let refused = own.seam().score("which house?", passages, soon()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.retry_after().is_some());
    own.stop().await;
}

#[tokio::test]
async fn without_a_reranker_and_a_reader_there_is_none() {
    let (none, encoder) = (RerankerConfig::default(), EncoderConfig::default());
    let own = OwnReranker::load(&none, &encoder, &OwnReader::None).await.unwrap();
    assert_eq!(own.seam().reranker_model(soon()).await.unwrap(), None);
    let refused = own.seam().score("q", vec!["p".to_owned()], soon()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_RERANKER"));
}

#[tokio::test]
async fn a_model_behind_an_endpoint_is_an_encoder_beside_one_in_a_folder() {
    let server = ModelEndpoint::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    TinyBert::default().write(folder.path()).unwrap();
    let tokenizer = Some(folder.path().join("tokenizer.json"));
    let endpoint = |model: &str| EmbeddingConfig {
        url: server.url(),
        model: model.to_owned(),
        dimension: 8,
        query_prefix: "q: ".to_owned(),
        ..EmbeddingConfig::default()
    };
    let config = EncoderConfig {
        endpoint: Some(EmbeddingConfig { tokenizer, ..endpoint("remote") }),
        next_model: Some(folder.path().to_owned()),
        threads: 1,
        ..EncoderConfig::default()
    };
    // The default folder is not searched for.
    let pools = EncoderPools::load(None, &config).await.unwrap();
    let offered = pools.offered();
    assert_eq!(offered.iter().map(|it| it.dimension).collect::<Vec<_>>(), [8, 64]);
    assert_eq!(offered[0].model, "remote");
    let exact = pools.current().token_spans("moved moved").len();
    assert_eq!(exact, 2, "by the tokenizer of the file");
    for identity in &offered {
        let encoder = pools.of(identity, soon()).await.unwrap();
        let texts = vec!["the old house".to_owned()];
        let embedded = encoder.embed(texts, TextKind::Query, Priority::Bulk, soon()).await.unwrap();
        assert_eq!(embedded[0].vector.len(), identity.dimension as usize);
    }
    assert_eq!(server.requests()[0].body["input"][0], "q: the old house");
    assert!(pools.first().embedded_tokens() > 0);
    pools.stop().await;

    let estimated =
        EncoderConfig { endpoint: Some(endpoint("remote")), next_model: None, ..config.clone() };
    let estimated = EncoderPools::load(None, &estimated).await.unwrap();
    assert_eq!(estimated.current().token_spans("moved moved").len(), 4);
    assert!(estimated.first().tokenizer_json().is_empty());

    let same = EncoderConfig {
        endpoint: Some(endpoint("remote")),
        next_model: None,
        next_endpoint: Some(endpoint("remote")),
        ..config.clone()
    };
    let refused = EncoderPools::load(None, &same).await.map(drop).unwrap_err();
    assert_eq!(refused.violations()[0].field, "encoder.next_endpoint");
    let missing = Some(folder.path().join("no-such.json"));
    let endpoint = Some(EmbeddingConfig { tokenizer: missing, ..endpoint("remote") });
    let missing = EncoderConfig { endpoint, next_model: None, ..config };
    let refused = EncoderPools::load(None, &missing).await.map(drop).unwrap_err();
    assert_eq!(refused.violations()[0].field, "encoder.endpoint.tokenizer");
    let nothing = EncoderPools::load(None, &EncoderConfig::default()).await.map(drop).unwrap_err();
    assert_eq!(nothing.violations()[0].field, "encoder.model");
}
