//! Tests of snapshots of corpora: consistent while the corpus is written to, continued after any
//! interruption, and never taken for complete when half done.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clew_core::{
    Access, CheckQuery, Chunking, CorpusName, CorpusSettings, DeletionStep, Document, DocumentId,
    EncoderIdentity, MemoryPart, MemoryRecord, Novelty, ReembedStep, Restoration, RestoreStep,
    ShardCopy, ShardIndex, SnapshotDeletion, SnapshotName, SourceVersion, Span, StructureSettings,
    Timestamp, placement,
};
use clew_index::{Error, Registry, ShardReader, ShardWriter, Snapshots, Storage, Takeover, Tuning};
use clew_testkit::{Fault, FaultyStore};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::fixture::{Search, derive, document, id, model, settings};
use crate::memories::store_memory;

const MARKER: &str = "zanzibarite";
/// No budget, so that each step copies one file.
const NO_TIME: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);
const SHARDS: u32 = 2;
/// Bounds so low that a dozen documents need every step of maintenance.
const TUNING: Tuning = Tuning {
    attempts: 8,
    index_rows: 4,
    vector_index_rows: 4,
    vectors_linger: Duration::from_secs(60),
    unindexed_chunks: 4_000,
    unindexed_document_bytes: 1 << 20,
    small_fragments: 3,
    versions: 6,
};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn notes() -> CorpusName {
    "notes".parse().unwrap()
}

fn nightly() -> SnapshotName {
    "nightly".parse().unwrap()
}

fn corpus() -> CorpusSettings {
    let chunking = Chunking::Sentences { max_tokens: 100 };
    CorpusSettings {
        structure: Some(StructureSettings::default()),
        ..CorpusSettings::plain(notes(), SHARDS, chunking, model("m", 16), at(1))
    }
}

/// Data directory and a place of snapshots.
struct World {
    data: Storage,
    place: Storage,
    snapshots: Snapshots,
    registry: Registry,
    corpus: CorpusSettings,
    /// Time at which a restore that begins counts as begun.
    now: i64,
    _temporary: Option<tempfile::TempDir>,
}

