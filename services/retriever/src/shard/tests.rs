//! Tests of failures and panics on the way from an accepted document to a searchable one. Each
//! document is found once in the end, or set aside with its error, and the others go on. Work that
//! is repeated holds up nothing new.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Access, Account, Attributes, CandidateQuery, CheckQuery, Chunking, Clock, CorpusSettings,
    Counts, Document, DraftTask, DraftedClues, Embedding, Encoder, EncoderIdentity, Encoders,
    Error, ErrorKind, Extraction, ExtractionTask, Filter, FormTask, FormedMemory, GraphBuilder,
    GraphBuilders, GraphQuery, Grouping, IfThere, KeptMemory, Labels, Like, MediaType,
    MemoryEncoder, MemoryModelIdentity, MemorySettings, MemoryText, NoMemoryModel, Priority,
    ReembedStep, SearchMode, SearchedView, ShardAdmin as _, ShardIndex, ShardSearch as _,
    ShardStore as _, Span, StructureSettings, Summary, SummaryTask, TextKind, Timestamp, TreeNode,
    TreeQuery, WantedNodes,
};
use clew_index::Storage;
use clew_testkit::{Fault, FaultyStore};
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use super::access::BATCH_AT_ONCE;
use super::line::ShardLine;
use super::*;
use crate::RetrieverConfig;
use crate::seams::ShardSeams;
use crate::shard::claim::Claim;
use crate::shard::keeper::Keeper;

const DIMENSION: u32 = 8;
/// Time limit for anything before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Word in a text that cannot be derived.
const POISON: &str = "poison";

/// Step in which an encoder fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Cutting,
    Embedding,
}

/// Way in which an encoder fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Panics,
    /// With an error of the service, which is over soon.
    Away,
    /// With an error of the document.
    Refuses,
    /// Without ever returning.
    Hangs,
}

/// An encoder that fails once on demand, and at each text with [`POISON`] if configured.
#[derive(Debug)]
struct FailingEncoder {
    identity: EncoderIdentity,
    once: Mutex<Option<(Point, Failing)>>,
    at_poison: Option<(Point, Failing)>,
    /// Number of calls that hang, or did until they were cancelled.
    hanging: AtomicUsize,
}

impl FailingEncoder {
    fn new(model: &str, at_poison: Option<(Point, Failing)>) -> Arc<Self> {
        let identity = EncoderIdentity {
            model: model.to_owned(),
            revision: "1".to_owned(),
            dimension: DIMENSION,
            max_tokens: 64,
        };
        let hanging = AtomicUsize::new(0);
        Arc::new(Self { identity, once: Mutex::default(), at_poison, hanging })
    }

    fn fail_once(&self, point: Point, failing: Failing) {
        *self.once.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some((point, failing));
    }

    /// Returns how to fail at `point` over `text`, if at all.
    fn failing(&self, point: Point, text: &str) -> Option<Failing> {
        let mut once = self.once.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_here = once.is_some_and(|(at, _)| at == point);
        let now = is_here.then(|| once.take()).flatten();
        drop(once);
        let poisoned = self.at_poison.filter(|(at, _)| *at == point && text.contains(POISON));
        now.or(poisoned).map(|(_, failing)| failing)
    }
}

#[async_trait]
impl Encoder for FailingEncoder {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        assert!(self.failing(Point::Cutting, text).is_none(), "told to panic while cutting");
        let starts = text.split_whitespace().map(|word| (word.as_ptr().addr(), word.len()));
        let begin = text.as_ptr().addr();
        starts.map(|(at, len)| Span::new(at - begin, at - begin + len)).collect()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _kind: TextKind,
        _priority: Priority,
        _deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        for text in &texts {
            match self.failing(Point::Embedding, text) {
                None => {}
                Some(Failing::Panics) => panic!("told to panic while embedding"),
                Some(Failing::Away) => {
                    let kind = ErrorKind::Unavailable;
                    return Err(Error::new(kind, "AWAY", "the device is away"));
                }
                Some(Failing::Refuses) => return Err(Error::internal("the device chokes on it")),
                Some(Failing::Hangs) => {
                    self.hanging.fetch_add(1, Ordering::SeqCst);
                    return std::future::pending().await;
                }
            }
        }
        let embed = |text: &String| {
            let mut vector = [0.1; DIMENSION as usize];
            for (i, byte) in text.bytes().enumerate() {
                vector[i % DIMENSION as usize] += f32::from(byte);
            }
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            let vector = vector.iter().map(|x| x / length).collect();
            Embedding { vector, tokens: text.split_whitespace().count() as u32, truncated: false }
        };
        Ok(texts.iter().map(embed).collect())
    }
}

/// The model of a corpus, and the one that it may move to.
struct Two(Arc<FailingEncoder>, Arc<FailingEncoder>);

