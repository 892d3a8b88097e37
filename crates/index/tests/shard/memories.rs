//! Tests of compressed memories: stored completely or not at all, and removed with the documents
//! that they cover.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clew_core::{Access, Document, DocumentId, MemoryPart, MemoryRecord, Span, Timestamp, Version};
use clew_index::{ShardWriter, Storage, Takeover, Tuning};
use clew_testkit::{Fault, FaultyStore};
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::fixture::{Fixture, derive, document, id, settings};

const SNAPSHOT: &[u8] = b"keys and values";

fn key(digit: char) -> String {
    digit.to_string().repeat(32)
}

/// Returns a memory of these documents in these versions.
pub fn memory(digit: char, ids: &[&str], versions: &[Version]) -> MemoryRecord {
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

/// Writes a memory and commits it. Returns whether everything that it covers is there.
pub async fn store_memory(
    shard: &mut ShardWriter,
    record: MemoryRecord,
    snapshot: &[u8],
    replaced: &[String],
) -> clew_index::Result<bool> {
    let snapshot = Bytes::copy_from_slice(snapshot);
    match shard.reader().stage_memory(record, snapshot).await? {
        Some(staged) => shard.commit_memory(staged, replaced).await,
        None => Ok(false),
    }
}

fn version(shard: &ShardWriter, name: &str) -> Version {
    shard.reader().status(&id(name)).unwrap().live_version.unwrap()
}

fn of(digit: char, ids: &[&str], shard: &ShardWriter) -> MemoryRecord {
    let versions: Vec<Version> = ids.iter().map(|name| version(shard, name)).collect();
    memory(digit, ids, &versions)
}

/// Commits the chunks of all documents that are due.
async fn index_all(shard: &mut ShardWriter) {
    let reader = shard.reader();
    let due = reader.due(Timestamp::from_micros(i64::MAX), 10, &Default::default());
    let wanted: Vec<(DocumentId, Version)> =
        due.into_iter().map(|due| (due.document_id, due.version)).collect();
    let stored = reader.read_sources(&wanted).await.unwrap();
    let derived = stored.into_iter().map(|stored| derive(stored.document, stored.version));
    shard.commit_derived(derived.collect()).await.unwrap();
}

/// Asserts that the next write does not read the tables anew. That would publish a new view.
/// `stored` is a document as it is stored already, so the write itself changes nothing.
async fn assert_known(shard: &mut ShardWriter, stored: Document) {
    let mut reader = shard.reader();
    shard.accept(vec![stored], Timestamp::from_micros(2)).await.unwrap();
    assert!(reader.changed().now_or_never().is_none(), "the next write read the tables");
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
        assert!(store_memory(&mut fixture.shard, record, SNAPSHOT, &[]).await.unwrap());
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
    store_memory(&mut fixture.shard, begun, SNAPSHOT, &[]).await.unwrap();
    let more = of('2', &["a", "b"], &fixture.shard);
    assert!(store_memory(&mut fixture.shard, more, b"more", &[key('1')]).await.unwrap());
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
        assert!(!store_memory(&mut fixture.shard, record, SNAPSHOT, &[]).await.unwrap());
    }
    assert!(files(&fixture.folder).is_empty());
}

#[tokio::test]
async fn sweeping_removes_what_covers_an_old_version_and_files_that_are_no_memory() {
    let mut fixture = three().await;
    for (digit, name) in [('1', "a"), ('2', "c")] {
        let record = of(digit, &[name], &fixture.shard);
        store_memory(&mut fixture.shard, record, SNAPSHOT, &[]).await.unwrap();
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
        index_all(&mut first).await;
        let record = of('1', &["a"], &first);
        let mut second = open("second").await;
        let committed = store_memory(&mut first, record.clone(), SNAPSHOT, &[]).await;
        assert!(committed.is_err());
        assert!(open("third").await.reader().memories().is_empty());
        // The second owner has lost the shard, too.
        assert!(store_memory(&mut second, record.clone(), SNAPSHOT, &[]).await.is_err());
        let mut fourth = open("fourth").await;
        assert!(store_memory(&mut fourth, record, SNAPSHOT, &[]).await.unwrap());
        let read = fourth.reader().memory(&key('1')).await.unwrap();
        assert_eq!(read.as_deref(), Some(SNAPSHOT));
        fourth.forget(&[id("a")]).await.unwrap();
        assert_eq!(fourth.reader().memory(&key('1')).await.unwrap(), None);
        fourth.erase(Duration::from_secs(5)).await.unwrap();
    }
}