impl World {
    async fn in_folders() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let place = |name: &str| Storage::from(temporary.path().join(name).as_path());
        let (data, place) = (place("data"), place("snapshots"));
        Self::new(data, place, Some(temporary)).await
    }

    async fn in_stores() -> Self {
        let place = |prefix| Storage::in_store(Arc::new(InMemory::new()), prefix);
        Self::new(place("some/where"), place("else/where"), None).await
    }

    async fn both() -> [Self; 2] {
        [Self::in_folders().await, Self::in_stores().await]
    }

    async fn new(data: Storage, place: Storage, temporary: Option<tempfile::TempDir>) -> Self {
        let registry = Registry::open_place(&data).await.unwrap();
        registry.create(&corpus()).await.unwrap();
        let snapshots = Snapshots::in_place(place.clone());
        Self { data, place, snapshots, registry, corpus: corpus(), now: 50, _temporary: temporary }
    }

    async fn open(&self, index: u32) -> ShardWriter {
        let place = self.registry.shard_place(&self.corpus, ShardIndex(index));
        let settings = settings(TUNING);
        Box::pin(ShardWriter::open(&place, settings, Takeover::By("test".to_owned())))
            .await
            .unwrap()
    }

    async fn open_all(&self) -> Vec<ShardWriter> {
        let mut shards = Vec::new();
        for index in 0..SHARDS {
            shards.push(self.open(index).await);
        }
        shards
    }

    /// Copies a shard step by step, and calls `between` after each step but the last.
    async fn copy(
        &self,
        shard: &mut ShardWriter,
        index: u32,
        budget: Duration,
        mut between: impl AsyncFnMut(&mut ShardWriter, usize),
    ) -> String {
        for step in 0.. {
            let copy = self.step(shard, index, budget).await.unwrap();
            assert!(copy.copied.files <= copy.copied.of_files);
            if let Some(digest) = copy.digest {
                return digest;
            }
            between(shard, step).await;
        }
        unreachable!("it comes to an end")
    }

    async fn step(
        &self,
        shard: &ShardWriter,
        index: u32,
        budget: Duration,
    ) -> clew_index::Result<ShardCopy> {
        let (reader, name) = (shard.reader(), nightly());
        let copying = reader.copy_to_snapshot(&self.snapshots, &name, ShardIndex(index), budget);
        Box::pin(copying).await
    }

    /// Takes a snapshot at once.
    async fn take(&self, shards: &mut [ShardWriter]) {
        let mut digests = Vec::new();
        for (index, shard) in (0..).zip(shards) {
            digests.push(self.copy(shard, index, LONG, async |_, _| {}).await);
        }
        self.snapshots.finish(&self.corpus, &nightly(), &digests, at(5)).await.unwrap();
    }

    /// Continues the restore.
    async fn restore(
        &self,
        leave_out: &[DocumentId],
        budget: Duration,
    ) -> clew_index::Result<RestoreStep> {
        let snapshot = self.snapshots.read(&notes(), &nightly()).await?;
        let (corpus, snapshot_name) = (notes(), nightly());
        let (leave_out, begun) = (leave_out.to_vec(), None);
        let asked = Restoration { corpus, snapshot: snapshot_name, leave_out, begun };
        Box::pin(self.registry.restore(&snapshot, &asked, at(self.now), budget)).await
    }

    /// Continues to delete the snapshot, some time from now.
    async fn delete(
        &self,
        from_now: Duration,
        is_dry_run: bool,
    ) -> clew_index::Result<DeletionStep> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = at(0).saturating_add(since + from_now);
        let (corpus, snapshot) = (notes(), nightly());
        let deletion = SnapshotDeletion { corpus, snapshot, is_dry_run };
        self.snapshots.delete(&deletion, now, LONG).await
    }

    /// Counts the files and folders of the snapshot that are left.
    async fn left(&self) -> usize {
        match self.place.store() {
            Some(store) => store.list(None).try_collect::<Vec<_>>().await.unwrap().len(),
            None => entries_below(&self.place.folder().unwrap().join("notes").join("nightly")),
        }
    }

    /// Opens the registry again, as after the process was killed.
    async fn restarted(&mut self) {
        self.registry = Registry::open_place(&self.data).await.unwrap();
    }

    /// Opens the restored corpus, which must exist.
    async fn found_again(&mut self) -> Vec<ShardWriter> {
        self.corpus = self.registry.get(&notes()).await.unwrap();
        assert_eq!(self.corpus, CorpusSettings { created_at: at(50), ..corpus() });
        self.open_all().await
    }
}

fn entries_below(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.map(|entry| 1 + entries_below(&entry.unwrap().path())).sum()
}

/// Accepts documents in their shards and commits their chunks.
async fn ingest(shards: &mut [ShardWriter], names: &[String], text: &str, now: i64) {
    for (index, shard) in (0..).map(ShardIndex).zip(shards) {
        let is_here = |name: &&String| placement::shard_of(&id(name), SHARDS) == index;
        let here: Vec<_> = names.iter().filter(is_here).collect();
        let documents =
            here.iter().map(|name| document(name, &format!("{name} {text}\nof {name}")));
        shard.accept(documents.collect(), at(now)).await.unwrap();
        derive_due(shard).await;
    }
}

async fn derive_due(shard: &mut ShardWriter) {
    let reader = shard.reader();
    let due = reader.due(at(i64::MAX), 1_000, &Default::default());
    let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
    let stored = reader.read_sources(&wanted).await.unwrap();
    let derived = stored.into_iter().map(|one| derive(one.document, one.version)).collect();
    shard.commit_derived(derived).await.unwrap();
}

async fn maintain(shard: &mut ShardWriter) {
    let plan = shard.maintenance_plan().await.unwrap();
    shard.maintain(&plan, LONG).await.unwrap();
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("d{i}")).collect()
}

/// Returns what a search finds, best first, with its scores.
async fn found(reader: &ShardReader, text: &str) -> Vec<(String, f32)> {
    let search = Search { limit: 20, ..Search::new(text) };
    let found = search.run(reader).await;
    let ranked = found.dense.into_iter().chain(found.sparse);
    ranked.map(|hit| (hit.chunk_id.to_string(), hit.score)).collect()
}