#[async_trait]
impl Encoders for Two {
    fn current(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.0) as Arc<dyn Encoder>
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        [&self.0, &self.1].map(|encoder| encoder.identity.clone()).into()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        _deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        let found = [&self.0, &self.1].into_iter().find(|it| it.identity == *identity);
        let found = found.ok_or_else(|| identity.missing_among(&self.offered()))?;
        Ok(Arc::clone(found) as Arc<dyn Encoder>)
    }
}

/// A clock that runs many times as fast, so that failed documents are tried again soon, and that
/// panics once on demand.
#[derive(Debug)]
struct FastClock {
    started: Instant,
    asked: AtomicUsize,
    panics_at: AtomicI64,
}

const FASTER: i64 = 10_000;

impl FastClock {
    fn new() -> Arc<Self> {
        let (asked, panics_at) = (AtomicUsize::new(0), AtomicI64::new(-1));
        Arc::new(Self { started: Instant::now(), asked, panics_at })
    }

    /// Makes the `nth` call from now on panic.
    fn panic_at(&self, nth: usize) {
        let nth = self.asked.load(Ordering::SeqCst) + nth;
        self.panics_at.store(nth as i64, Ordering::SeqCst);
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst) as i64;
        assert_ne!(nth, self.panics_at.load(Ordering::SeqCst), "told to panic at the clock");
        Timestamp::from_micros(self.started.elapsed().as_micros() as i64 * FASTER + 1)
    }
}

/// A memory model whose memories are sent in three parts. The second part of the first fails.
#[derive(Default)]
struct LargeMemories {
    store: Mutex<Option<FaultyStore>>,
    formed: AtomicUsize,
}

#[async_trait]
impl MemoryEncoder for LargeMemories {
    async fn memory_model(&self, _: Instant) -> Result<Option<MemoryModelIdentity>, Error> {
        Ok(Some(MemoryModelIdentity {
            model: "large".to_owned(),
            fingerprint: "large".to_owned(),
            window: 4,
            slot_bytes: 1,
            prompts: "clew@1".to_owned(),
            cache_bytes: None,
        }))
    }

    async fn count_tokens(&self, _: Vec<MemoryText>, _: Instant) -> Result<u64, Error> {
        Err(NoMemoryModel::refusal())
    }

    async fn form(&self, task: FormTask, _: Instant) -> Result<FormedMemory, Error> {
        if self.formed.fetch_add(1, Ordering::SeqCst) == 0 {
            let store = self.store.lock().unwrap();
            store.as_ref().unwrap().plan(2, Fault::NotDone);
        }
        let tokens = task.texts.iter().map(|text| text.text.len() as u64).sum();
        let snapshot = vec![7; 40 << 20];
        Ok(FormedMemory { model: "large".to_owned(), snapshot, tokens, slots: tokens / 4 })
    }

    async fn draft(
        &self,
        _: &dyn KeptMemory,
        _: &DraftTask,
        _: Instant,
    ) -> Result<DraftedClues, Error> {
        Err(NoMemoryModel::refusal())
    }
}

struct Bench {
    store: FaultyStore,
    encoder: Arc<FailingEncoder>,
    /// Encoder that hangs over poison.
    another: Arc<FailingEncoder>,
    clock: Arc<FastClock>,
    settings: Arc<CorpusSettings>,
    shard: ShardHandle,
}

impl Bench {
    /// Starts a shard on a copy of `tables`.
    async fn start(tables: &InMemory, at_poison: Option<(Point, Failing)>) -> Self {
        Self::configured(tables, at_poison, RetrieverConfig::default()).await
    }

    async fn configured(
        tables: &InMemory,
        at_poison: Option<(Point, Failing)>,
        config: RetrieverConfig,
    ) -> Self {
        Self::with(tables, at_poison, config, None, Arc::new(Rules)).await
    }

    /// Starts a shard whose memories `memories` forms, in a store that it shares.
    async fn memorising(memories: Arc<LargeMemories>) -> Self {
        let tables = Self::tables().await;
        let store = FaultyStore::new(Arc::new(tables.fork()));
        *memories.store.lock().unwrap() = Some(store.clone());
        let config = RetrieverConfig { memory_interval_ms: 10, ..RetrieverConfig::default() };
        let settings = |settings: CorpusSettings| CorpusSettings {
            memory: Some(MemorySettings { ratio: 4, segment_tokens: 1_000 }),
            ..settings
        };
        Self::over(store, None, config, settings, Arc::new(Rules), memories).await
    }

    /// Starts a shard whose documents `graph_builders` read.
    async fn with(
        tables: &InMemory,
        at_poison: Option<(Point, Failing)>,
        config: RetrieverConfig,
        structure: Option<StructureSettings>,
        graph_builders: Arc<dyn GraphBuilders>,
    ) -> Self {
        let store = FaultyStore::new(Arc::new(tables.fork()));
        let settings = |settings| CorpusSettings { structure, ..settings };
        let none = Arc::new(NoMemoryModel);
        Self::over(store, at_poison, config, settings, graph_builders, none).await
    }

