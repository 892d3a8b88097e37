//! Tests that documents whose source numbers them may be delivered twice, late and in any order: by
//! gRPC and from files. `tests/interfaces/http/api.rs` has the one by JSON.

use clew_client::Client;
use clew_core::{CorpusName, Document, SourceVersion};
use clew_proto::ingest::v1::Novelty;
use serde_json::Value;

use crate::client::{accept, create, create_in_shards, document, id, idle, remember, states};
use crate::harness::Home;

fn numbered(name: &str, text: &str, number: u64) -> Document {
    Document { source_version: Some(SourceVersion(number)), ..document(name, text) }
}

/// Sends a document, and returns what it was for the server.
async fn deliver(client: &Client, corpus: &CorpusName, document: Document) -> Novelty {
    let accepted = accept(client, corpus, vec![document]).await.remove(0);
    assert_eq!(accepted.unchanged, accepted.novelty() == Novelty::Unchanged);
    accepted.novelty()
}

/// Returns the text and the number of a document, once everything is indexed. Its state tells the
/// same number, by itself and in a list.
async fn kept(client: &Client, corpus: &CorpusName, name: &str) -> (String, Option<u64>) {
    idle(client, corpus).await;
    let (document, state) = client.document(corpus, &id(name)).await.unwrap();
    let listed = states(client, corpus).await[name].source_version;
    assert_eq!((state.source_version, listed), (document.source_version, document.source_version));
    (String::from_utf8(document.text.to_vec()).unwrap(), document.source_version)
}

#[tokio::test(flavor = "multi_thread")]
async fn older_deliveries_change_nothing_also_after_a_restart() {
    let home = Home::new();
    let mut server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    let text = |text: &str, number| (text.to_owned(), Some(number));
    remember(&client, &notes, vec![numbered("a", "The fifth.", 5)]).await;
    assert_eq!(deliver(&client, &notes, numbered("a", "The fourth.", 4)).await, Novelty::Unchanged);
    assert_eq!(kept(&client, &notes, "a").await, text("The fifth.", 5));
    // Only the number is higher.
    let (_, before) = client.document(&notes, &id("a")).await.unwrap();
    assert_eq!(deliver(&client, &notes, numbered("a", "The fifth.", 9)).await, Novelty::Unchanged);
    let (_, after) = client.document(&notes, &id("a")).await.unwrap();
    assert_eq!((after.version, after.live_version), (before.version, before.live_version));
    drop(client);
    server.kill();

    let server = home.serve();
    let client = server.client().await;
    assert_eq!(kept(&client, &notes, "a").await, text("The fifth.", 9));
    assert_eq!(deliver(&client, &notes, numbered("a", "The eighth.", 8)).await, Novelty::Unchanged);
    assert_eq!(kept(&client, &notes, "a").await, text("The fifth.", 9));
    assert_eq!(deliver(&client, &notes, numbered("a", "Corrected.", 9)).await, Novelty::Replaced);
    assert_eq!(deliver(&client, &notes, numbered("a", "The tenth.", 10)).await, Novelty::Replaced);
    assert_eq!(kept(&client, &notes, "a").await, text("The tenth.", 10));
    // Without a number, the content alone decides.
    assert_eq!(deliver(&client, &notes, document("a", "The tenth.")).await, Novelty::Unchanged);
    assert_eq!(kept(&client, &notes, "a").await, text("The tenth.", 10));
    assert_eq!(deliver(&client, &notes, document("a", "By hand.")).await, Novelty::Replaced);
    assert_eq!(kept(&client, &notes, "a").await, ("By hand.".to_owned(), None));
    assert_eq!(deliver(&client, &notes, numbered("a", "The first.", 1)).await, Novelty::Replaced);
    // Nothing remembers the number of a forgotten document.
    client.forget(&notes, &[id("a")]).await.unwrap();
    assert_eq!(deliver(&client, &notes, numbered("a", "Nothing yet.", 0)).await, Novelty::New);
    assert_eq!(kept(&client, &notes, "a").await, text("Nothing yet.", 0));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_deliveries_at_the_same_time_the_highest_number_stays() {
    const STREAMS: u64 = 8;
    const ROUNDS: u64 = 6;
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let names = ["a", "b", "c"];
    let text = |number: u64| format!("What was said at {number}.");
    let streams = (0..STREAMS).map(|stream| {
        let (client, notes) = (client.clone(), notes.clone());
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                // Each number once, in another order for each document.
                let number =
                    |n: u64| (stream * ROUNDS + round) * (n * 2 + 5) % (STREAMS * ROUNDS + 1);
                let documents =
                    (0..).zip(names).map(|(n, name)| numbered(name, &text(number(n)), number(n)));
                accept(&client, &notes, documents.collect()).await;
            }
        })
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await.unwrap();
    }
    for (n, name) in (0..).zip(names) {
        let highest =
            (0..STREAMS * ROUNDS).map(|of| of * (n * 2 + 5) % (STREAMS * ROUNDS + 1)).max();
        let expected = (text(highest.unwrap()), highest);
        assert_eq!(kept(&client, &notes, name).await, expected, "{name}");
    }
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn from_files_too_by_a_column_of_any_name() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let ingest = |name: &str, content: &str, column: &[&str]| {
        let file = home.write(name, content).display().to_string();
        let words = [&["ingest", "--corpus", "notes", &file, "--json"], column].concat();
        let done = home.run_at(&server, &words).done();
        ["new", "replaced", "unchanged"].map(|of| done[of].as_u64().unwrap())
    };
    let first = "{\"id\":\"a\",\"text\":\"The fifth.\",\"source_version\":5}\n\
        {\"id\":\"b\",\"text\":\"Unnumbered.\"}\n";
    assert_eq!(ingest("first.jsonl", first, &[]), [2, 0, 0]);
    let column = ["--source-version-column", "offset"];
    let second = "id,text,offset\na,The fourth.,4\nb,Numbered.,1\n";
    assert_eq!(ingest("second.csv", second, &column), [0, 1, 1]);
    assert_eq!(kept(&client, &notes, "a").await, ("The fifth.".to_owned(), Some(5)));
    assert_eq!(kept(&client, &notes, "b").await, ("Numbered.".to_owned(), Some(1)));

    let listed = home.run_at(&server, &["list", "--corpus", "notes", "--json"]).done();
    let numbers: Vec<&Value> = listed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|document| &document["source_version"])
        .collect();
    assert_eq!(numbers, [5, 1]);
    let words = ["status", "--corpus", "notes", "--document", "a", "--json"];
    assert_eq!(home.run_at(&server, &words).done()["source_version"], 5);
}