async fn assert_sound(reader: &ShardReader) {
    let checked = reader
        .with_access(&Access::all())
        .check(&CheckQuery { after: None, limit: 1_000 })
        .await
        .unwrap();
    assert!(checked.breaches.is_empty(), "{:?}", checked.breaches);
}

/// Returns the names of the files in a place that hold a text.
async fn files_with(place: &Storage, marker: &str) -> Vec<String> {
    match place.store() {
        Some(store) => {
            let mut marked = Vec::new();
            for object in store.list(None).try_collect::<Vec<_>>().await.unwrap() {
                let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
                if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
                    marked.push(object.location.to_string());
                }
            }
            marked
        }
        None => crate::fixture::files_containing(place.folder().unwrap(), marker)
            .into_iter()
            .map(|path| path.display().to_string())
            .collect(),
    }
}

/// Changes or removes a file of the snapshots.
async fn change(world: &World, name: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
    match world.place.store() {
        Some(store) => {
            let path = Path::from(format!("else/where/{name}"));
            let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
            match change(bytes.to_vec()) {
                Some(changed) => drop(store.put(&path, changed.into()).await.unwrap()),
                None => store.delete(&path).await.unwrap(),
            }
        }
        None => {
            let path = world.place.folder().unwrap().join(name);
            match change(std::fs::read(&path).unwrap()) {
                Some(changed) => std::fs::write(path, changed).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
        }
    }
}

#[tokio::test]
async fn a_corpus_comes_back_as_it_was_however_often_taking_and_restoring_are_interrupted() {
    for mut world in World::both().await {
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..12), "one", 1).await;
        ingest(&mut shards, &names(0..4), "two", 2).await;
        for shard in &mut shards {
            maintain(shard).await;
        }
        let version =
            shards[0].reader().list(&clew_core::ListQuery { after: None, limit: 1, state: None });
        let (document_id, version) = (version[0].document_id.clone(), version[0].version);
        let record = MemoryRecord {
            key: "1".repeat(32),
            model: "model".to_owned(),
            ratio: 4,
            parts: vec![MemoryPart { document_id, version, span: Span::new(0, 4) }],
            tokens: 100,
            slots: 25,
            bytes: 4,
        };
        assert!(store_memory(&mut shards[0], record, b"keys", &[]).await.unwrap());

        // The first shard is written to between any two steps; the second is not.
        let first = world
            .copy(&mut shards[0], 0, NO_TIME, async |shard, step| {
                if step < 3 {
                    let name = format!("new{step}");
                    shard.accept(vec![document(&name, "new one")], at(3)).await.unwrap();
                    derive_due(shard).await;
                    maintain(shard).await;
                }
            })
            .await;
        let second = world.copy(&mut shards[1], 1, NO_TIME, async |_, _| {}).await;
        let digests = [first, second];
        let summary =
            world.snapshots.finish(&world.corpus, &nightly(), &digests, at(5)).await.unwrap();
        assert_eq!(summary.documents, 15);
        assert_eq!(world.snapshots.list(&notes()).await.unwrap(), [summary]);
        let mut expected = Vec::new();
        for shard in &shards {
            let reader = shard.reader();
            expected.push((reader.counts(), found(&reader, "two of d1").await));
        }
        // Later documents are not in the snapshot.
        ingest(&mut shards, &names(20..24), "later", 6).await;
        drop(shards);

        let exists = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(exists, Error::CorpusExists(_)), "{exists:?}");
        world.registry.delete(&notes()).await.unwrap();
        for step in 0.. {
            world.restarted().await;
            let absent = world.registry.get(&notes()).await;
            assert!(matches!(absent, Err(Error::CorpusNotFound(_))), "{absent:?}");
            assert!(world.registry.list().await.unwrap().is_empty());
            if world.restore(&[], NO_TIME).await.unwrap().is_done {
                assert!(step > 5, "it was to be done in steps");
                break;
            }
        }
        let shards = world.found_again().await;
        for (shard, (counts, hits)) in shards.iter().zip(&expected) {
            let reader = shard.reader();
            assert_eq!(reader.counts(), *counts);
            assert_eq!(found(&reader, "two of d1").await, *hits);
            assert_sound(&reader).await;
        }
        let memory = shards[0].reader().memory(&"1".repeat(32)).await.unwrap();
        assert_eq!(memory.as_deref(), Some(&b"keys"[..]));
        // The restored corpus works like any other.
        let mut shards = shards;
        ingest(&mut shards, &names(0..6), "three", 9).await;
        for shard in &mut shards {
            maintain(shard).await;
            assert_sound(&shard.reader()).await;
        }
    }
}

