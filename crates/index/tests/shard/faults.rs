//! Tests with each kind of fault at each put and each removal of a shard's writes. Acknowledged
//! documents must exist once and completely, forgotten documents must be gone, and the shard must
//! keep working.
//!
//! A shard lives through a history, step by step, in a store in memory. Each step is repeated from
//! a copy of the store, once for each of its puts and removals and each kind of fault: the fault
//! happens, the step is tried again as a caller would, and the shard is opened again on a healthy
//! store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{
    Document, DocumentState, ErrorKind, ListQuery, SearchMode, SourceVersion, Stage, Timestamp,
};
use clew_index::{DerivedDocument, Error, FailedAttempt, ShardWriter, Storage, Takeover, Tuning};
use clew_testkit::{Fault, FaultyStore};
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::fixture::{Search, derive, document, id, in_parts, settings, stored};

/// Word in the text of documents that are forgotten.
const MARKER: &str = "zanzibarite";
const PATIENCE: Duration = Duration::from_secs(5);
/// Attempts of a step after which it must have succeeded. The fault happens once, and a put that
/// happens later than it seemed may fail one more attempt.
const TRIES: usize = 4;

/// Operation on a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Opens the shard and creates missing tables.
    Open,
    /// Accepts documents, given by name and text.
    Accept(&'static [(&'static str, &'static str)]),
    /// Accepts a document that is there already, by name and text, with this number of its source.
    Renumber(&'static str, &'static str, u64),
    /// Derives and commits the chunks of all due documents except these.
    DeriveAllBut(&'static [&'static str]),
    /// Derives all due documents, and commits each chunk by itself.
    DeriveInParts,
    /// Records a failure.
    Fail(&'static str),
    Forget(&'static str),
    Maintain,
    Erase,
}

const HISTORY: [Step; 13] = [
    Step::Open,
    Step::Accept(&[
        ("a", "the first\nof two lines"),
        ("b", "about zanzibarite\nand more zanzibarite"),
    ]),
    Step::DeriveAllBut(&[]),
    Step::Accept(&[("a", "the second version"), ("c", "fails at first"), ("d", "zanzibarite too")]),
    Step::Fail("c"),
    Step::DeriveAllBut(&["d"]),
    Step::Renumber("a", "the second version", 7),
    Step::Maintain,
    Step::Accept(&[("b", "zanzibarite anew\nand once more"), ("e", "the last\nof\nthem")]),
    Step::DeriveInParts,
    Step::Forget("b"),
    Step::Forget("d"),
    Step::Erase,
];

async fn open(store: impl ObjectStore) -> clew_index::Result<ShardWriter> {
    // Bounds so low that maintenance has something to do after a few commits.
    let tuning = Tuning {
        index_rows: 2,
        vector_index_rows: 4,
        small_fragments: 2,
        versions: 2,
        ..Tuning::default()
    };
    let place = Storage::in_store(Arc::new(store), "shard-0");
    Box::pin(ShardWriter::open(&place, settings(tuning), Takeover::Uncontested)).await
}

async fn take(shard: &mut ShardWriter, step: Step, now: Timestamp) -> clew_index::Result<()> {
    match step {
        Step::Open => {}
        Step::Accept(documents) => {
            let documents = documents.iter().map(|(name, text)| document(name, text));
            shard.accept(documents.collect(), now).await?;
        }
        Step::Renumber(name, text, number) => {
            let source_version = Some(SourceVersion(number));
            let numbered = Document { source_version, ..document(name, text) };
            shard.accept(vec![numbered], now).await?;
        }
        Step::DeriveAllBut(left_out) => {
            let derived = derive_due(shard, left_out).await?;
            shard.commit_derived(derived).await?;
        }
        Step::DeriveInParts => {
            for derived in derive_due(shard, &[]).await? {
                // A single part is the whole document.
                if derived.chunks.len() == 1 {
                    shard.commit_derived(vec![derived]).await?;
                    continue;
                }
                let version = derived.version;
                for part in in_parts(derived, 1) {
                    // Not if it was committed already, although an error said otherwise.
                    if !shard.commit_part(&part).await? {
                        shard.abandon_parts(&part.document.id, version).await?;
                        break;
                    }
                }
            }
        }
        Step::Fail(name) => {
            let Some(status) = shard.reader().status(&id(name)) else { panic!("no {name}") };
            if status.state == DocumentState::Pending {
                let failure = FailedAttempt {
                    document_id: id(name),
                    version: status.version,
                    stage: Stage::Embedding,
                    kind: ErrorKind::Internal,
                    message: "no".to_owned(),
                    next_try: Some(now),
                };
                shard.record_failures(vec![failure]).await?;
            }
        }
        Step::Forget(name) => {
            shard.forget(&[id(name)]).await?;
        }
        Step::Maintain => {
            let plan = shard.maintenance_plan().await?;
            shard.maintain(&plan, PATIENCE).await?;
        }
        Step::Erase => shard.erase(PATIENCE).await?,
    }
    Ok(())
}

/// Derives all due documents except these.
async fn derive_due(
    shard: &ShardWriter,
    left_out: &[&str],
) -> clew_index::Result<Vec<DerivedDocument>> {
    let busy = left_out.iter().map(|name| id(name)).collect();
    let reader = shard.reader();
    let due = reader.due(Timestamp::from_micros(i64::MAX), 100, &busy);
    let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
    let stored = reader.read_sources(&wanted).await?;
    assert_eq!(stored.len(), wanted.len());
    Ok(stored.into_iter().map(|one| derive(one.document, one.version)).collect())
}

/// Returns what readers see of each document: its state, its text, and the chunks that searches
/// find.
async fn seen(shard: &ShardWriter) -> BTreeMap<String, String> {
    let reader = shard.reader();
    let all = ListQuery { after: None, limit: 100, state: None };
    let mut chunks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let search = Search { limit: 100, exact: true, mode: SearchMode::Dense, ..Search::new("all") };
    let found = search.run(&reader).await;
    for hit in found.dense {
        chunks.entry(hit.document_id.to_string()).or_default().push(hit.shown.unwrap().text);
    }
    let mut seen = BTreeMap::new();
    for status in reader.list(&all) {
        let stored = stored(&reader, &status.document_id).await.expect("a text");
        let name = status.document_id.to_string();
        let mut found = chunks.remove(&name).unwrap_or_default();
        found.sort();
        assert_eq!(found.len() as u64, status.chunks, "{name}: {found:?}");
        let is_live = status.live_version == Some(stored.version);
        assert_eq!(is_live, !found.is_empty(), "{name}");
        if is_live {
            let mut whole: Vec<&str> = stored.document.text.split_inclusive('\n').collect();
            whole.sort_unstable();
            assert_eq!(found, whole, "{name}");
        }
        let (text, number) = (&stored.document.text, status.source_version);
        let what = format!("{:?} {text:?} {number:?} {found:?}", status.state);
        assert_eq!(seen.insert(name, what), None);
    }
    assert!(chunks.is_empty(), "found without a document: {chunks:?}");
    seen
}

async fn objects_with(store: &InMemory, marker: &str) -> Vec<String> {
    let objects: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut found = Vec::new();
    for object in objects {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
            found.push(object.location.to_string());
        }
    }
    found
}

