//! Tests that of several owners of a shard only the newest writes, and nothing acknowledged is
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clew_core::{
    Document, DocumentId, ErrorKind, ListQuery, Novelty, SourceVersion, Stage, Timestamp, Version,
};
use clew_index::{
    Error, FailedAttempt, Left, MaintenancePlan, MaintenanceStep, ShardWriter, Storage, TableKind,
    Takeover, Tuning,
};
use futures::TryStreamExt;
use lancedb::query::{ExecutableQuery, QueryBase};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::check::check_all;
use crate::fixture::{Search, derive, document, id, settings, stored};

const PATIENCE: Duration = Duration::from_secs(5);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn tuning() -> Tuning {
    Tuning { index_rows: 4, vector_index_rows: 4, ..Tuning::default() }
}

async fn owner(folder: &Path, name: &str) -> clew_index::Result<ShardWriter> {
    ShardWriter::open(&Storage::from(folder), settings(tuning()), Takeover::By(name.to_owned()))
        .await
}

async fn back(folder: &Path, left: Left) -> clew_index::Result<ShardWriter> {
    ShardWriter::open(&Storage::from(folder), settings(tuning()), Takeover::Back(left)).await
}

/// Returns the documents of a shard, with the texts of the versions that readers see.
async fn contents(shard: &ShardWriter) -> BTreeMap<DocumentId, String> {
    let reader = shard.reader();
    let all = ListQuery { after: None, limit: usize::MAX, state: None };
    let mut contents = BTreeMap::new();
    for status in reader.list(&all) {
        let stored = stored(&reader, &status.document_id).await.unwrap();
        contents.insert(status.document_id, stored.document.text);
    }
    contents
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path);
        }
    }
    found
}

async fn index_all(shard: &mut ShardWriter, now: i64) {
    let reader = shard.reader();
    let due = reader.due(at(now), 1000, &Default::default());
    let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
    let stored = reader.read_sources(&wanted).await.unwrap();
    let derived = stored.into_iter().map(|s| derive(s.document, s.version)).collect();
    shard.commit_derived(derived).await.unwrap();
}

/// Returns a shard of owner `a` on which each kind of write has something to do.
async fn prepared(folder: &Path) -> ShardWriter {
    let mut first = owner(folder, "first").await.unwrap();
    for i in 0..4 {
        let documents = (0..2).map(|j| document(&format!("d{i}{j}"), "plain text")).collect();
        first.accept(documents, at(i + 1)).await.unwrap();
        index_all(&mut first, i + 1).await;
    }
    first.accept(vec![document("secret", "a secret")], at(10)).await.unwrap();
    index_all(&mut first, 10).await;
    let connection = lancedb::connect(folder.to_str().unwrap()).execute().await.unwrap();
    let chunks = connection.open_table("chunks").execute().await.unwrap();
    let rows = chunks.query().only_if("document_id = 'secret'").execute().await.unwrap();
    let late: Vec<_> = rows.try_collect().await.unwrap();
    first.forget(&[id("secret")]).await.unwrap();
    // Chunks of a document that is gone, to be swept.
    chunks.checkout_latest().await.unwrap();
    chunks.add(late).execute().await.unwrap();
    let mut a = owner(folder, "a").await.unwrap();
    a.accept(vec![document("pending", "not indexed yet")], at(20)).await.unwrap();
    a
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Accept,
    Renumber,
    Derived,
    Failures,
    Forget,
    Erase,
    Step(MaintenanceStep),
}

async fn write(shard: &mut ShardWriter, write: Write) -> clew_index::Result<()> {
    match write {
        Write::Accept => {
            shard.accept(vec![document("late", "too late")], at(50)).await?;
        }
        Write::Renumber => {
            let source_version = Some(SourceVersion(1));
            let numbered = Document { source_version, ..document("d00", "plain text") };
            shard.accept(vec![numbered], at(50)).await?;
        }
        Write::Derived => {
            let status = shard.reader().status(&id("pending")).unwrap();
            let derived = derive(document("pending", "not indexed yet"), status.version);
            shard.commit_derived(vec![derived]).await?;
        }
        Write::Failures => {
            let version: Version = shard.reader().status(&id("pending")).unwrap().version;
            let failure = FailedAttempt {
                document_id: id("pending"),
                version,
                stage: Stage::Embedding,
                kind: ErrorKind::Internal,
                message: "no".to_owned(),
                next_try: None,
            };
            shard.record_failures(vec![failure]).await?;
        }
        Write::Forget => {
            shard.forget(&[id("d00")]).await?;
        }
        Write::Erase => shard.erase(PATIENCE).await?,
        Write::Step(step) => {
            shard.maintain(&MaintenancePlan { steps: vec![step] }, PATIENCE).await?;
        }
    }
    Ok(())
}

