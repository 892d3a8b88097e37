//! Tests that forgotten documents are gone: from searches, and from every byte of the data
//! directory.

use clew_client::Client;
use clew_core::{AttributeName, CorpusName, Document, ErrorKind, Query, SearchMode};
use clew_proto::query::v1::Evidence;

use crate::client::{
    accept, by_words, chunks, create, document, exhaustive, id, idle, query, remember, search,
    text_of,
};
use crate::harness::{Home, Server, files_below};
use crate::words::{text_with, word};

const MARKER: &str = "The heron of Zoë’s pond keeps seventeen silver lanterns under the bridge.";
const RARE: &str = "xqvzkwjb";
const OTHERS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_document_is_in_no_file_and_in_no_search() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let secret = secret("secret", MARKER);
    remember(&client, &notes, others()).await;
    remember(&client, &notes, vec![secret.clone()]).await;
    assert!(!holding(&home, MARKER).is_empty(), "a scan that cannot find it proves nothing");
    assert!(!holding(&home, RARE).is_empty(), "a scan that cannot find it proves nothing");
    let untouched = Seen::of(&client, &notes).await;
    let (_, state) = client.document(&notes, &secret.id).await.unwrap();

    let receipt = client.forget(&notes, &[secret.id.clone(), id("absent")]).await.unwrap();

    let [gone, absent] = receipt.documents.as_slice() else { panic!("{receipt:?}") };
    assert!(receipt.verified && receipt.forgotten_at.is_some());
    let scan = receipt.scan.as_ref().unwrap();
    assert!(scan.tables == 4 && scan.files > 4 && scan.leftovers.is_empty(), "{scan:?}");
    // Files are searched if they were written in place of others: if others share a fragment.
    assert!(scan.texts > 0 && scan.unsearched_files == 0, "{scan:?}");
    assert!(gone.found && gone.document_id == "secret");
    assert_eq!((gone.versions, gone.chunks, gone.failures), (1, state.chunks, 0));
    assert_eq!(gone.text_bytes, secret.text.len() as u64);
    assert!(!absent.found);
    assert_eq!((absent.versions, absent.chunks, absent.text_bytes), (0, 0, 0));

    assert_gone(&home, &client, &notes, &[MARKER, RARE]).await;
    assert_eq!(Seen::of(&client, &notes).await, untouched);

    let again = client.forget(&notes, std::slice::from_ref(&secret.id)).await.unwrap();
    assert!(!again.documents[0].found, "it was forgotten already");

    assert!(server.terminate().success());
    let server = home.serve();
    let client = server.client().await;
    assert_gone(&home, &client, &notes, &[MARKER, RARE]).await;
    assert_eq!(Seen::of(&client, &notes).await, untouched);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_versions_before_the_last_are_forgotten_too() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, others()).await;
    let markers: Vec<String> =
        (0..4).map(|version| format!("{MARKER} It is lantern {version}.")).collect();
    let (last, earlier) = markers.split_last().unwrap();
    for marker in earlier {
        remember(&client, &notes, vec![secret("secret", marker)]).await;
    }
    // The newest version is not indexed yet when it is forgotten.
    let newest = secret("secret", last);
    accept(&client, &notes, vec![newest.clone()]).await;
    let untouched = Seen::of(&client, &notes).await;

    let receipt = client.forget(&notes, std::slice::from_ref(&newest.id)).await.unwrap();

    let gone = &receipt.documents[0];
    assert!(gone.found && gone.versions >= 1 && gone.text_bytes >= newest.text.len() as u64);
    // An indexing that was under way must not bring it back.
    idle(&client, &notes).await;
    let mut words: Vec<&str> = markers.iter().map(String::as_str).collect();
    words.extend([MARKER, RARE]);
    assert_gone(&home, &client, &notes, &words).await;
    assert_eq!(Seen::of(&client, &notes).await, untouched);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_the_receipt_brings_nothing_back() {
    let home = Home::new();
    let mut server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, others()).await;
    remember(&client, &notes, vec![secret("secret", MARKER)]).await;
    let untouched = Seen::of(&client, &notes).await;
    client.forget(&notes, &[id("secret")]).await.unwrap();
    server.kill();

    let server = home.serve();
    let client = server.client().await;
    assert_gone(&home, &client, &notes, &[MARKER, RARE]).await;
    assert_eq!(Seen::of(&client, &notes).await, untouched);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_forgets_with_and_without_a_server() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let secrets = vec![secret("first", MARKER), secret("second", MARKER)];
    let bytes = secrets[0].text.len() as u64;
    remember(&client, &notes, others()).await;
    remember(&client, &notes, secrets).await;

    let forget = |id| ["forget", "--corpus", "notes", "--document", id, "--json"];
    check_receipt(&home.run_at(&server, &forget("first")).done(), "first", bytes);
    assert!(!holding(&home, MARKER).is_empty(), "the second document is still there");
    end(server);
    check_receipt(&home.run_embedded(&forget("second")).done(), "second", bytes);
    assert_eq!(holding(&home, MARKER), Vec::<String>::new());
    assert_eq!(holding(&home, RARE), Vec::<String>::new());

    let absent = home.run_embedded(&forget("second"));
    assert_eq!(absent.code, Some(1), "what was asked was not done");
    assert_eq!(absent.json()["documents"][0]["found"], false);

    let server = home.serve();
    assert_gone(&home, &server.client().await, &notes, &[MARKER, RARE]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_names_what_is_left_and_the_snapshots_that_hold_it() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_STORAGE__SNAPSHOTS", home.path("snapshots"));
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, others()).await;
    remember(&client, &notes, vec![secret("secret", MARKER)]).await;
    home.run_at(&server, &["corpus", "snapshot", "notes", "nightly", "--json"]).done();
    remember(&client, &notes, vec![secret("later", MARKER)]).await;

    // Copies as a tool for backups may leave them.
    let shard = home.data_dir().join("corpora/notes/shard-0");
    let (name, copy) = ("chunks.lance/copied.bak", "memories/copied.bak");
    std::fs::create_dir_all(shard.join("memories")).unwrap();
    for place in [name, copy] {
        std::fs::write(shard.join(place), MARKER).unwrap();
    }
    let forget =
        ["forget", "--corpus", "notes", "--document", "secret", "--document", "later", "--json"];
    let ran = home.run_at(&server, &forget);
    assert_eq!(ran.code, Some(1), "what was asked was not done");
    let receipt = ran.json();
    assert_eq!(receipt["verified"], false, "{receipt}");
    let left = receipt["scan"]["leftovers"].as_array().unwrap();
    let places: Vec<&str> = left.iter().map(|left| left["place"].as_str().unwrap()).collect();
    assert_eq!(places, [format!("shard-0/{name}"), format!("shard-0/{copy}")], "{receipt}");
    assert_eq!(receipt["snapshots"][0]["snapshot"], "nightly", "{receipt}");
    assert_eq!(receipt["snapshots"][0]["documents"], 1, "{receipt}");

    for place in [name, copy] {
        std::fs::remove_file(shard.join(place)).unwrap();
    }
    let again = client.forget(&notes, &[id("secret"), id("later")]).await.unwrap();
    assert!(again.verified, "{again:?}");
    assert_eq!(again.snapshots[0].snapshot, "nightly");
    let other = client.forget(&notes, &[id("unknown")]).await.unwrap();
    assert!(other.verified && other.snapshots.is_empty(), "{other:?}");
    assert_gone(&home, &client, &notes, &[MARKER, RARE]).await;
}