    /// Starts a shard on the tables of a store.
    async fn over(
        store: FaultyStore,
        at_poison: Option<(Point, Failing)>,
        config: RetrieverConfig,
        settings: impl FnOnce(CorpusSettings) -> CorpusSettings,
        graph_builders: Arc<dyn GraphBuilders>,
        memory_encoder: Arc<dyn MemoryEncoder>,
    ) -> Self {
        // Maintenance and checks have their own tests. Here they would count among the storage's
        // operations.
        let config = RetrieverConfig { maintenance_interval_secs: 3600, ..config };
        let (claim, graphs, memory) = (Claim::Directory, graph_builders, memory_encoder);
        let bench = Self::resting(claim, store, at_poison, config, settings, graphs, memory).await;
        // This waits behind the maintainer's own request, after which nothing happens without a
        // document.
        bench.seen().maintain(deadline()).await.unwrap();
        bench
    }

    /// Starts a shard on the tables of a store that rests until somebody needs it.
    async fn resting(
        claim: Claim,
        store: FaultyStore,
        at_poison: Option<(Point, Failing)>,
        config: RetrieverConfig,
        settings: impl FnOnce(CorpusSettings) -> CorpusSettings,
        graph_builders: Arc<dyn GraphBuilders>,
        memory_encoder: Arc<dyn MemoryEncoder>,
    ) -> Self {
        let (encoder, clock) = (FailingEncoder::new("failing", at_poison), FastClock::new());
        let another = FailingEncoder::new("another", Some((Point::Embedding, Failing::Hangs)));
        let name = "notes".parse().unwrap();
        let chunking = Chunking::Sentences { max_tokens: 16 };
        let (identity, made) = (encoder.identity.clone(), Timestamp::from_micros(0));
        let settings = settings(CorpusSettings::plain(name, 1, chunking, identity, made));
        let config = RetrieverConfig { check_interval_secs: 3600, ..config };
        let seams = ShardSeams {
            encoders: Arc::new(Two(Arc::clone(&encoder), Arc::clone(&another))),
            graph_builders,
            memory_encoder,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            snapshots: None,
        };
        let place = Storage::in_store(Arc::new(store.clone()), "shard-0");
        let settings = Arc::new(settings);
        let resources = config.resources();
        let settled = Arc::clone(&settings);
        let line = ShardLine::new(place, ShardIndex(0), settled, seams, config, claim, resources);
        let shard = ShardHandle::resting(line).await.unwrap();
        Self { store, encoder, another, clock, settings, shard }
    }

    /// Returns the tables of a shard without documents.
    async fn tables() -> InMemory {
        let tables = Arc::new(InMemory::new());
        let empty = Self::start(&InMemory::new(), None).await;
        empty.stop().await;
        for object in empty.store.list(None).collect::<Vec<_>>().await {
            let path = object.unwrap().location;
            let bytes = empty.store.get(&path).await.unwrap().bytes().await.unwrap();
            tables.put(&path, bytes.into()).await.unwrap();
        }
        tables.fork()
    }

    async fn stop(&self) {
        self.shard.stop(deadline()).await.unwrap();
    }