/// Step, with the store before it.
struct Chapter {
    nth: usize,
    step: Step,
    before: InMemory,
    seen_before: BTreeMap<String, String>,
    seen_after: BTreeMap<String, String>,
    changes: usize,
}

/// Returns the time of the nth step.
fn at(nth: usize) -> Timestamp {
    Timestamp::from_micros(1 + nth as i64)
}

impl Chapter {
    fn now(&self) -> Timestamp {
        at(self.nth)
    }

    /// Takes the step with a fault at one of its changes, and then the following steps.
    async fn with(&self, nth_change: usize, fault: Fault) {
        let told = format!("step {} {:?}, {fault:?} at {nth_change}", self.nth, self.step);
        let store = Arc::new(self.before.fork());
        let faulty = FaultyStore::new(Arc::clone(&store) as _);
        if self.step == Step::Open {
            faulty.plan(nth_change, fault);
        }
        let (mut shard, mut is_planned, mut is_done) = (None, false, false);
        for _ in 0..TRIES {
            if shard.is_none() {
                match open(faulty.clone()).await {
                    Ok(opened) => shard = Some(opened),
                    Err(error) => {
                        // A put of the previous attempt that happens only now is like a commit of
                        // another owner.
                        let kind = kind(error);
                        let is_late = fault == Fault::DoneLater && kind == ErrorKind::LostRace;
                        assert!(is_late || kind == ErrorKind::Unavailable, "{told}: {kind:?}");
                        continue;
                    }
                }
                if self.step != Step::Open && !is_planned {
                    faulty.plan(nth_change, fault);
                }
                is_planned = true;
            }
            let Some(opened) = &mut shard else { continue };
            match take(opened, self.step, self.now()).await {
                Ok(()) => {
                    is_done = true;
                    break;
                }
                Err(error) => {
                    // As above: the owner has to open the shard again.
                    let kind = kind(error);
                    let is_late = fault == Fault::DoneLater && kind == ErrorKind::LostRace;
                    assert!(is_late || kind == ErrorKind::Unavailable, "{told}: {kind:?}");
                    if is_late {
                        shard = None;
                    }
                }
            }
        }
        let crashes = matches!(fault, Fault::Crash | Fault::CrashAfter);
        // The last change may be acknowledged although the process dies with it.
        assert!(is_done || crashes, "{told}: it does not succeed");
        drop(shard);
        faulty.settle().await;

        let mut shard =
            open(Arc::clone(&store)).await.unwrap_or_else(|error| panic!("{told}: {error:?}"));
        let seen_now = seen(&shard).await;
        if is_done {
            assert_eq!(seen_now, self.seen_after, "{told}");
        }
        for name in seen_now.keys().chain(self.seen_before.keys()).chain(self.seen_after.keys()) {
            let now = seen_now.get(name);
            let is_known = now == self.seen_before.get(name) || now == self.seen_after.get(name);
            assert!(is_known, "{told}: {name} is {now:?}");
        }
        take(&mut shard, self.step, self.now()).await.unwrap();
        assert_eq!(seen(&shard).await, self.seen_after, "{told}: again");
        // Files of writes that did not happen may hold text as well, so these cases continue to the
        // end.
        let writes_text =
            matches!(self.step, Step::Accept(_) | Step::DeriveAllBut(_) | Step::DeriveInParts);
        let leaves_files = matches!(fault, Fault::NotDone | Fault::CrashAfter);
        let to_the_end = writes_text && leaves_files;
        let following = if to_the_end { HISTORY.len() } else { 1 };
        for (i, step) in HISTORY.into_iter().enumerate().skip(self.nth + 1).take(following) {
            take(&mut shard, step, at(i)).await.unwrap();
        }
        if to_the_end || self.step == Step::Forget("d") || self.step == Step::Erase {
            let left = objects_with(&store, MARKER).await;
            assert_eq!(left, Vec::<String>::new(), "{told}");
        }
    }
}