#[tokio::test]
async fn what_is_left_out_does_not_come_back_and_what_was_forgotten_before_is_in_no_file() {
    for mut world in World::both().await {
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..8), "text", 1).await;
        ingest(&mut shards, &["before".to_owned()], MARKER, 2).await;
        ingest(&mut shards, &["after".to_owned()], "quagmire", 2).await;
        let index = placement::shard_of(&id("before"), SHARDS).0;
        // Forgotten when a part of it has already been copied.
        let mut digests = Vec::new();
        for (number, shard) in (0..).zip(&mut shards) {
            let forget = async |shard: &mut ShardWriter, step: usize| {
                if number == index && step == 2 {
                    shard.forget(&[id("before")]).await.unwrap();
                    let refused = world.step(shard, index, LONG).await;
                    assert!(matches!(refused, Err(Error::ReadersActive)), "{refused:?}");
                    shard.erase(LONG).await.unwrap();
                }
            };
            digests.push(world.copy(shard, number, NO_TIME, forget).await);
        }
        world.snapshots.finish(&world.corpus, &nightly(), &digests, at(5)).await.unwrap();
        assert_eq!(files_with(&world.place, MARKER).await, Vec::<String>::new());
        assert!(!files_with(&world.place, "quagmire").await.is_empty());
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();

        let leave_out = [id("after"), id("nobody")];
        let done = world.restore(&leave_out, LONG).await.unwrap();
        assert!(done.is_done);
        assert_eq!(done.left_out, 1);
        assert_eq!(files_with(&world.data, "quagmire").await, Vec::<String>::new());
        let shards = world.found_again().await;
        let documents: u64 = shards.iter().map(|shard| shard.reader().counts().documents).sum();
        assert_eq!(documents, 8);
        for shard in &shards {
            assert_sound(&shard.reader()).await;
        }
    }
}

#[tokio::test]
async fn a_corpus_that_moves_to_another_model_comes_back_moving_and_older_releases_refuse_it() {
    for mut world in World::both().await {
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..4), "text", 1).await;
        let next = EncoderIdentity { model: "next".to_owned(), ..corpus().encoder };
        let moving = world.corpus.after(&ReembedStep::Start(next)).unwrap();
        world.registry.change(&world.corpus, &moving).await.unwrap();
        world.corpus = moving.clone();
        world.take(&mut shards).await;
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();
        change(&world, "notes/nightly/snapshot.json", |bytes| {
            assert!(String::from_utf8_lossy(&bytes).contains("\"format\": 2"));
            Some(bytes)
        })
        .await;
        assert!(world.restore(&[], LONG).await.unwrap().is_done);
        let found = world.registry.get(&notes()).await.unwrap();
        assert_eq!(found, CorpusSettings { created_at: at(world.now), ..moving });
    }
}