const WRITES: [Write; 14] = [
    Write::Accept,
    Write::Renumber,
    Write::Derived,
    Write::Failures,
    Write::Forget,
    Write::Erase,
    Write::Step(MaintenanceStep::Sweep),
    Write::Step(MaintenanceStep::Compact(TableKind::Sources)),
    Write::Step(MaintenanceStep::Compact(TableKind::Chunks)),
    Write::Step(MaintenanceStep::BuildIndexes(TableKind::Chunks)),
    Write::Step(MaintenanceStep::BuildVectorIndex),
    Write::Step(MaintenanceStep::Prune(TableKind::Sources)),
    Write::Step(MaintenanceStep::Prune(TableKind::Chunks)),
    Write::Step(MaintenanceStep::Prune(TableKind::Failures)),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_comes_back_writes_only_if_somebody_else_did() {
    let folder = tempfile::tempdir().unwrap();
    let a = prepared(folder.path()).await;
    let (left, known) = (a.left().await.unwrap(), contents(&a).await);
    assert_eq!(left.owner(), "a");
    drop(a);
    let before = files(folder.path());
    let mut again = back(folder.path(), left.clone()).await.unwrap();
    assert_eq!(files(folder.path()), before, "nothing is written");
    assert_eq!(contents(&again).await, known);
    index_all(&mut again, 30).await;
    again.forget(&[id("pending")]).await.unwrap();
    let left_later = again.left().await.unwrap();
    drop(again);

    // It forgot where it left the shard last, or its own late write came.
    let mut from_earlier = back(folder.path(), left).await.unwrap();
    assert!(files(folder.path()).is_superset(&before));
    assert_eq!(from_earlier.reader().status(&id("pending")), None);
    from_earlier.accept(vec![document("new", "of a")], at(60)).await.unwrap();
    let left = from_earlier.left().await.unwrap();
    drop(from_earlier);

    let mut b = owner(folder.path(), "b").await.unwrap();
    let mut a = back(folder.path(), left).await.unwrap();
    assert!(matches!(write(&mut b, Write::Accept).await, Err(Error::LostRace { .. })));
    assert_eq!(b.left().await, None, "the outcome of its write is not known");
    write(&mut a, Write::Accept).await.unwrap();
    let stale = back(folder.path(), left_later).await.unwrap();
    assert!(matches!(write(&mut a, Write::Erase).await, Err(Error::LostRace { .. })));
    assert!(stale.reader().status(&id("late")).is_some());
}

#[tokio::test]
async fn after_a_takeover_each_kind_of_write_of_the_earlier_owner_is_refused() {
    for kind in WRITES {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("shard-0");
        let mut a = prepared(&folder).await;
        let mut b = owner(&folder, "b").await.unwrap();
        let (held, counts, before) = (contents(&b).await, b.reader().counts(), files(&folder));
        let statistics = b.statistics().await.unwrap();
        for attempt in 0..3 {
            let error = write(&mut a, kind).await.unwrap_err();
            assert!(matches!(error, Error::LostRace { .. }), "{kind:?} {attempt}: {error:?}");
            let error = clew_core::Error::from(error);
            assert_eq!(error.reason(), "SHARD_WRITTEN_BY_ANOTHER", "{kind:?}");
        }
        assert!(matches!(a.reload().await, Err(Error::LostRace { .. })), "{kind:?}");
        // No file is gone that the new owner may need, and no effect of the write is visible.
        assert!(files(&folder).is_superset(&before), "{kind:?}");
        b.reload().await.unwrap();
        assert_eq!((contents(&b).await, b.reader().counts()), (held, counts), "{kind:?}");
        assert_eq!(b.statistics().await.unwrap(), statistics, "{kind:?}");
        b.accept(vec![document("next", "goes on")], at(60)).await.unwrap();
        let search = Search { limit: 50, ..Search::new("plain text") };
        assert_eq!(search.run(&b.reader()).await.dense.len(), 8, "{kind:?}");
    }
}

#[tokio::test]
async fn each_kind_of_write_has_something_to_do_for_an_owner() {
    // Otherwise the test above would see refusals of writes that do nothing.
    for kind in WRITES {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("shard-0");
        let mut a = prepared(&folder).await;
        let before = files(&folder);
        write(&mut a, kind).await.unwrap();
        assert_ne!(files(&folder), before, "{kind:?}");
    }
}

#[tokio::test]
async fn what_needs_no_write_is_acknowledged_by_the_newest_owner_only() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("shard-0");
    let there = || vec![document("there", "one")];
    for forgets in [false, true] {
        let mut a = owner(&folder, "a").await.unwrap();
        a.accept(there(), at(1)).await.unwrap();
        let again = a.accept(there(), at(2)).await.unwrap();
        assert_eq!(again[0].novelty, Novelty::Unchanged);
        assert_eq!(a.forget(&[id("new")]).await.unwrap()[0].versions, 0);
        let mut b = owner(&folder, "b").await.unwrap();
        b.forget(&[id("there")]).await.unwrap();
        b.accept(vec![document("new", "two")], at(3)).await.unwrap();
        let refused = match forgets {
            true => a.forget(&[id("new")]).await.map(drop),
            false => a.accept(there(), at(4)).await.map(drop),
        };
        assert!(matches!(refused, Err(Error::LostRace { .. })), "{refused:?}");
        b.forget(&[id("new")]).await.unwrap();
    }
}

