//! Tests of rerankers, behind an endpoint and in a folder, and of embedding models behind an
//! endpoint.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use clew_client::{Client, QuestionRequest};
use clew_core::{CorpusName, ErrorKind, Query, Reranker, SearchMode};
use clew_memory_encoder::{EncoderConfig, RerankerPool};
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest, write_tiny_reranker};
use serde_json::{Value, json};

use crate::client::{create, create_in_shards, document, remember};
use crate::harness::{Home, PATIENCE, Ran, Server, eventually};
use crate::processes::Cluster;

/// Question, whose words some of the documents contain.
const QUESTION: &str = "who lives in the old house by the river";

fn documents() -> Vec<clew_core::Document> {
    let words = ["dog", "cat", "mother", "father", "friend", "train", "tea", "book"];
    let text = |(i, word): (usize, &&str)| {
        let rest = "in the city ".repeat(i % 4);
        document(&format!("d{i}"), format!("The {word} lives in the old house {rest}by the river."))
    };
    words.iter().enumerate().map(text).collect()
}

fn found(searched: &Value) -> Vec<(String, f64)> {
    let items = searched["evidence"].as_array().unwrap().iter();
    let of = |item: &Value| {
        let id = item["document_id"].as_str().unwrap().to_owned();
        (id, item["score"].as_f64().unwrap())
    };
    items.map(of).collect()
}

fn ids(found: &[(String, f64)]) -> Vec<&str> {
    found.iter().map(|(id, _)| id.as_str()).collect()
}

fn reranks(request: &ModelRequest) -> bool {
    request.path.ends_with("/rerank")
}