#[tokio::test]
async fn what_is_not_whole_or_not_as_it_was_is_refused_and_leaves_no_corpus() {
    for mut world in World::both().await {
        let unknown = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(unknown, Error::SnapshotNotFound { .. }), "{unknown:?}");
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..8), "text", 1).await;
        world.copy(&mut shards[0], 0, LONG, async |_, _| {}).await;
        let unfinished = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(unfinished, Error::SnapshotUnfinished(_)), "{unfinished:?}");
        assert!(world.snapshots.list(&notes()).await.unwrap().is_empty());

        world.take(&mut shards).await;
        let again = world.step(&shards[0], 0, LONG).await.unwrap_err();
        assert!(matches!(again, Error::SnapshotExists(_)), "{again:?}");
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();

        let listed = world.snapshots.read(&notes(), &nightly()).await.unwrap();
        let file = listed.some_file(ShardIndex(0)).await.unwrap();
        let files = [
            format!("notes/nightly/shard-0/{file}"),
            "notes/nightly/shard-1.json".to_owned(),
            "notes/nightly/snapshot.json".to_owned(),
        ];
        for file in &files {
            let mut original = Vec::new();
            change(&world, file, |bytes| {
                original = bytes.clone();
                let mut changed = bytes;
                let last = changed.len() - 1;
                changed[last] ^= 1;
                Some(changed)
            })
            .await;
            let error = world.restore(&[], LONG).await.unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{file}: {error:?}");
            assert!(world.registry.list().await.unwrap().is_empty());
            change(&world, file, |_| Some(original)).await;
        }
        let newer = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            Some(text.replace("\"format\": 1", "\"format\": 4").into_bytes())
        };
        change(&world, &files[2], newer).await;
        let error = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(error, Error::NewerFormat { found: 4, known: 3, .. }), "{error:?}");
        // Written like this, it is another snapshot, of which nothing was copied before.
        let older = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            Some(text.replace("\"format\": 4", "\"format\":   1").into_bytes())
        };
        change(&world, &files[2], older).await;
        change(&world, &files[0], |_| None).await;
        world.now = 60;
        let error = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(world.registry.list().await.unwrap().is_empty());
    }
}

/// Time after which any work on a snapshot counts as given up.
const NEXT_HOUR: Duration = Duration::from_secs(3_600);
const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn a_deleted_snapshot_leaves_nothing_and_its_name_is_free() {
    for mut world in World::both().await {
        let unknown = world.delete(NOW, false).await.unwrap_err();
        assert!(matches!(unknown, Error::SnapshotNotFound { .. }), "{unknown:?}");
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..8), "text", 1).await;
        for _ in 0..2 {
            world.take(&mut shards).await;
            let before = world.left().await;
            let previewed = world.delete(NOW, true).await.unwrap();
            assert!(previewed.files > 4 && !previewed.is_done, "{previewed:?}");
            assert_eq!(world.left().await, before, "a dry run changes nothing");
            // A complete snapshot is deleted at once, even if its corpus still exists.
            let deleted = world.delete(NOW, false).await.unwrap();
            assert_eq!(deleted, DeletionStep { files: previewed.files, is_done: true });
            assert_eq!(world.left().await, 0);
            assert!(world.snapshots.list(&notes()).await.unwrap().is_empty());
            let gone = world.restore(&[], LONG).await.unwrap_err();
            assert!(matches!(gone, Error::SnapshotNotFound { .. }), "{gone:?}");
        }
        // A snapshot that cannot be read can be deleted as well.
        world.take(&mut shards).await;
        change(&world, "notes/nightly/snapshot.json", |_| Some(b"nonsense".to_vec())).await;
        assert!(world.delete(NOW, false).await.unwrap().is_done);
        assert_eq!(world.left().await, 0);

        world.take(&mut shards).await;
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();
        assert!(world.restore(&[], LONG).await.unwrap().is_done);
        assert_eq!(world.found_again().await.len(), SHARDS as usize);
    }
}

