//! Test of replacing a document while it is read: readers always see one version, complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clew_client::Client;
use clew_core::{CorpusName, Query, SearchMode};
use clew_proto::ingest::v1::DocumentStage;

use crate::client::{
    accept, assert_whole, by_words, chunks, create, document, exhaustive, id, idle, query,
    remember, search, text_of,
};
use crate::harness::{Home, eventually};
use crate::words::{text_with, word};

const VERSIONS: usize = 100;
/// After this many versions, the writer waits until the newest one is found. The other versions are
/// replaced as fast as they are accepted.
const WAIT_EVERY: usize = 2;
/// Word in every chunk of every version.
const EVERYWHERE: &str = "xlantern";
const ID: &str = "replaced";

fn text(version: usize) -> String {
    text_with(&[EVERYWHERE, &word('v', version)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_replaced_a_hundred_times_is_always_seen_whole_in_one_version() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let neighbours = (0..20).map(|i| document(&format!("other-{i}"), text_with(&[&word('o', i)])));
    remember(&client, &notes, neighbours.collect()).await;
    remember(&client, &notes, vec![document(ID, text(0))]).await;

    let is_done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for reader in [Reader::Sparse, Reader::Hybrid, Reader::Exhaustive, Reader::Text] {
        let client = server.client().await;
        readers.push(tokio::spawn(read(reader, client, notes.clone(), Arc::clone(&is_done))));
    }
    for version in 1..=VERSIONS {
        let accepted = accept(&client, &notes, vec![document(ID, text(version))]).await;
        assert!(!accepted[0].unchanged);
        if version % WAIT_EVERY == 0 {
            let wanted = accepted[0].version;
            eventually("the version is found", async || {
                let (_, state) = client.document(&notes, &id(ID)).await.unwrap();
                (state.live_version == wanted).then_some(())
            })
            .await;
        }
    }
    idle(&client, &notes).await;
    is_done.store(true, Ordering::SeqCst);
    for reader in readers {
        let Read { kind, looks, versions } = reader.await.unwrap();
        println!("{kind:?}: {looks} looks saw {versions} versions");
        assert!(versions >= 5, "{kind:?} saw too little of what went on: {looks} looks");
    }

    assert_eq!(text_of(&client, &notes, &id(ID)).await, text(VERSIONS));
    let newest = chunks(&client, &notes, &[id(ID)]).await;
    assert_whole(&text(VERSIONS), &newest[ID]);
    for version in 0..VERSIONS {
        assert!(by_words(&client, &notes, &word('v', version)).await.is_empty());
    }
    let listed = client.documents(&notes, DocumentStage::Indexed).await.unwrap();
    assert_eq!(listed.iter().filter(|state| state.id == ID).count(), 1);
}

/// Way in which a reader looks at the document.
#[derive(Clone, Copy, Debug)]
enum Reader {
    Sparse,
    Hybrid,
    Exhaustive,
    Text,
}

struct Read {
    kind: Reader,
    looks: usize,
    versions: usize,
}

/// Looks at the document until the writer is done. Fails at anything but one complete version that
/// is not older than the one seen before.
async fn read(kind: Reader, client: Client, corpus: CorpusName, is_done: Arc<AtomicBool>) -> Read {
    let texts: Vec<String> = (0..=VERSIONS).map(text).collect();
    let (mut looks, mut versions, mut newest) = (0, 0, None);
    while !is_done.load(Ordering::SeqCst) {
        let seen = look(kind, &client, &corpus, &texts).await;
        assert!(Some(seen) >= newest, "version {seen} was seen after {newest:?}");
        versions += usize::from(Some(seen) != newest);
        newest = Some(seen);
        looks += 1;
    }
    Read { kind, looks, versions }
}

/// Returns the version that one look sees.
async fn look(kind: Reader, client: &Client, corpus: &CorpusName, texts: &[String]) -> usize {
    let mut query = match kind {
        Reader::Sparse => query(EVERYWHERE, SearchMode::Sparse),
        // Both parts of the hybrid search rank all chunks.
        Reader::Hybrid => Query { exact: true, ..query(EVERYWHERE, SearchMode::Hybrid) },
        Reader::Exhaustive => exhaustive(EVERYWHERE),
        Reader::Text => {
            let text = text_of(client, corpus, &id(ID)).await;
            let version = texts.iter().position(|known| *known == text);
            return version.unwrap_or_else(|| panic!("no version reads like this: {text}"));
        }
    };
    // No other document contains the words, so searching by words alone needs no filter.
    if !matches!(kind, Reader::Sparse) {
        query.filter.documents = vec![id(ID)];
    }
    let mut found = search(client, corpus, query).await;
    assert!(!found.is_empty(), "the document was not there for a moment");
    found.sort_by_key(|item| item.span.map(|span| span.start));
    let first = &found[0].text;
    let version = texts.iter().position(|text| text.starts_with(first.as_str()));
    let version = version.unwrap_or_else(|| panic!("no version begins like this: {first}"));
    assert_whole(&texts[version], &found);
    version
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_comes_in_parts_comes_of_one_version() {
    const PARTS: usize = 3;
    const PART_BYTES: usize = 1 << 20;
    let long = |version: usize| {
        let word = word('v', version) + " ";
        word.repeat((PARTS * PART_BYTES - version * 1000) / word.len())
    };
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    accept(&client, &notes, vec![document(ID, long(0))]).await;

    let is_done = Arc::new(AtomicBool::new(false));
    let reading = tokio::spawn({
        let (client, notes, is_done) = (client.clone(), notes.clone(), Arc::clone(&is_done));
        async move {
            let mut texts = Vec::new();
            while !is_done.load(Ordering::SeqCst) {
                texts.push(text_of(&client, &notes, &id(ID)).await);
            }
            texts
        }
    });
    let versions = 6;
    for version in 1..=versions {
        accept(&client, &notes, vec![document(ID, long(version))]).await;
    }
    is_done.store(true, Ordering::SeqCst);
    let texts = reading.await.unwrap();
    assert!(!texts.is_empty());
    let known: Vec<String> = (0..=versions).map(long).collect();
    for text in &texts {
        assert!(known.contains(text), "{} bytes are no version's", text.len());
    }
    assert_eq!(text_of(&client, &notes, &id(ID)).await, known[versions]);
}