fn kind(error: Error) -> ErrorKind {
    clew_core::Error::from(error).kind()
}

/// Runs the history without faults.
async fn chapters() -> Vec<Arc<Chapter>> {
    let store = Arc::new(InMemory::new());
    let mut chapters = Vec::new();
    let mut seen_before = BTreeMap::new();
    for (nth, step) in HISTORY.into_iter().enumerate() {
        let before = store.fork();
        let counting = FaultyStore::new(Arc::clone(&store) as _);
        let mut shard = open(counting.clone()).await.unwrap();
        let opened = if step == Step::Open { 0 } else { counting.changes() };
        take(&mut shard, step, at(nth)).await.unwrap();
        let (changes, seen_after) = (counting.changes() - opened, seen(&shard).await);
        assert!(changes > 0, "{step:?} does nothing");
        let chapter =
            Chapter { nth, step, before, seen_before, seen_after: seen_after.clone(), changes };
        seen_before = seen_after;
        chapters.push(Arc::new(chapter));
    }
    assert_eq!(objects_with(&store, MARKER).await, Vec::<String>::new());
    assert_eq!(seen_before.keys().collect::<Vec<_>>(), ["a", "c", "e"]);
    chapters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_put_or_removal_may_fail_in_any_way() {
    // Every place with one of the faults, in turn. With `CLEW_FAULT_CASES=all`, every place with
    // each of them, which takes some minutes.
    let all = std::env::var("CLEW_FAULT_CASES").is_ok_and(|cases| cases == "all");
    let mut cases = Vec::new();
    for (number, chapter) in chapters().await.into_iter().enumerate() {
        for nth in 0..chapter.changes {
            let case = |fault: &Fault| (Arc::clone(&chapter), nth, *fault);
            match all {
                true => cases.extend(Fault::ALL.iter().map(case)),
                false => cases.push(case(&Fault::ALL[(number + nth) % Fault::ALL.len()])),
            }
        }
    }
    let run = |(chapter, nth, fault): (Arc<Chapter>, usize, Fault)| {
        tokio::spawn(async move { chapter.with(nth, fault).await })
    };
    let mut running = futures::stream::iter(cases).map(run).buffer_unordered(4);
    let mut failed = 0;
    while let Some(ended) = running.next().await {
        failed += usize::from(ended.is_err());
    }
    assert_eq!(failed, 0, "cases failed; see above");
}