#[tokio::test]
async fn a_snapshot_that_is_being_taken_or_restored_from_is_not_deleted() {
    for mut world in World::both().await {
        let in_use = |error: Error, what: &str| match error {
            Error::SnapshotInUse { doing, .. } => assert_eq!(doing, what),
            other => panic!("{other:?}"),
        };
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..8), "text", 1).await;
        world.step(&shards[0], 0, NO_TIME).await.unwrap();
        for is_dry_run in [true, false] {
            in_use(world.delete(NOW, is_dry_run).await.unwrap_err(), "taken");
        }
        // If it was given up long ago, its leftovers are removed and it can be taken again.
        assert!(world.delete(NEXT_HOUR, false).await.unwrap().is_done);
        assert_eq!(world.left().await, 0);
        world.take(&mut shards).await;
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();

        assert!(!world.restore(&[], NO_TIME).await.unwrap().is_done);
        in_use(world.delete(NOW, false).await.unwrap_err(), "restored from");
        assert!(world.restore(&[], LONG).await.unwrap().is_done);
        // After the restore, the snapshot is not needed any more.
        world.registry.delete(&notes()).await.unwrap();
        world.now += 1;
        assert!(!world.restore(&[], NO_TIME).await.unwrap().is_done);
        assert!(world.restore(&[], LONG).await.unwrap().is_done);
        assert!(world.delete(NOW, true).await.is_ok());
        world.registry.delete(&notes()).await.unwrap();
        world.now += 1;
        assert!(!world.restore(&[], NO_TIME).await.unwrap().is_done);
        assert!(world.delete(NEXT_HOUR, false).await.unwrap().is_done);
        let gone = world.restore(&[], LONG).await.unwrap_err();
        assert!(matches!(gone, Error::SnapshotNotFound { .. }), "{gone:?}");
        assert_eq!(world.left().await, 0, "who comes too late leaves nothing there");
        assert!(world.registry.list().await.unwrap().is_empty());
    }
}

/// Runs a deletion with each kind of fault at each of its writes. The snapshot is then complete or
/// gone, and the next listing removes the leftovers of one that is gone.
#[tokio::test]
async fn a_deletion_that_is_cut_short_leaves_the_snapshot_whole_or_gone() {
    let kept = Arc::new(InMemory::new());
    let in_store = |store: Arc<dyn ObjectStore>| Storage::in_store(store, "else/where");
    let data = Storage::in_store(Arc::new(InMemory::new()), "some/where");
    let world = World::new(data, in_store(Arc::clone(&kept) as _), None).await;
    let mut shards = world.open_all().await;
    ingest(&mut shards, &names(0..8), "text", 1).await;
    world.take(&mut shards).await;
    let files = world.left().await;
    let deletion = SnapshotDeletion { corpus: notes(), snapshot: nightly(), is_dry_run: false };
    let (mut whole, mut gone) = (0, 0);
    for fault in Fault::ALL {
        for nth in 0.. {
            let store = Arc::new(kept.fork());
            let faulty = FaultyStore::new(Arc::clone(&store) as _);
            faulty.plan(nth, fault);
            let snapshots = Snapshots::in_place(in_store(Arc::new(faulty.clone())));
            let deleted = snapshots.delete(&deletion, at(1), LONG).await;
            if faulty.changes() <= nth {
                assert!(deleted.unwrap().is_done);
                break;
            }
            // A restart, before a late change happens and after it.
            let snapshots = Snapshots::in_place(in_store(Arc::clone(&store) as _));
            let left = async || store.list(None).try_collect::<Vec<_>>().await.unwrap().len();
            match snapshots.read(&notes(), &nightly()).await {
                Ok(_) => {
                    assert_eq!(left().await, files, "{fault:?} {nth}: a part of it is gone");
                    assert!(deleted.is_err(), "{fault:?} {nth}: it was said to be deleted");
                    whole += 1;
                }
                Err(Error::SnapshotBeingDeleted(_)) => {
                    let again = world_step(&snapshots, &shards[0]).await;
                    assert!(matches!(again, Err(Error::SnapshotBeingDeleted(_))), "{again:?}");
                    gone += 1;
                }
                Err(Error::SnapshotNotFound { .. }) => gone += 1,
                Err(other) => panic!("{fault:?} {nth}: {other:?}"),
            }
            faulty.settle().await;
            let listed = snapshots.list(&notes()).await.unwrap();
            let expected = if listed.is_empty() { 0 } else { files };
            assert_eq!(left().await, expected, "{fault:?} {nth}");
        }
    }
    assert!(whole >= 3 && gone > 30, "{whole} stayed whole, {gone} went");
}

/// Takes the first step of a snapshot of that name.
async fn world_step(snapshots: &Snapshots, shard: &ShardWriter) -> clew_index::Result<ShardCopy> {
    let (reader, name) = (shard.reader(), nightly());
    Box::pin(reader.copy_to_snapshot(snapshots, &name, ShardIndex(0), NO_TIME)).await
}

