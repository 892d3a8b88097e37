//! Tests of compressed memories: stored completely or not at all, and removed with the documents
//! that they cover.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{DocumentId, MemoryPart, MemoryRecord, Span, Timestamp, Version};
use clew_index::{ShardWriter, Storage, Takeover, Tuning};
use object_store::memory::InMemory;

use crate::fixture::{Fixture, derive, document, id, settings};

const SNAPSHOT: &[u8] = b"keys and values";

fn key(digit: char) -> String {
    digit.to_string().repeat(32)
}

/// Returns a memory of these documents in these versions.
fn memory(digit: char, ids: &[&str], versions: &[Version]) -> MemoryRecord {
    let part = |(name, version): (&&str, &Version)| MemoryPart {
        document_id: id(name),
        version: *version,
        span: Span::new(0, 4),
    };
    MemoryRecord {
        key: key(digit),
        model: "model".to_owned(),
        ratio: 4,
        parts: ids.iter().zip(versions).map(part).collect(),
        tokens: 100,
        slots: 25,
        bytes: SNAPSHOT.len() as u64,
    }
}

fn version(shard: &ShardWriter, name: &str) -> Version {
    shard.reader().status(&id(name)).unwrap().live_version.unwrap()
}

fn of(digit: char, ids: &[&str], shard: &ShardWriter) -> MemoryRecord {
    let versions: Vec<Version> = ids.iter().map(|name| version(shard, name)).collect();
    memory(digit, ids, &versions)
}

fn known(shard: &ShardWriter) -> Vec<String> {
    shard.reader().memories().iter().map(|record| record.key[..1].to_owned()).collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder.join("memories")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn three() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.ingest(["a", "b", "c"].map(|name| document(name, "text")).to_vec(), 1).await;
    fixture
}

#[tokio::test]
async fn a_memory_is_read_back_after_a_restart_and_goes_with_any_document_that_it_covers() {
    let mut fixture = three().await;
    for (digit, ids) in [('1', vec!["a", "b"]), ('2', vec!["c"])] {
        let record = of(digit, &ids, &fixture.shard);
        assert!(fixture.shard.commit_memory(record, SNAPSHOT, &[]).await.unwrap());
    }
    let before = fixture.reader().memories();
    fixture.reopen().await;
    assert_eq!(fixture.reader().memories(), before);
    let read = fixture.reader().memory(&key('1')).await.unwrap();
    assert_eq!(read.as_deref(), Some(SNAPSHOT));

    let receipts = fixture.shard.forget(&[id("b"), id("nobody")]).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.memories).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(known(&fixture.shard), ["2"]);
    assert_eq!(files(&fixture.folder), BTreeSet::from([format!("{}.memory", key('2'))]));
    assert_eq!(fixture.reader().memory(&key('1')).await.unwrap(), None);
    fixture.reopen().await;
    assert_eq!(known(&fixture.shard), ["2"]);
}

#[tokio::test]
async fn what_goes_on_replaces_what_was_begun() {
    let mut fixture = three().await;
    let begun = of('1', &["a"], &fixture.shard);
    fixture.shard.commit_memory(begun, SNAPSHOT, &[]).await.unwrap();
    let more = of('2', &["a", "b"], &fixture.shard);
    assert!(fixture.shard.commit_memory(more, b"more", &[key('1')]).await.unwrap());
    assert_eq!(known(&fixture.shard), ["2"]);
    assert_eq!(files(&fixture.folder).len(), 1);
}

#[tokio::test]
async fn a_memory_of_what_was_replaced_or_forgotten_meanwhile_is_not_taken() {
    let mut fixture = three().await;
    let forgotten = of('1', &["a", "b"], &fixture.shard);
    let replaced = of('2', &["c"], &fixture.shard);
    fixture.shard.forget(&[id("b")]).await.unwrap();
    fixture.ingest(vec![document("c", "another text")], 2).await;
    for record in [forgotten, replaced] {
        assert!(!fixture.shard.commit_memory(record, SNAPSHOT, &[]).await.unwrap());
    }
    assert!(files(&fixture.folder).is_empty());
}

#[tokio::test]
async fn sweeping_removes_what_covers_an_old_version_and_files_that_are_no_memory() {
    let mut fixture = three().await;
    for (digit, name) in [('1', "a"), ('2', "c")] {
        let record = of(digit, &[name], &fixture.shard);
        fixture.shard.commit_memory(record, SNAPSHOT, &[]).await.unwrap();
    }
    fixture.ingest(vec![document("c", "another text")], 2).await;
    let folder = fixture.folder.join("memories");
    let whole = std::fs::read(folder.join(format!("{}.memory", key('1')))).unwrap();
    for (name, bytes) in [
        ("3.new".to_owned(), &whole[..]),
        (format!("{}.memory", key('4')), &whole[..]),
        (format!("{}.memory", key('5')), &whole[..20]),
        (format!("{}.memory", key('6')), &[255; 300][..]),
        ("empty".to_owned(), &[][..]),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    fixture.reopen().await;
    // Misnamed, cut short, or no file of ours.
    assert_eq!(known(&fixture.shard), ["1", "2"]);
    assert_eq!(fixture.shard.sweep_memories().await.unwrap(), 1);
    assert_eq!(known(&fixture.shard), ["1"]);
    assert_eq!(files(&fixture.folder).len(), 1);
}

#[tokio::test]
async fn an_owner_that_was_overtaken_leaves_no_memory() {
    for place in [None, Some(Arc::new(InMemory::new()))] {
        let temporary = tempfile::tempdir().unwrap();
        let place = match place {
            None => Storage::from(temporary.path()),
            Some(store) => Storage::in_store(store, "shard-0"),
        };
        let open = async |owner: &str| {
            let takeover = Takeover::By(owner.to_owned());
            ShardWriter::open(&place, settings(Tuning::default()), takeover).await.unwrap()
        };
        let mut first = open("first").await;
        let now = Timestamp::from_micros(1);
        first.accept(vec![document("a", "text")], now).await.unwrap();
        let due = first.reader().due(now, 10, &Default::default());
        let wanted: Vec<(DocumentId, Version)> =
            due.into_iter().map(|due| (due.document_id, due.version)).collect();
        let stored = first.reader().read_sources(&wanted).await.unwrap();
        let derived = stored.into_iter().map(|stored| derive(stored.document, stored.version));
        first.commit_derived(derived.collect()).await.unwrap();
        let record = of('1', &["a"], &first);
        let mut second = open("second").await;
        let committed = first.commit_memory(record.clone(), SNAPSHOT, &[]).await;
        assert!(committed.is_err());
        assert!(open("third").await.reader().memories().is_empty());
        // The second owner has lost the shard, too.
        assert!(second.commit_memory(record.clone(), SNAPSHOT, &[]).await.is_err());
        let mut fourth = open("fourth").await;
        assert!(fourth.commit_memory(record, SNAPSHOT, &[]).await.unwrap());
        let read = fourth.reader().memory(&key('1')).await.unwrap();
        assert_eq!(read.as_deref(), Some(SNAPSHOT));
        fourth.forget(&[id("a")]).await.unwrap();
        assert_eq!(fourth.reader().memory(&key('1')).await.unwrap(), None);
        fourth.erase(Duration::from_secs(5)).await.unwrap();
    }
}