/// Replies with scores for `passages` passages, the last one best.
fn last_first(passages: usize) -> ModelReply {
    let item = |i: usize| json!({ "index": i, "relevance_score": (i + 1) as f64 / 100.0 });
    let results: Vec<Value> = (0..passages).map(item).collect();
    let body = json!({ "results": results, "usage": { "total_tokens": 321 } });
    ModelReply::Raw("application/json".to_owned(), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reranker_behind_an_endpoint_orders_what_is_found_and_is_paid_for() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    let mut command = home.serve_command();
    command.env("CLEW_RERANKER__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_RERANKER__ENDPOINT__MODEL", "scripted");
    command.env("CLEW_RERANKER__ENDPOINT__ATTEMPTS", "2");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, documents()).await;
    let search = |more: &[&str]| {
        let arguments = ["search", "--corpus", "notes", "--json", QUESTION];
        home.run_at(&server, &[&arguments, more].concat())
    };
    let plain = search(&["-k", "8"]).done();
    assert_eq!(plain["cost"]["reranked_tokens"], 0, "{plain}");
    assert!(endpoint.requests().is_empty(), "nobody asked for it");

    // A server that fails once is asked again.
    endpoint.script([ModelReply::Status(503, None), last_first(8)]);
    let reranked = search(&["-k", "3", "--rerank", "8"]).done();
    let (before, after) = (found(&plain), found(&reranked));
    let mut expected = ids(&before);
    expected.reverse();
    assert_eq!(ids(&after), expected[..3], "{reranked}");
    let scores: Vec<f64> = after.iter().map(|(_, score)| (score * 100.0).round()).collect();
    assert_eq!(scores, [8.0, 7.0, 6.0]);
    assert_eq!(reranked["cost"]["reranked_tokens"], 321, "{reranked}");
    let asked = endpoint.requests().pop().unwrap();
    assert!(reranks(&asked) && asked.body["query"] == QUESTION, "{asked:?}");
    assert_eq!(asked.body["documents"].as_array().unwrap().len(), 8);

    // A question reranks each search of its strategy.
    let ask = ["ask", "--corpus", "notes", "--json", "-k", "3", "--rerank", "8", QUESTION];
    let answered = home.run_at(&server, &ask).done();
    assert!(answered["cost"]["reranked_tokens"].as_u64().unwrap() > 0, "{answered}");
    assert!(endpoint.requests().iter().filter(|request| reranks(request)).count() > 2);

    let sent = endpoint.requests().len();
    for (k, rerank) in [("3", "201"), ("10", "9"), ("3", "0")] {
        let refused = search(&["-k", k, "--rerank", rerank]).error();
        assert_eq!(refused["violations"][0]["field"], "rerank", "{refused}");
    }
    let ask = ["ask", "--corpus", "notes", "--json", "--rerank", "201", QUESTION];
    let refused = home.run_at(&server, &ask).error();
    assert_eq!(refused["violations"][0]["field"], "rerank", "{refused}");
    assert_eq!(endpoint.requests().len(), sent, "what is refused asks nobody");

    endpoint.script([ModelReply::Stalled(String::new())]);
    let hurried = Client::connect(&server.endpoint, Duration::from_secs(2)).await.unwrap();
    let query = Query { rerank: Some(8), ..Query::new(QUESTION, 3) };
    let late = hurried.search(&notes, query).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded, "{late}");
    endpoint.script([ModelReply::Status(401, None)]);
    let refused = search(&["-k", "3", "--rerank", "8"]).error();
    assert_eq!(refused["reason"], "ENDPOINT_REFUSED", "{refused}");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_reranker_is_configured_reranking_is_refused() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let query = Query { rerank: Some(10), ..Query::new(QUESTION, 10) };
    let refused = client.search(&notes, query).await.unwrap_err();
    assert_eq!(refused.violations()[0].field, "rerank");
    let batch =
        vec![Query::new(QUESTION, 10), Query { rerank: Some(10), ..Query::new(QUESTION, 10) }];
    let refused = client.search_batch(&notes, batch).await.unwrap_err();
    assert_eq!(refused.violations()[0].field, "searches[1].rerank");
    let text = QUESTION.to_owned();
    let question = QuestionRequest { text, rerank: Some(10), ..QuestionRequest::default() };
    let refused = client.answer(&notes, question).await.map(drop).unwrap_err();
    assert_eq!(refused.violations()[0].field, "rerank");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_encoders_of_a_cluster_rerank_with_the_model_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_reranker(folder.path(), 5).unwrap();
    let model = folder.path().to_string_lossy().into_owned();
    let cluster = Cluster::start_with(2, vec![("CLEW_RERANKER__MODEL", model)]).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, documents()).await;
    let plain = client.search(&notes, Query::new(QUESTION, 8)).await.unwrap();
    let query = Query { rerank: Some(8), ..Query::new(QUESTION, 3) };
    let reranked = client.search(&notes, query).await.unwrap();

    let batch = vec![Query::new(QUESTION, 8), Query { rerank: Some(8), ..Query::new(QUESTION, 3) }];
    let batch = client.search_batch(&notes, batch).await.unwrap().results;
    assert_eq!([&batch[0].evidence, &batch[1].evidence], [&plain.evidence, &reranked.evidence]);
    assert_eq!(batch[0].cost.as_ref().map(|cost| cost.reranked_tokens), Some(0));
    assert_eq!(
        batch[1].cost.as_ref().map(|cost| cost.reranked_tokens),
        reranked.cost.as_ref().map(|cost| cost.reranked_tokens)
    );

    let encoder = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    let oracle = RerankerPool::load(folder.path().to_owned(), &encoder).await.unwrap();
    let passages = plain.evidence.iter().map(|item| item.text.clone()).collect();
    let scored = oracle.score(QUESTION, passages, Instant::now() + PATIENCE).await.unwrap();
    let documents = plain.evidence.iter().map(|item| item.document_id.as_str());
    let expected: HashMap<&str, f32> = documents.zip(scored.scores.iter().copied()).collect();
    let mut best: Vec<f32> = scored.scores;
    best.sort_by(|a, b| b.total_cmp(a));
    assert_eq!((plain.evidence.len(), reranked.evidence.len()), (8, 3));
    for (item, best) in reranked.evidence.iter().zip(best) {
        // Sums in another order differ in the last bits.
        let of_document = expected[item.document_id.as_str()];
        assert!((item.score - of_document).abs() < 1e-3, "{item:?} is not {of_document}");
        assert!((item.score - best).abs() < 1e-3, "{item:?} is not the next best, {best}");
    }
    assert!(reranked.evidence.is_sorted_by(|a, b| a.score >= b.score));
    assert_eq!(reranked.cost.unwrap().reranked_tokens, scored.tokens);
    cluster.stop();
}

/// Starts a server whose embedding model is behind an endpoint.
fn serve_with(home: &Home, endpoint: &ModelEndpoint, settings: &[(&str, &str)]) -> Server {
    let mut command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
    configure(&mut command, endpoint, settings);
    Server::start(command)
}

fn configure(command: &mut Command, endpoint: &ModelEndpoint, settings: &[(&str, &str)]) {
    command.env("CLEW_ENCODER__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_ENCODER__ENDPOINT__MODEL", "remote");
    command.env("CLEW_ENCODER__ENDPOINT__DIMENSION", "16");
    command.env("CLEW_ENCODER__ENDPOINT__SHORTEN", "server");
    command.env("CLEW_ENCODER__ENDPOINT__BATCH", "4");
    command.env("CLEW_ENCODER__ENDPOINT__PASSAGE_PREFIX", "passage:");
    command.env("CLEW_ENCODER__ENDPOINT__API_KEY_ENV", "KEY_OF_THE_TEST");
    command.env("KEY_OF_THE_TEST", "sk-test");
    command.envs(settings.iter().copied());
}

