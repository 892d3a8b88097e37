//! Tests of large documents: they arrive in parts, and take a few times the memory of their text.

use std::fs;

use clew_client::Client;
use clew_core::CorpusName;
use clew_proto::convert::corpus::NewCorpus;
use clew_testkit::ModelEndpoint;

use crate::client::{accept, by_words, corpus, counts, document, id, send, text_of};
use crate::harness::{Home, Server, eventually};

const MIB: usize = 1 << 20;
/// Largest document that the servers take.
const LIMIT: usize = 40 * MIB;

/// Most copies of a document's text that a server holds while the document is accepted and indexed,
/// as `docs/limits.md` promises. The text itself is one of them.
const COPIES: usize = 5;

/// Returns a text of about so many bytes, all of whose sentences differ.
fn tale(bytes: usize) -> String {
    let sentence = |n: usize| {
        let (name, place) = (n % 977, n / 7 % 1_009);
        format!("In year {n} the traveller {name} came to the river {place} and found no bridge. ")
    };
    let mut text: String = (0..bytes / 64).map(sentence).collect();
    text.truncate(bytes);
    text
}

/// Creates a corpus without trees and a graph.
async fn create_plain(client: &Client) -> CorpusName {
    let name = corpus("tales");
    let (chunking, structure, retention_days) = (None, None, None);
    let (memory, chat) = (None, None);
    let new = NewCorpus {
        name: name.clone(),
        shards: 1,
        chunking,
        structure,
        retention_days,
        memory,
        chat,
    };
    client.create_corpus(new).await.unwrap();
    name
}

/// Starts a server that takes documents of up to [`LIMIT`] bytes.
fn serve(home: &Home, endpoint: &ModelEndpoint) -> Server {
    let mut command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
    command.env("CLEW_GATEWAY__MAX_DOCUMENT_BYTES", LIMIT.to_string());
    // A model would take minutes.
    command.env("CLEW_ENCODER__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_ENCODER__ENDPOINT__MODEL", "test");
    command.env("CLEW_ENCODER__ENDPOINT__DIMENSION", "8");
    command.env("CLEW_ENCODER__ENDPOINT__BATCH", "256");
    // Maintenance has bounds of its own, which do not depend on documents.
    command.env("CLEW_RETRIEVER__MAINTENANCE_INTERVAL_SECS", "3600");
    Server::start(command)
}

/// Returns a figure of a process, such as its peak of resident memory, in bytes.
fn memory(process: u32, figure: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Sends a document of so many bytes to a new server, and returns the peak of its memory until the
/// document is found.
async fn peak(bytes: usize) -> usize {
    let home = Home::new();
    let endpoint = ModelEndpoint::start().unwrap();
    let server = serve(&home, &endpoint);
    let client = server.client().await;
    let corpus = create_plain(&client).await;
    let text = tale(bytes);
    accept(&client, &corpus, vec![document("a", text.as_str())]).await;
    eventually("the document is indexed", async || {
        (counts(&client, &corpus).await.indexed_documents == 1).then_some(())
    })
    .await;
    let peak = memory(server.id(), "VmHWM:");
    assert_eq!(text_of(&client, &corpus, &id("a")).await, text);
    let found = by_words(&client, &corpus, "traveller river bridge").await;
    assert!(!found.is_empty());
    peak
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_grows_by_a_few_copies_of_a_document() {
    // What does not depend on the document, such as parts of its chunks, is in both peaks.
    let (small, large) = (16 * MIB, LIMIT);
    let (of_small, of_large) = (peak(small).await, peak(large).await);
    let copies = of_large.saturating_sub(of_small) as f64 / (large - small) as f64;
    println!("{of_small} and {of_large} bytes: {copies:.1} copies");
    assert!(copies <= COPIES as f64, "{copies:.1} copies: {of_small} and {of_large} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_beyond_the_configured_limit_is_refused_and_others_are_not() {
    let home = Home::new();
    let endpoint = ModelEndpoint::start().unwrap();
    let server = serve(&home, &endpoint);
    let client = server.client().await;
    let corpus = create_plain(&client).await;
    let documents = vec![document("long", tale(LIMIT + 1)), document("short", "A short tale.")];
    let answers = send(&client, &corpus, documents).await;
    let refused = answers[0].as_ref().unwrap_err();
    assert_eq!(refused.violations[0].field, "document.text", "{refused:?}");
    assert!(refused.message.contains("gateway.max_document_bytes"), "{refused:?}");
    assert!(answers[1].is_ok());
    // The command line reads files by the same key, and says so before anything is sent.
    let file = home.write("long.txt", tale(17 * MIB));
    let ran =
        home.run_at(&server, &["ingest", "--corpus", "tales", file.to_str().unwrap(), "--json"]);
    let problem = ran.json();
    assert!(problem["unreadable_total"] == 1 && problem["accepted"] == 0, "{problem}");
}