#[tokio::test]
async fn the_snapshots_that_hold_a_forgotten_document_are_named() {
    for world in World::both().await {
        let mut shards = world.open_all().await;
        ingest(&mut shards, &names(0..8), "text", 1).await;
        world.take(&mut shards).await;
        let holding = async |ids: &[&str], access: &Access, budget| {
            let ids: Vec<DocumentId> = ids.iter().map(|name| id(name)).collect();
            let found = world.snapshots.holding(&notes(), &ids, access, budget).await.unwrap();
            let told = |one: clew_core::HoldingSnapshot| (one.name, one.documents, one.problem);
            found.into_iter().map(told).collect::<Vec<_>>()
        };
        let all = Access::all();
        let is_held = |documents| vec![("nightly".to_owned(), documents, String::new())];
        for index in 0..SHARDS {
            let here = |name: &String| placement::shard_of(&id(name), SHARDS).0 == index;
            let gone: Vec<DocumentId> =
                names(0..2).iter().filter(|it| here(it)).map(|it| id(it)).collect();
            let forgetting = shards[index as usize].forget_for_good(&gone, &all, LONG);
            assert!(Box::pin(forgetting).await.unwrap().1.is_clean());
        }
        assert_eq!(holding(&["d0", "d1", "later"], &all, LONG).await, is_held(2));
        assert_eq!(holding(&["later"], &all, LONG).await, []);

        // Snapshots that cannot be searched are named too.
        let late = holding(&["d0"], &all, NO_TIME).await;
        assert!(late[0].2.contains("no time"), "{late:?}");
        let mut original = Vec::new();
        let file = "notes/nightly/snapshot.json";
        let damage = |bytes: Vec<u8>| {
            original = bytes;
            Some(b"{".to_vec())
        };
        change(&world, file, damage).await;
        let damaged = holding(&["d0"], &all, LONG).await;
        assert_eq!((damaged[0].0.as_str(), damaged[0].1), ("nightly", 0));
        assert!(!damaged[0].2.is_empty(), "{damaged:?}");
        change(&world, file, |_| None).await;
        let unfinished = holding(&["d0"], &all, LONG).await;
        assert!(unfinished[0].2.contains("not whole"), "{unfinished:?}");
    }
}

#[tokio::test]
async fn a_snapshot_is_not_named_to_whoever_does_not_see_the_document() {
    let world = World::in_folders().await;
    let mut shards = world.open_all().await;
    let labels = clew_core::Labels::parse(["secret"]).unwrap();
    let secret = Document { labels, ..document("d0", "hidden") };
    let index = placement::shard_of(&id("d0"), SHARDS).0 as usize;
    shards[index].accept(vec![secret], at(1)).await.unwrap();
    world.take(&mut shards).await;
    for (access, held) in [(Access::all(), 1), (Access::holding([]), 0)] {
        let holding = world.snapshots.holding(&notes(), &[id("d0")], &access, LONG).await.unwrap();
        assert_eq!(holding.len(), held, "{holding:?}");
    }
}

#[tokio::test]
async fn the_numbers_of_sources_come_back_and_are_obeyed() {
    for mut world in World::both().await {
        let mut shards = world.open_all().await;
        let numbered = |text: &str, number| Document {
            source_version: Some(SourceVersion(number)),
            ..document("d0", text)
        };
        let index = placement::shard_of(&id("d0"), SHARDS).0 as usize;
        shards[index].accept(vec![numbered("text", 1)], at(1)).await.unwrap();
        derive_due(&mut shards[index]).await;
        // This number is in a file of its own.
        shards[index].accept(vec![numbered("text", 5)], at(2)).await.unwrap();
        world.take(&mut shards).await;
        drop(shards);
        world.registry.delete(&notes()).await.unwrap();
        assert!(world.restore(&[], LONG).await.unwrap().is_done);
        let mut shards = world.found_again().await;
        let shard = &mut shards[index];
        let older = shard.accept(vec![numbered("older", 4)], at(60)).await.unwrap();
        assert_eq!(older[0].novelty, Novelty::Unchanged);
        let status = shard.reader().status(&id("d0")).unwrap();
        assert_eq!(status.source_version, Some(SourceVersion(5)));
        assert_sound(&shard.reader()).await;
    }
}