#[tokio::test]
async fn a_foreign_commit_stops_an_owner_who_was_alone_until_it_opens_the_shard_again() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("shard-0");
    let mut a = crate::fixture::open(&folder, settings(tuning())).await.unwrap();
    a.accept(vec![document("a", "one")], at(1)).await.unwrap();
    let connection = lancedb::connect(folder.to_str().unwrap()).execute().await.unwrap();
    let sources = connection.open_table("sources").execute().await.unwrap();
    sources.delete("document_id = 'none'").await.unwrap();
    sources.delete("document_id = 'a'").await.unwrap();
    for _ in 0..2 {
        let error = a.accept(vec![document("b", "two")], at(2)).await.unwrap_err();
        assert!(matches!(error, Error::LostRace { table: TableKind::Sources, .. }), "{error:?}");
    }
    let mut a = crate::fixture::open(&folder, settings(tuning())).await.unwrap();
    assert!(contents(&a).await.is_empty());
    a.accept(vec![document("b", "two")], at(3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_knows_whether_its_owner_is_the_newest() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("shard-0");
    let mut a = owner(&folder, "a").await.unwrap();
    let reader = a.reader();
    let asking = tokio::spawn(async move {
        let mut asked = 0;
        while reader.status(&id("d19")).is_none() {
            assert!(reader.is_current().await.unwrap());
            asked += 1;
        }
        (asked, reader)
    });
    for i in 0..20 {
        a.accept(vec![document(&format!("d{i}"), "text")], at(i + 1)).await.unwrap();
    }
    let (asked, reader) = asking.await.unwrap();
    assert!(asked > 0);
    let b = owner(&folder, "b").await.unwrap();
    assert!(!reader.is_current().await.unwrap());
    assert!(b.reader().is_current().await.unwrap());
    // The view that the reader shows is still complete.
    assert_eq!(reader.counts().accepted, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_owners_who_take_a_shard_at_the_same_time_one_can_write() {
    let temporary = tempfile::tempdir().unwrap();
    // Half of the rounds begin with a shard that does not exist yet.
    for round in 0..8 {
        let folder = temporary.path().join(format!("shard-{}", round / 2));
        let barrier = Arc::new(tokio::sync::Barrier::new(3));
        let owners = (0..3).map(|i| {
            let (folder, barrier) = (folder.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                owner(&folder, &format!("owner {i}")).await
            })
        });
        let mut able = 0;
        for opened in futures::future::join_all(owners).await {
            let written = match opened.unwrap() {
                Ok(mut shard) => {
                    let document = document(&format!("r{round}"), &format!("{able}"));
                    shard.accept(vec![document], at(round + 1)).await.map(drop)
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(()) => able += 1,
                Err(error) => assert!(matches!(error, Error::LostRace { .. }), "{error:?}"),
            }
        }
        assert_eq!(able, 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_owners_acknowledged_is_there_however_often_the_shard_changes_hands() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("shard-0");
    let mut acknowledged = BTreeSet::new();
    let mut writing: Option<tokio::task::JoinHandle<Vec<DocumentId>>> = None;
    // The previous owner keeps writing and removing garbage meanwhile. That may be a file with
    // which a takeover begins; it then fails, and is tried again.
    let take_over = async |name: String| loop {
        match owner(&folder, &name).await {
            Err(Error::Unavailable { .. }) => {}
            opened => return opened.unwrap(),
        }
    };
    for hand in 0..6 {
        let mut shard = tokio::time::timeout(12 * PATIENCE, take_over(format!("owner {hand}")))
            .await
            .expect("a takeover succeeds soon");
        let next = tokio::spawn(async move {
            let mut done = Vec::new();
            for i in 0.. {
                let name = id(&format!("h{hand}-{i}"));
                let document = document(name.as_str(), "text");
                match shard.accept(vec![document], at(1000 * hand + i + 1)).await {
                    Ok(_) => done.push(name),
                    Err(Error::LostRace { .. }) => break,
                    Err(error) => panic!("{error:?}"),
                }
                if i % 5 == 4 {
                    let steps = TableKind::ALL.map(MaintenanceStep::Prune).to_vec();
                    match shard.maintain(&MaintenancePlan { steps }, PATIENCE).await {
                        Ok(_) => {}
                        Err(Error::LostRace { .. }) => break,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            done
        });
        if let Some(before) = writing.replace(next) {
            acknowledged.extend(before.await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let last = take_over("last".to_owned()).await;
    acknowledged.extend(writing.unwrap().await.unwrap());
    assert!(acknowledged.len() > 6, "{}", acknowledged.len());
    let there: BTreeSet<DocumentId> = contents(&last).await.into_keys().collect();
    assert!(there.is_superset(&acknowledged), "{:?}", acknowledged.difference(&there));
}

/// Action of one of two owners.
#[derive(Clone, Debug)]
enum Act {
    TakeOver,
    Accept(usize, u8),
    Forget(usize),
    Index,
    Maintain,
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let act = prop_oneof![
        2 => Just(Act::TakeOver),
        5 => (0..4usize, any::<u8>()).prop_map(|(name, text)| Act::Accept(name, text)),
        2 => (0..4usize).prop_map(Act::Forget),
        3 => Just(Act::Index),
        2 => Just(Act::Maintain),
    ];
    proptest::collection::vec((0..2usize, act), 1..25)
}

/// Does an action as an owner. Returns whether it succeeded.
async fn act(shard: &mut ShardWriter, act: &Act, now: i64) -> bool {
    let done = match act {
        Act::TakeOver => Ok(()),
        Act::Accept(name, text) => {
            let document = document(&format!("d{name}"), &format!("text {text}"));
            shard.accept(vec![document], at(now)).await.map(drop)
        }
        Act::Forget(name) => shard.forget(&[id(&format!("d{name}"))]).await.map(drop),
        Act::Index => {
            let reader = shard.reader();
            let due = reader.due(at(now), 1000, &Default::default());
            let wanted: Vec<_> = due.into_iter().map(|d| (d.document_id, d.version)).collect();
            // Files of a stale owner's view may be gone.
            match reader.read_sources(&wanted).await {
                Ok(stored) => {
                    let derived = stored.into_iter().map(|s| derive(s.document, s.version));
                    shard.commit_derived(derived.collect()).await.map(drop)
                }
                Err(error) => Err(error),
            }
        }
        Act::Maintain => {
            let steps = TableKind::ALL.map(MaintenanceStep::Compact).into_iter();
            let steps = steps
                .chain([MaintenanceStep::Erase])
                .chain(TableKind::ALL.map(MaintenanceStep::Prune));
            let plan = MaintenancePlan { steps: steps.collect() };
            shard.maintain(&plan, PATIENCE).await.map(drop)
        }
    };
    done.is_ok()
}

#[test]
fn two_owners_in_any_order_leave_exactly_what_was_acknowledged() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    let mut runner = TestRunner::new_with_rng(config, rng);
    let law = |acts: Vec<(usize, Act)>| {
        runtime.block_on(async {
            let temporary = tempfile::tempdir().unwrap();
            let folder = temporary.path().join("shard-0");
            let mut owners: [Option<ShardWriter>; 2] = [None, None];
            let mut newest = None;
            let mut model: BTreeMap<DocumentId, String> = BTreeMap::new();
            for (now, (who, what)) in acts.iter().enumerate() {
                if matches!(what, Act::TakeOver) {
                    owners[*who] = Some(owner(&folder, &format!("owner {who}")).await.unwrap());
                    newest = Some(*who);
                    continue;
                }
                let Some(shard) = &mut owners[*who] else { continue };
                let done = act(shard, what, now as i64 + 1).await;
                prop_assert!(done || newest != Some(*who), "the newest owner was refused {what:?}");
                match what {
                    // A stale owner must not acknowledge even documents that are unchanged or
                    // unknown. Work that finds nothing to do may succeed.
                    Act::Accept(..) | Act::Forget(_) if newest != Some(*who) => {
                        prop_assert!(!done, "a stale owner acknowledged {what:?}");
                    }
                    Act::Accept(name, text) => {
                        model.insert(id(&format!("d{name}")), format!("text {text}"));
                    }
                    Act::Forget(name) => {
                        model.remove(&id(&format!("d{name}")));
                    }
                    Act::TakeOver | Act::Index | Act::Maintain => {}
                }
            }
            let mut last = owner(&folder, "last").await.unwrap();
            index_all(&mut last, 1000).await;
            prop_assert_eq!(contents(&last).await, model);
            prop_assert_eq!(check_all(&last.reader(), 2).await.breaches, []);
            Ok(())
        })
    };
    runner.run(&acts(), law).unwrap();
}