fn end(server: Server) {
    assert!(server.terminate().success());
}

fn check_receipt(receipt: &serde_json::Value, name: &str, bytes: u64) {
    let gone = &receipt["documents"][0];
    assert_eq!(receipt["verified"], true);
    assert_eq!((&gone["document_id"], &gone["found"]), (&name.into(), &true.into()));
    assert_eq!((&gone["versions"], &gone["text_bytes"]), (&1.into(), &bytes.into()));
    assert!(gone["chunks"].as_u64().unwrap() > 1, "{receipt}");
}

/// Returns a document that contains `marker` wherever text of it is stored.
fn secret(name: &str, marker: &str) -> Document {
    let text = format!("{}\n\n{marker} {RARE}\n\n{}", text_with(&["once"]), text_with(&["twice"]));
    let attribute = (AttributeName::try_from("note".to_owned()).unwrap(), marker.into());
    Document { title: marker.to_owned(), attributes: [attribute].into(), ..document(name, text) }
}

fn others() -> Vec<Document> {
    (0..OTHERS).map(|i| document(&format!("other-{i}"), text_with(&[&word('o', i)]))).collect()
}

/// Returns the files of the data directory that contain `needle`.
fn holding(home: &Home, needle: &str) -> Vec<String> {
    let holds =
        |content: &[u8]| content.windows(needle.len()).any(|part| part == needle.as_bytes());
    let files = files_below(&home.data_dir()).into_iter();
    files
        .filter(|(_, content)| holds(content))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

async fn assert_gone(home: &Home, client: &Client, corpus: &CorpusName, needles: &[&str]) {
    for needle in needles {
        assert_eq!(holding(home, needle), Vec::<String>::new(), "`{needle}` is on the disk");
    }
    let is_secret = |item: &Evidence| !item.document_id.starts_with("other-");
    for mode in SearchMode::ALL {
        for exact in [false, true] {
            let found = search(client, corpus, Query { exact, ..query(MARKER, mode) }).await;
            assert!(!found.iter().any(is_secret), "{found:#?}");
        }
    }
    assert!(by_words(client, corpus, RARE).await.is_empty());
    for secret in ["secret", "first", "second"] {
        let error = client.document(corpus, &id(secret)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(chunks(client, corpus, &[id(secret)]).await.is_empty());
    }
}

/// Everything that a client can see of the other documents.
#[derive(Debug, PartialEq)]
struct Seen {
    texts: Vec<String>,
    /// Every chunk with its score, best first.
    ranked: Vec<Evidence>,
    /// Chunks found by each document's word.
    found: Vec<Vec<String>>,
}

impl Seen {
    async fn of(client: &Client, corpus: &CorpusName) -> Self {
        let others = others();
        let mut all = exhaustive("an old house by the river");
        all.filter.documents = others.iter().map(|other| other.id.clone()).collect();
        let ranked = search(client, corpus, all).await;
        let mut seen = Self { texts: Vec::new(), ranked, found: Vec::new() };
        for (i, other) in others.iter().enumerate() {
            seen.texts.push(text_of(client, corpus, &other.id).await);
            let found = by_words(client, corpus, &word('o', i)).await;
            assert!(
                !found.is_empty() && found.iter().all(|item| item.document_id == other.id.as_str())
            );
            let mut found: Vec<String> = found.into_iter().map(|item| item.chunk_id).collect();
            found.sort();
            seen.found.push(found);
        }
        assert_eq!(seen.texts, others.into_iter().map(|other| other.text).collect::<Vec<_>>());
        seen
    }
}