async fn dense(client: &Client, notes: &CorpusName) -> Result<Vec<String>, clew_core::Error> {
    let query = Query { mode: SearchMode::Dense, ..Query::new(QUESTION, 3) };
    let evidence = client.search(notes, query).await?.evidence;
    Ok(evidence.into_iter().map(|item| item.document_id).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corpus_is_made_with_an_embedding_model_behind_an_endpoint() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.set_dimension(16);
    // The first request fails and is sent again.
    endpoint.script([ModelReply::Status(500, None)]);
    let server = serve_with(&home, &endpoint, &[]);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, documents()).await;
    let first = dense(&client, &notes).await.unwrap();
    assert_eq!(first.len(), 3);
    let encoder = client.corpus(&notes).await.unwrap().encoder.unwrap();
    assert_eq!((encoder.model.as_str(), encoder.dimension), ("remote", 16));
    assert!(encoder.revision.starts_with("1+"), "the prefixes are part of it: {encoder:?}");

    let requests = endpoint.requests();
    let inputs = |request: &ModelRequest| -> Vec<String> {
        let inputs = request.body["input"].as_array().unwrap().iter();
        inputs.map(|input| input.as_str().unwrap().to_owned()).collect()
    };
    let (questions, passages): (Vec<_>, Vec<_>) =
        requests.iter().flat_map(inputs).partition(|input| input == QUESTION);
    assert_eq!(questions.len(), 1);
    assert!(passages.iter().all(|input| input.starts_with("passage:")), "{passages:?}");
    for request in &requests {
        assert!(inputs(request).len() <= 4 && request.body["dimensions"] == 16, "{request:?}");
        assert_eq!(request.key.as_deref(), Some("sk-test"));
    }
    let searched = home.run_at(
        &server,
        &["search", "--corpus", "notes", "--mode", "dense", "--json", "where is tea"],
    );
    assert!(searched.done()["cost"]["embedded_tokens"].as_u64().unwrap() > 0);
    assert!(server.terminate().success());

    // Another prefix makes other vectors.
    let other = [("CLEW_ENCODER__ENDPOINT__PASSAGE_PREFIX", "text:")];
    let server = serve_with(&home, &endpoint, &other);
    let client = server.client().await;
    let missing = eventually("the shard tells why", async || {
        dense(&client, &notes).await.err().filter(|error| error.reason() == "ENCODER_MISMATCH")
    })
    .await;
    assert_eq!(missing.kind(), ErrorKind::WrongState);
    assert!(server.terminate().success());
    let server = serve_with(&home, &endpoint, &[]);
    let client = server.client().await;
    let again = eventually("the corpus is there again", async || dense(&client, &notes).await.ok());
    assert_eq!(again.await, first);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_asks_endpoints_of_encoders_and_rerankers() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.set_dimension(16);
    let doctor = |settings: &[(&str, &str)]| {
        let mut command = home.clew();
        command.args(["doctor", "--json", "--data-dir"]).arg(home.data_dir());
        configure(&mut command, &endpoint, settings);
        command.env("CLEW_RERANKER__ENDPOINT__URL", endpoint.url());
        command.env("CLEW_RERANKER__ENDPOINT__MODEL", "scripted");
        command.env("CLEW_RERANKER__ENDPOINT__ATTEMPTS", "1");
        Ran::of(command).json()["findings"].as_array().unwrap().clone()
    };
    let state = |findings: &[Value], check: &str| {
        let finding = findings.iter().find(|finding| finding["check"] == check).unwrap();
        finding["state"].as_str().unwrap().to_owned()
    };
    let sound = doctor(&[]);
    assert_eq!(state(&sound, "embedding model"), "ok", "{sound:?}");
    assert_eq!(state(&sound, "reranker"), "ok", "{sound:?}");
    let dimension = doctor(&[("CLEW_ENCODER__ENDPOINT__DIMENSION", "8")]);
    assert_eq!(state(&dimension, "embedding model"), "fail", "{dimension:?}");
    endpoint.script([ModelReply::Status(401, None), ModelReply::Status(401, None)]);
    let refused = doctor(&[]);
    assert_eq!(state(&refused, "embedding model"), "fail", "{refused:?}");
    assert_eq!(state(&refused, "reranker"), "fail", "{refused:?}");
}