#[tokio::test]
async fn a_memory_of_the_first_release_is_found_as_before() {
    let mut fixture = three().await;
    let record = of('1', &["a"], &fixture.shard);
    // As that release wrote it: the length of the record, the record, the snapshot.
    let json = serde_json::to_vec(&record).unwrap();
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(SNAPSHOT);
    let folder = fixture.folder.join("memories");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join(format!("{}.memory", key('1')));
    std::fs::write(&path, &bytes).unwrap();
    fixture.reopen().await;
    assert_eq!(fixture.reader().memories().as_slice(), std::slice::from_ref(&record));
    let read = fixture.reader().memory(&key('1')).await.unwrap();
    assert_eq!(read.as_deref(), Some(SNAPSHOT));
    // And that release finds what this one writes.
    assert!(store_memory(&mut fixture.shard, record, SNAPSHOT, &[]).await.unwrap());
    assert_eq!(std::fs::read(path).unwrap(), bytes);
}

/// Opens a shard over a storage that fails when it is told to, and adds a document.
async fn over_faulty_storage() -> (FaultyStore, ShardWriter) {
    let faulty = FaultyStore::new(Arc::new(InMemory::new()));
    let place = Storage::in_store(Arc::new(faulty.clone()), "shard-0");
    let open = ShardWriter::open(&place, settings(Tuning::default()), Takeover::Uncontested);
    let mut shard = Box::pin(open).await.unwrap();
    let now = Timestamp::from_micros(1);
    shard.accept(vec![document("a", "text")], now).await.unwrap();
    index_all(&mut shard).await;
    (faulty, shard)
}

#[tokio::test]
async fn a_write_of_a_memory_that_fails_leaves_nothing_and_the_shard_is_not_read_again() {
    // Whole, and in three parts.
    for (snapshot, changes) in [(Bytes::from_static(SNAPSHOT), 1), (vec![7; 40 << 20].into(), 5)] {
        let (faulty, mut shard) = over_faulty_storage().await;
        let record = of('1', &["a"], &shard);
        for fault in [Fault::NotDone, Fault::Done] {
            for nth in 0..changes {
                faulty.plan(nth, fault);
                let failed = store_memory(&mut shard, record.clone(), &snapshot, &[]).await;
                assert!(failed.is_err(), "{fault:?} at {nth}");
                assert!(known(&shard).is_empty());
                let left: Vec<_> = faulty.list(Some(&"shard-0/memories".into())).collect().await;
                assert!(left.is_empty(), "{fault:?} at {nth}: {left:?}");
                assert_eq!(faulty.unfinished_uploads(), 0, "{fault:?} at {nth}");
                assert_known(&mut shard, document("a", "text")).await;
            }
        }
        assert!(store_memory(&mut shard, record, &snapshot, &[]).await.unwrap());
        assert_eq!(shard.reader().memory(&key('1')).await.unwrap(), Some(snapshot));
    }
}

#[tokio::test]
async fn a_sweep_that_fails_leaves_the_shard_known() {
    let (faulty, mut shard) = over_faulty_storage().await;
    let record = of('1', &["a"], &shard);
    assert!(store_memory(&mut shard, record, SNAPSHOT, &[]).await.unwrap());
    let now = Timestamp::from_micros(1);
    shard.accept(vec![document("a", "another text")], now).await.unwrap();
    index_all(&mut shard).await;
    faulty.plan(0, Fault::NotDone);
    assert!(shard.sweep_memories().await.is_err());
    assert_known(&mut shard, document("a", "another text")).await;
    shard.sweep_memories().await.unwrap();
    let left: Vec<_> = faulty.list(Some(&"shard-0/memories".into())).collect().await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn forgetting_removes_what_a_large_memory_wrote_before_its_commit() {
    let mut fixture = three().await;
    let record = of('1', &["a"], &fixture.shard);
    let snapshot = Bytes::from(vec![7; 40 << 20]);
    let staged = fixture.reader().stage_memory(record.clone(), snapshot.clone()).await.unwrap();
    assert_eq!(files(&fixture.folder).len(), 1);
    let patience = Duration::from_secs(5);
    let (ids, access) = ([id("a")], Access::all());
    let forgetting = fixture.shard.forget_for_good(&ids, &access, patience);
    let (_, scan) = Box::pin(forgetting).await.unwrap();
    assert!(scan.is_clean(), "{scan:?}");
    assert!(files(&fixture.folder).is_empty());
    assert!(!fixture.shard.commit_memory(staged.unwrap(), &[]).await.unwrap());
    // It is not even begun any more.
    assert!(fixture.reader().stage_memory(record, snapshot).await.unwrap().is_none());
    assert!(files(&fixture.folder).is_empty());
}