    /// Waits until the shard rests, which it does only with nothing left to do.
    async fn rest(&self) {
        let give_up = Instant::now() + PATIENCE;
        while !self.shard.is_resting() {
            assert!(Instant::now() < give_up, "it does not rest");
            self.seen().maintain(deadline()).await.unwrap();
            self.shard.supervised.rest();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn seen(&self) -> ShardAccess {
        self.shard.with_access(Access::all())
    }

    /// Accepts a document, repeatedly if needed.
    async fn accept(&self, name: &str, text: &str) {
        self.accept_with(name, text, Labels::default()).await;
    }

    /// Accepts a document with labels, repeatedly if needed.
    async fn accept_with(&self, name: &str, text: &str, labels: Labels) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let document = Document {
                id: name.parse().unwrap(),
                text: text.to_owned(),
                media_type: MediaType::Plain,
                title: String::new(),
                attributes: Attributes::new(),
                event_time: None,
                labels: labels.clone(),
                source_version: None,
            };
            let accepted =
                async { self.seen().accept(document, IfThere::Replace, deadline()).await?.await };
            match accepted.await {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < give_up, "{}", error.chain()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the counts satisfy `is_so`.
    async fn until(&self, told: &str, is_so: impl Fn(&Counts) -> bool) -> Counts {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let counts = self.seen().counts(deadline()).await;
            match &counts {
                Ok(counts) if is_so(counts) => return *counts,
                _ => assert!(Instant::now() < give_up, "{told}: {counts:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns how often each chunk of each document is found. Asserts that several searches at
    /// once find as much as one.
    async fn found(&self) -> BTreeMap<(String, u32), usize> {
        let query = CandidateQuery {
            encoder: String::new(),
            text: "text".to_owned(),
            vector: Some(vec![1.0; DIMENSION as usize]),
            mode: SearchMode::Dense,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: 100,
            exact: true,
            with_texts: false,
            view: SearchedView::Newest,
        };
        let alone = self.seen().candidates(&query, deadline()).await.unwrap();
        let other = CandidateQuery { limit: 1, ..query.clone() };
        let batch = [&[query][..], &vec![other; BATCH_AT_ONCE][..]].concat();
        let together = self.seen().candidates_of_all(&batch, deadline()).await.unwrap();
        assert_eq!(together.len(), batch.len());
        assert_eq!(together[0].dense.len(), alone.dense.len());
        assert!(together[1..].iter().all(|found| found.dense.len() == alone.dense.len().min(1)));
        let mut found = BTreeMap::new();
        for hit in alone.dense {
            *found.entry((hit.document_id.to_string(), hit.ordinal)).or_default() += 1;
        }
        found
    }

    /// Asserts that every document is found once, and stops the shard.
    async fn assert_once(&self, told: &str) {
        let expected: BTreeMap<_, _> =
            NAMES.iter().map(|name| (((*name).to_owned(), 0), 1)).collect();
        let counts = self.until(told, |counts| counts.documents == 4 && counts.pending == 0).await;
        assert_eq!((counts.accepted, counts.chunks), (4, 4), "{told}: {counts:?}");
        assert_eq!((counts.retrying, counts.set_aside), (0, 0), "{told}: {counts:?}");
        assert_eq!(self.found().await, expected, "{told}");
        self.stop().await;
    }
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

fn text(name: &str) -> String {
    format!("A short text of document {name}.")
}

/// Runs all `cases`, some at a time. A panic in one fails the test.
async fn all<C: Send + 'static, F: Future<Output = ()> + Send + 'static>(
    cases: Vec<C>,
    run: impl Fn(C) -> F,
) {
    let mut running =
        futures::stream::iter(cases).map(|case| tokio::spawn(run(case))).buffer_unordered(8);
    while let Some(ended) = running.next().await {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_document_is_found_when_all_its_parts_are_made_and_never_before() {
    // So that parts are of 640 KiB.
    let config = RetrieverConfig { derive_bytes: 16 << 10, ..RetrieverConfig::default() };
    let poison = Some((Point::Embedding, Failing::Refuses));
    let bench = Bench::configured(&Bench::tables().await, poison, config).await;
    let sentence = |n: usize| format!("The traveller number {n} walks along the river of texts. ");
    let large: String = (0..30_000).map(sentence).collect();
    bench.accept("a", &format!("{large} Its last part is {POISON}.")).await;
    // It is tried again and again.
    let tried = |counts: &Counts| counts.retrying + counts.set_aside > 0;
    bench.until("the last part fails", tried).await;
    let checked = bench.seen().check(&CheckQuery { after: None, limit: 10 }, deadline()).await;
    assert_eq!(checked.unwrap().breaches, []);
    assert_eq!(bench.found().await, BTreeMap::new());
    bench.accept("a", &large).await;
    let counts = bench.until("all parts are made", |counts| counts.documents == 1).await;
    assert!(counts.chunks > 10_000 && counts.pending == 0, "{counts:?}");
    let found = bench.found().await;
    assert!(found.len() == 100 && found.values().all(|times| *times == 1), "{found:?}");
    let checked = bench.seen().check(&CheckQuery { after: None, limit: 10 }, deadline()).await;
    let checked = checked.unwrap();
    assert_eq!((checked.chunks, checked.breaches), (counts.chunks, vec![]));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_storage_anywhere_delays_documents_and_does_no_more() {
    let tables = Arc::new(Bench::tables().await);
    let healthy = Bench::start(&tables, None).await;
    let before = (healthy.store.changes(), healthy.store.reads());
    for name in NAMES {
        healthy.accept(name, &text(name)).await;
    }
    healthy.until("without faults", |counts| counts.documents == 4).await;
    let changes = healthy.store.changes() - before.0;
    let reads = healthy.store.reads() - before.1;
    healthy.assert_once("without faults").await;
    let mut cases = Vec::new();
    for nth in 0..changes {
        // The process does not crash in these tests.
        let faults = Fault::ALL.into_iter();
        let faults = faults.filter(|fault| !matches!(fault, Fault::Crash | Fault::CrashAfter));
        cases.extend(faults.map(|fault| (nth, Some(fault))));
    }
    cases.extend((0..reads).map(|nth| (nth, None)));
    assert!(cases.len() > 30, "{} cases", cases.len());
    all(cases, |(nth, fault)| {
        let tables = Arc::clone(&tables);
        async move {
            let bench = Bench::start(&tables, None).await;
            match fault {
                Some(fault) => bench.store.plan(nth, fault),
                None => bench.store.plan_read(nth),
            }
            for name in NAMES {
                bench.accept(name, &text(name)).await;
            }
            bench.assert_once(&format!("{fault:?} at {nth}")).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_encoder_or_the_clock_delays_documents_and_does_no_more() {
    let tables = Arc::new(Bench::tables().await);
    let mut cases: Vec<_> = [
        (Point::Cutting, Failing::Panics),
        (Point::Embedding, Failing::Panics),
        (Point::Embedding, Failing::Away),
        (Point::Embedding, Failing::Refuses),
    ]
    .map(|(point, failing)| (Some((point, failing)), 0))
    .into();
    // The clock decides what is due and when to look again.
    cases.extend((0..6).map(|nth| (None, nth)));
    all(cases, |(at_encoder, at_clock)| {
        let tables = Arc::clone(&tables);
        async move {
            let bench = Bench::start(&tables, None).await;
            match at_encoder {
                Some((point, failing)) => bench.encoder.fail_once(point, failing),
                None => bench.clock.panic_at(at_clock),
            }
            for name in NAMES {
                bench.accept(name, &text(name)).await;
            }
            bench.assert_once(&format!("{at_encoder:?}, clock at {at_clock}")).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_rests_once_nothing_is_left_to_do_and_opens_for_whoever_needs_it() {
    let bench = Bench::start(&Bench::tables().await, None).await;
    bench.accept("a", &text("a")).await;
    bench.rest().await;
    let done = (bench.store.reads(), bench.store.changes());
    let counts = bench.seen().counts(deadline()).await.unwrap();
    assert_eq!((counts.documents, counts.pending), (1, 0), "it rested with work left");
    assert!(bench.shard.is_resting(), "counting needs no tables");
    assert_eq!((bench.store.reads(), bench.store.changes()), done, "nor anything else of them");
    // Several at once, of which one opens it.
    let found = futures::future::join_all((0..8).map(|_| bench.found())).await;
    assert!(found.iter().all(|found| found.len() == 1));
    for name in ["b", "c", "d"] {
        bench.rest().await;
        bench.accept(name, &text(name)).await;
    }
    bench.assert_once("after resting").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_rested_is_opened_without_a_write() {
    let (claim, tables) = (Claim::of_taker("test".to_owned()), Bench::tables().await);
    let config = RetrieverConfig { maintenance_interval_secs: 3600, ..RetrieverConfig::default() };
    let (rules, none) = (Arc::new(Rules), Arc::new(NoMemoryModel));
    let store = FaultyStore::new(Arc::new(tables));
    let bench = Bench::resting(claim, store, None, config, |settings| settings, rules, none).await;
    bench.accept("a", &text("a")).await;
    bench.rest().await;
    let changes = bench.store.changes();
    assert_eq!(bench.found().await.len(), 1);
    bench.rest().await;
    assert_eq!(bench.store.changes(), changes);
    for name in ["b", "c", "d"] {
        bench.accept(name, &text(name)).await;
    }
    bench.assert_once("after it came back").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_in_which_a_document_waits_is_not_idle() {
    let bench =
        Bench::start(&Bench::tables().await, Some((Point::Embedding, Failing::Hangs))).await;
    bench.accept("bad", POISON).await;
    let give_up = Instant::now() + PATIENCE;
    while bench.encoder.hanging.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < give_up);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let running = bench.shard.running(deadline()).await.unwrap();
    assert!(!running.idleness.is_idle_at(running.reader.revision()), "a document waits");
    assert_eq!(bench.shard.supervised.unneeded_for(), None, "somebody uses it");
    drop(running);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keeper_opens_a_shard_in_which_something_is_left_to_do_and_lets_it_rest_again() {
    let before =
        Bench::start(&Bench::tables().await, Some((Point::Embedding, Failing::Hangs))).await;
    before.accept("a", POISON).await;
    before.stop().await;
    // As after a restart, with an encoder that works.
    let config = RetrieverConfig { maintenance_interval_secs: 1, ..RetrieverConfig::default() };
    let settings = CorpusSettings::clone(&before.settings);
    let none = Arc::new(NoMemoryModel);
    let rules = Arc::new(Rules);
    let (claim, store) = (Claim::Directory, before.store.clone());
    let after = Bench::resting(claim, store, None, config.clone(), |_| settings, rules, none).await;
    let mut keeper = Keeper::new(&config);
    let give_up = Instant::now() + PATIENCE;
    let found = || after.shard.resting.totals().map(|totals| totals.counts(&Access::all()));
    while !(after.shard.is_resting() && found().is_some()) {
        assert!(Instant::now() < give_up, "{:?}", found());
        keeper.tend([&after.shard].into_iter(), after.clock.as_ref());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counts = found().unwrap_or_default();
    assert_eq!((counts.accepted, counts.documents), (1, 1), "nobody asked for it");
    let reads = after.store.reads();
    keeper.tend([&after.shard].into_iter(), after.clock.as_ref());
    assert!(after.shard.is_resting());
    assert_eq!(after.store.reads(), reads, "it was looked into already");
    // Changed settings may make something due.
    let encoder = CorpusSettings {
        chunking: Chunking::Sentences { max_tokens: 15 },
        ..(*after.settings).clone()
    };
    after.shard.settle(Arc::new(encoder));
    keeper.tend([&after.shard].into_iter(), after.clock.as_ref());
    while after.shard.is_resting() {
        assert!(Instant::now() < give_up, "nobody looked into it again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    after.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_always_fails_is_set_aside_with_its_error_and_others_go_on() {
    let tables = Arc::new(Bench::tables().await);
    let cases = vec![
        (Point::Cutting, Failing::Panics, clew_core::Stage::Chunking),
        (Point::Embedding, Failing::Refuses, clew_core::Stage::Embedding),
    ];
    all(cases, |(point, failing, stage)| {
        let tables = Arc::clone(&tables);
        async move {
            let told = format!("{point:?} {failing:?}");
            let bench = Bench::start(&tables, Some((point, failing))).await;
            bench.accept("bad", POISON).await;
            let mut others = 0;
            let give_up = Instant::now() + PATIENCE;
            // Each new document makes the indexer look at the old one, too.
            loop {
                bench.accept(&format!("good-{others}"), &text("good")).await;
                others += 1;
                let all = |counts: &Counts| counts.documents == others;
                let counts = bench.until(&told, all).await;
                if counts.set_aside == 1 {
                    break;
                }
                assert!(Instant::now() < give_up, "{told}: {counts:?}");
            }
            let (_, status) = bench
                .seen()
                .document(&"bad".parse().unwrap(), deadline())
                .await
                .unwrap()
                .expect("it is there");
            let failure = status.failure.expect("a failure");
            assert_eq!((failure.stage, failure.next_try), (stage, None), "{told}");
            assert_eq!(failure.attempts, clew_index::Tuning::default().attempts, "{told}");
            assert!(bench.found().await.keys().all(|(name, _)| name != "bad"), "{told}");
            // A new version is tried again.
            bench.accept("bad", "It is well now.").await;
            bench.until(&told, |counts| counts.documents == others + 1).await;
            bench.stop().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_are_made_again_hold_up_no_new_document() {
    let config = RetrieverConfig { derive_batches: 1, ..RetrieverConfig::default() };
    let bench = Bench::configured(&InMemory::new(), None, config).await;
    bench.accept("old", POISON).await;
    bench.until("before the move", |counts| counts.documents == 1).await;
    let start = ReembedStep::Start(bench.another.identity.clone());
    bench.shard.settle(Arc::new(bench.settings.after(&start).unwrap()));
    let give_up = Instant::now() + PATIENCE;
    while bench.another.hanging.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < give_up, "the old document is not made again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for name in NAMES {
        bench.accept(name, &text(name)).await;
    }
    bench.until("in the move", |counts| counts.documents == 5 && counts.pending == 0).await;
    assert_eq!(bench.found().await.len(), 5);
    assert_eq!(bench.another.hanging.load(Ordering::SeqCst), 1);
    bench.stop().await;
}

/// Graph builder that says how many parts a summary has, finds nothing in segments, and records its
/// inputs.
#[derive(Clone, Default)]
struct Listening {
    /// Segments with their backgrounds.
    told: Arc<Mutex<Vec<(String, String)>>>,
    /// Number of parts of each summary.
    parts: Arc<Mutex<Vec<usize>>>,
    /// What each summary says besides.
    says: &'static str,
}

impl GraphBuilders for Listening {
    fn on(&self, _account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(self.clone())
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl GraphBuilder for Listening {
    async fn summarise(&self, tasks: Vec<SummaryTask>, _: Instant) -> Result<Vec<Summary>, Error> {
        let summary = |task: &SummaryTask| {
            let parts = task.parts.len();
            self.parts.lock().unwrap().push(parts);
            let text = format!("It has {parts} parts.{}", self.says);
            Summary { text, ..Summary::default() }
        };
        Ok(tasks.iter().map(summary).collect())
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        _: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let told = tasks.iter().map(|task| (task.text.clone(), task.background.clone()));
        self.told.lock().unwrap().extend(told);
        Ok(vec![Extraction::default(); tasks.len()])
    }
}

/// Returns a text of `count` sentences, each a segment.
fn sentences(count: usize) -> String {
    (0..count).map(|n| format!("Sentence number {n} says a little more. ")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_read_in_view_of_what_their_document_is_about() {
    let structure = StructureSettings { segment_tokens: 7, max_children: 8, summary_bytes: 200 };
    let listening = Listening::default();
    let (config, builders) = (RetrieverConfig::default(), Arc::new(listening.clone()));
    let bench =
        Bench::with(&InMemory::new(), None, config, Some(structure), builders.clone()).await;
    let told = || std::mem::take(&mut *listening.told.lock().unwrap());
    let parts = || std::mem::take(&mut *listening.parts.lock().unwrap());
    // With three segments the sketch is the root, which is made once.
    bench.accept("short", &sentences(3)).await;
    bench.until("a short one", |counts| counts.structured == 1).await;
    let backgrounds: Vec<String> = told().into_iter().map(|(_, background)| background).collect();
    assert_eq!(backgrounds, ["\nIt has 3 parts."; 3]);
    assert_eq!(parts(), [3]);
    // With many segments the sketch is made from some of them.
    bench.accept("long", &sentences(40)).await;
    bench.until("a long one", |counts| counts.structured == 2).await;
    let backgrounds: Vec<String> = told().into_iter().map(|(_, background)| background).collect();
    assert_eq!(backgrounds, vec!["\nIt has 16 parts."; 40]);
    assert_eq!(parts()[..7], [16, 8, 8, 8, 8, 8, 5]);
    // Only the new segment of a document that grew is read, with the previous root as background.
    bench.accept("long", &sentences(41)).await;
    let give_up = Instant::now() + PATIENCE;
    let read = loop {
        let read = told();
        if !read.is_empty() {
            break read;
        }
        assert!(Instant::now() < give_up, "the new segment is not read");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let last = ("Sentence number 40 says a little more.", "\nIt has 5 parts.");
    let read: Vec<(&str, &str)> =
        read.iter().map(|(text, background)| (text.trim(), background.as_str())).collect();
    assert_eq!(read, [last]);
    bench.stop().await;
}

/// Graph builder that reads by rules, at once.
struct Rules;

impl GraphBuilders for Rules {
    fn on(&self, _account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(Self)
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(Self)
    }
}

#[async_trait]
impl GraphBuilder for Rules {
    async fn summarise(&self, tasks: Vec<SummaryTask>, _: Instant) -> Result<Vec<Summary>, Error> {
        Ok(tasks.iter().map(clew_text::summarise).collect())
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        _: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        Ok(tasks.iter().map(clew_graph::extract).collect())
    }
}

/// Graph builder that reads by rules, once it may.
#[derive(Clone)]
struct Held(Arc<Semaphore>);

impl GraphBuilders for Held {
    fn on(&self, _account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(self.clone())
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(Rules)
    }
}

#[async_trait]
impl GraphBuilder for Held {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        Rules.summarise(tasks, deadline).await
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let _may = self.0.acquire().await;
        Rules.extract(tasks, deadline).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_says_that_it_is_being_built_to_those_who_see_the_documents_that_it_lacks() {
    let held = Held(Arc::new(Semaphore::new(0)));
    let structure = Some(StructureSettings::default());
    let config = RetrieverConfig::default();
    let bench =
        Bench::with(&InMemory::new(), None, config, structure, Arc::new(held.clone())).await;
    let about = |name: &str| GraphQuery {
        texts: vec![name.to_owned()],
        most_entities: 9,
        most_relations: 9,
        ..GraphQuery::default()
    };
    let ask = async |name: &str, access: Access| {
        let seen = bench.shard.with_access(access);
        seen.subgraph(&about(name), deadline()).await.unwrap()
    };
    assert!(!ask("Daedalus", Access::all()).await.is_being_built);

    let labels = Labels::parse(["secret"]).unwrap();
    bench.accept_with("crete", "Daedalus built the Labyrinth for Minos.", labels).await;
    bench.until("the document", |counts| counts.documents == 1).await;
    let lacking = ask("Daedalus", Access::all()).await;
    assert!(lacking.is_being_built && lacking.entities.is_empty(), "{lacking:?}");
    let others = ask("Daedalus", Access::holding([])).await;
    assert!(!others.is_being_built, "{others:?}");

    held.0.add_permits(1);
    bench.until("the graph", |counts| counts.structured == 1).await;
    let whole = ask("Daedalus", Access::all()).await;
    assert!(!whole.is_being_built && !whole.entities.is_empty(), "{whole:?}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_are_stored_with_vectors_and_found_by_them_after_a_restart() {
    let structure = Some(StructureSettings::default());
    let with = async |tables: &InMemory| {
        Bench::with(tables, None, RetrieverConfig::default(), structure, Arc::new(Rules)).await
    };
    let bench = with(&InMemory::new()).await;
    bench.accept("crete", "Daedalus built the Labyrinth for Minos.").await;
    bench.until("the graph", |counts| counts.structured == 1).await;
    let tables = Arc::new(InMemory::new());
    bench.stop().await;
    for object in bench.store.list(None).collect::<Vec<_>>().await {
        let path = object.unwrap().location;
        let bytes = bench.store.get(&path).await.unwrap().bytes().await.unwrap();
        tables.put(&path, bytes.into()).await.unwrap();
    }
    let bench = with(&tables).await;
    let of = |encoder: &FailingEncoder, most_entities| {
        let like = Some(Like::vector(&encoder.identity, &[1.0; DIMENSION as usize]));
        GraphQuery { like, describe: true, most_entities, ..GraphQuery::default() }
    };
    let ask = async |query: GraphQuery| bench.seen().subgraph(&query, deadline()).await.unwrap();
    let found = ask(of(&bench.encoder, 1)).await;
    assert!(found.is_compared && found.entities.len() == 1, "{found:?}");
    let all = ask(of(&bench.encoder, 9)).await;
    let names: Vec<&str> = all.entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names, ["Daedalus", "Labyrinth", "Minos"]);
    assert!(all.entities[0].description.starts_with("daedalus built"), "{all:?}");
    // The vector of another model is compared with none of them.
    let none = ask(of(&bench.another, 9)).await;
    assert!(!none.is_compared && none.entities.is_empty(), "{none:?}");
    bench.stop().await;
}

/// Returns all nodes of the tree, with the vectors of a model.
async fn tree(bench: &Bench, encoder: &EncoderIdentity) -> Vec<TreeNode> {
    let encoder = Some(encoder.fingerprint());
    let ask = async |nodes: WantedNodes| {
        let query = TreeQuery { nodes, encoder: encoder.clone() };
        bench.seen().tree(&query, deadline()).await.unwrap()
    };
    let mut found = Vec::new();
    let mut todo = ask(WantedNodes::Tops { first: Vec::new(), limit: 100 }).await;
    while let Some(node) = todo.pop() {
        todo.extend(ask(WantedNodes::Children(node.id.clone())).await);
        found.push(node);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trees_are_stored_with_the_vectors_of_their_summaries() {
    let structure = StructureSettings { segment_tokens: 7, max_children: 8, summary_bytes: 200 };
    let (config, builders) = (RetrieverConfig::default(), Arc::new(Rules));
    let bench = Bench::with(&InMemory::new(), None, config, Some(structure), builders).await;
    for name in NAMES {
        bench.accept(name, &sentences(10)).await;
    }
    bench.until("the trees", |counts| counts.structured == 4).await;
    let all = ("a".parse().unwrap(), "d".parse().unwrap());
    let give_up = Instant::now() + PATIENCE;
    let nodes = loop {
        let nodes = tree(&bench, &bench.encoder.identity).await;
        // Four trees of ten segments with three nodes above them, and a node above all.
        let is_top = |node: &TreeNode| node.documents == all;
        if nodes.len() > 4 * 13 && nodes.iter().any(is_top) {
            break nodes;
        }
        assert!(Instant::now() < give_up, "{nodes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let summaries = nodes.iter().map(|node| node.summary.clone()).collect();
    let embedding =
        bench.encoder.embed(summaries, TextKind::Passage, Priority::Bulk, deadline()).await;
    let vectors = embedding.unwrap().into_iter().map(|made| Some(made.vector));
    assert!(nodes.iter().map(|node| node.vector.clone()).eq(vectors), "{nodes:?}");
    let others = tree(&bench, &bench.another.identity).await;
    assert!(others.len() == nodes.len() && others.iter().all(|node| node.vector.is_none()));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_whose_summaries_cannot_be_embedded_is_stored_without_vectors() {
    let structure = StructureSettings { segment_tokens: 7, max_children: 8, summary_bytes: 200 };
    let poison = Some((Point::Embedding, Failing::Refuses));
    let builders = Listening { says: POISON, ..Listening::default() };
    let (config, builders) = (RetrieverConfig::default(), Arc::new(builders));
    let bench = Bench::with(&InMemory::new(), poison, config, Some(structure), builders).await;
    bench.accept("a", &sentences(3)).await;
    let counts = bench.until("the tree", |counts| counts.structured == 1).await;
    assert_eq!((counts.retrying, counts.set_aside), (0, 0), "{counts:?}");
    let nodes = tree(&bench, &bench.encoder.identity).await;
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| node.vector.is_none()), "{nodes:?}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_that_is_not_stored_is_shown_and_stored_later_without_being_formed_again() {
    let memories = Arc::new(LargeMemories::default());
    let bench = Bench::memorising(Arc::clone(&memories)).await;
    bench.accept("a", &text("a")).await;
    let give_up = Instant::now() + PATIENCE;
    let mut failures = Vec::new();
    let listed = loop {
        let listed = bench.seen().memories(deadline()).await.unwrap();
        failures.extend(listed.failures.clone());
        if !listed.records.is_empty() && listed.failures.is_empty() {
            break listed;
        }
        assert!(Instant::now() < give_up, "{listed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((listed.records.len(), listed.records[0].bytes), (1, 40 << 20));
    assert_eq!(memories.formed.load(Ordering::SeqCst), 1);
    let first = &failures[0];
    assert_eq!((first.attempts, first.kind), (1, ErrorKind::Unavailable));
    assert_eq!(first.message, "could not write a memory");
    assert_eq!(first.documents, ["a".parse().unwrap()]);
    assert!(first.next_try.is_some());
    assert!(failures.iter().all(|failure| failure.attempts == 1), "{failures:?}");
    assert_eq!(bench.store.unfinished_uploads(), 0);
    bench.stop().await;
}
