//! Metrics and health of the shards of this process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, OnceLock, PoisonError};

use clew_cluster::Standing;
use clew_core::{
    Access, Clock, CorpusSettings, Counts, Error, ErrorKind, Invariant, PartStage, RunCounts,
    ShardIndex,
};
use clew_index::{
    IndexRecall, SearchMemory, ShardReader, ShardStatistics, StorageRequest, TableStatistics,
};
use clew_runtime::supervise::LineState;
use clew_telemetry::metrics::{
    Counter, KeyValue, Tell, corpus_label, counter, gauge, label, observed_counter,
};
use clew_telemetry::{Queue, Severity, Trouble, WeakRegistry};

use crate::shard::claim::Claim;
use crate::shard::idleness::Resting;
use crate::shard::trace_contexts::TraceContexts;

static SHARDS: WeakRegistry<ShardGauges> = WeakRegistry::new();
static CORPORA: WeakRegistry<CorporaGauges> = WeakRegistry::new();
static MEMORY: WeakRegistry<SearchMemory> = WeakRegistry::new();

/// Numbers of corpora of a data directory, for metrics.
#[derive(Debug, Default)]
pub(crate) struct CorporaGauges {
    usable: AtomicUsize,
    damaged: AtomicUsize,
    newer: AtomicUsize,
    unread: AtomicUsize,
}

impl CorporaGauges {
    /// Creates numbers that metrics report for as long as somebody holds them.
    pub fn new() -> Arc<Self> {
        let seen = Arc::new(Self::default());
        CORPORA.add(&seen);
        observe();
        seen
    }

    /// Records the number of usable corpora, and why others are not.
    pub fn note<'a>(&self, usable: usize, unusable: impl IntoIterator<Item = &'a Error>) {
        let [mut damaged, mut newer, mut unread] = [0; 3];
        for error in unusable {
            *match error.kind() {
                ErrorKind::DataLoss => &mut damaged,
                ErrorKind::WrongState => &mut newer,
                _ => &mut unread,
            } += 1;
        }
        for (count, value) in self.counts().into_iter().zip([usable, damaged, newer, unread]) {
            count.1.store(value, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> [(&'static str, &AtomicUsize); 4] {
        let Self { usable, damaged, newer, unread } = self;
        [("usable", usable), ("damaged", damaged), ("newer", newer), ("unread", unread)]
    }

    /// Returns the problem of the corpora that cannot be used, with their number for each reason.
    /// It is one, because a report keeps one problem of each part.
    fn trouble(&self) -> Option<Trouble> {
        let unusable = self.counts().into_iter().filter(|(state, _)| *state != "usable");
        let unusable = unusable.map(|(state, count)| (count.load(Ordering::Relaxed), state));
        let unusable: Vec<_> = unusable.filter(|(count, _)| *count > 0).collect();
        let reasons: Vec<String> =
            unusable.iter().map(|(count, state)| format!("{count} {state}")).collect();
        let all: usize = unusable.iter().map(|(count, _)| count).sum();
        (all > 0).then(|| Trouble {
            part: "corpora".to_owned(),
            problem: format!("{all} cannot be used: {}", reasons.join(", ")),
            severity: Severity::Degraded,
        })
    }
}

/// State of a shard, for metrics and health.
pub(crate) struct ShardGauges {
    corpus: KeyValue,
    shard: ShardIndex,
    claim: Claim,
    clock: Arc<dyn Clock>,
    state: OnceLock<Box<dyn Fn() -> LineState<ShardReader> + Send + Sync>>,
    resting: Resting,
    /// Whether the last commit failed.
    is_refused: AtomicBool,
    /// Statistics of the tables at the last maintenance.
    tables: Mutex<Option<ShardStatistics>>,
    /// Bytes of documents on their way to the writer.
    writing: Arc<AtomicUsize>,
    /// Metrics of those documents as a queue.
    queue: Arc<Queue>,
    /// Trace contexts of the newest documents.
    pub origins: TraceContexts,
}

impl ShardGauges {
    /// Creates the state of a shard, which metrics report for as long as somebody holds it.
    pub fn new(
        settings: &CorpusSettings,
        shard: ShardIndex,
        claim: Claim,
        clock: Arc<dyn Clock>,
        resting: Resting,
        capacity: usize,
    ) -> Arc<Self> {
        let writing = Arc::new(AtomicUsize::new(0));
        let depth = Arc::clone(&writing);
        let look = move || (depth.load(Ordering::Relaxed), capacity);
        let seen = Arc::new(Self {
            corpus: corpus_label(settings.name.as_str(), settings.created_at.as_micros() / 1000),
            shard,
            claim,
            clock,
            state: OnceLock::new(),
            resting,
            is_refused: AtomicBool::new(false),
            tables: Mutex::default(),
            writing,
            queue: Queue::new("writer", "bytes", look),
            origins: TraceContexts::default(),
        });
        SHARDS.add(&seen);
        observe();
        seen
    }

    /// Follows the state of the shard's line, which `look` reads.
    pub fn follow(&self, look: impl Fn() -> LineState<ShardReader> + Send + Sync + 'static) {
        // A shard has one line, so this is set once.
        drop(self.state.set(Box::new(look)));
    }

    /// Records the statistics of the tables.
    pub fn note_tables(&self, tables: ShardStatistics) {
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = Some(tables);
    }

    /// Records whether the storage took the last commit.
    pub fn stored(&self, is_stored: bool) {
        self.is_refused.store(!is_stored, Ordering::Relaxed);
    }

    /// Counts bytes that wait for the writer, until the returned guard is dropped.
    pub fn writes(self: &Arc<Self>, bytes: usize) -> Writing {
        self.writing.fetch_add(bytes, Ordering::Relaxed);
        Writing { seen: Arc::clone(self), bytes, since: std::time::Instant::now() }
    }

    fn tables(&self) -> Option<ShardStatistics> {
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> LineState<ShardReader> {
        self.state.get().map_or(LineState::Starting, |look| look())
    }

    fn reader(&self) -> Option<ShardReader> {
        match self.line() {
            LineState::Running(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the totals of the documents, also of a shard that rests.
    fn counts(&self) -> Option<Counts> {
        match self.line() {
            LineState::Running(reader) => Some(reader.counts()),
            LineState::Resting => Some(self.resting.totals()?.counts(&Access::all())),
            LineState::Starting | LineState::Failed(_) | LineState::Stopped => None,
        }
    }

    fn state(&self) -> &'static str {
        self.line().word()
    }

    fn standing(&self) -> &'static str {
        match self.claim.standing() {
            Standing::Held => "held",
            Standing::Unconfirmed => "unconfirmed",
            Standing::Lost => "lost",
        }
    }

    fn labels(&self, name: &'static str, value: &'static str) -> [KeyValue; 3] {
        let shard = label("shard", i64::from(self.shard.0));
        [self.corpus.clone(), shard, label(name, value)]
    }
}

/// A document on its way to its commit.
#[derive(Debug)]
pub(crate) struct Writing {
    seen: Arc<ShardGauges>,
    bytes: usize,
    since: std::time::Instant,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.seen.writing.fetch_sub(self.bytes, Ordering::Relaxed);
        self.seen.queue.waited(self.since.elapsed());
    }
}

impl std::fmt::Debug for ShardGauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Returns the problems of the shards of this process.
pub fn troubles() -> Vec<Trouble> {
    let shards = SHARDS.all();
    let failed = shards.iter().filter_map(|seen| {
        let LineState::Failed(error) = seen.line() else { return None };
        let part = format!("shard {} of corpus {}", seen.shard, seen.corpus.value);
        // The storage's message may name files. The reason is one of a fixed list.
        let problem = format!("it does not start: {}", error.reason());
        Some(Trouble { part, problem, severity: Severity::Degraded })
    });
    let mut troubles: Vec<Trouble> = failed.collect();
    troubles.extend(CORPORA.all().iter().filter_map(|seen| seen.trouble()));
    let refused = shards.iter().filter(|seen| seen.is_refused.load(Ordering::Relaxed)).count();
    if refused > 0 {
        let problem = format!("it did not take the last commit of {refused} shards");
        let part = "storage".to_owned();
        troubles.push(Trouble { part, problem, severity: Severity::Degraded });
    }
    troubles
}

struct Instruments {
    checked: Counter<u64>,
    breaches: Counter<u64>,
    run_parts: Counter<u64>,
    run_documents: Counter<u64>,
}

static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| {
    let description = "Breaches of promises that checks found, by promise.";
    let breaches = counter("clew_invariant_breaches", description);
    for invariant in Invariant::ALL {
        // Create the series at zero: an alert cannot fire on a series that does not exist.
        breaches.add(0, &[label("invariant", invariant.as_str())]);
    }
    let checked =
        counter("clew_invariant_checks", "Documents that were held against the promises.");
    let run_parts =
        counter("clew_run_parts", "Parts of runs of ingestion that entered a stage, by stage.");
    let description = "Documents that parts of runs of ingestion reported, by what became of them.";
    let run_documents = counter("clew_run_documents", description);
    Instruments { checked, breaches, run_parts, run_documents }
});

/// Reports memory of searches for as long as somebody holds it.
pub(crate) fn observe_memory(memory: &Arc<SearchMemory>) {
    MEMORY.add(memory);
    observe();
}

/// Counts documents that were checked against the promises.
pub(crate) fn checked(documents: u64) {
    INSTRUMENTS.checked.add(documents, &[]);
}

/// Counts a breach of a promise.
pub(crate) fn breached(invariant: Invariant) {
    INSTRUMENTS.breaches.add(1, &[label("invariant", invariant.as_str())]);
}

/// Counts what a report on a part of a run changed: the stage that the part entered, and the
/// documents that it added.
pub(crate) fn run_reported(entered: Option<PartStage>, added: RunCounts) {
    let Instruments { run_parts, run_documents, .. } = &*INSTRUMENTS;
    if let Some(stage) = entered {
        let stage = match stage {
            PartStage::Listing => "listing",
            PartStage::Sending => "sending",
            PartStage::Accepted => "accepted",
            PartStage::Failed => "failed",
        };
        run_parts.add(1, &[label("stage", stage)]);
    }
    let RunCounts { accepted, unchanged, refused, unreadable, forgotten, .. } = added;
    for (outcome, documents) in [
        ("accepted", accepted),
        ("unchanged", unchanged),
        ("refused", refused),
        ("unreadable", unreadable),
        ("forgotten", forgotten),
    ] {
        run_documents.add(documents, &[label("outcome", outcome)]);
    }
}

fn observe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        LazyLock::force(&INSTRUMENTS);
        let description = "Corpora of the storage, by whether they can be used; unread ones could not be read for now.";
        gauge("clew_corpora", "", description, |tell| {
            for seen in CORPORA.all() {
                for (state, count) in seen.counts() {
                    tell(count.load(Ordering::Relaxed) as f64, &[label("state", state)]);
                }
            }
        });
        let description = "Requests to the bucket of the storage, repetitions included, by kind.";
        observed_counter("clew_storage_requests", "", description, |tell| {
            for kind in StorageRequest::ALL {
                tell(kind.sent() as f64, &[label("kind", kind.as_str())]);
            }
        });
        gauge("clew_shards", "", "Shards that this process has, by state.", |tell| {
            tally(tell, "state", &["starting", "running", "failed", "resting"], ShardGauges::state);
        });
        gauge("clew_leases", "", "Shards that this process has, by its right to them.", |tell| {
            tally(tell, "standing", &["held", "unconfirmed", "lost"], ShardGauges::standing);
        });
        let description = "Documents of a shard, by state; set_aside ones failed for good.";
        gauge("clew_documents", "", description, |tell| {
            for seen in SHARDS.all() {
                let Some(counts) = seen.counts() else { continue };
                for (state, count) in [
                    ("found", counts.documents),
                    ("pending", counts.pending),
                    ("retrying", counts.retrying),
                    ("set_aside", counts.set_aside),
                ] {
                    tell(count as f64, &seen.labels("state", state));
                }
            }
        });
        let description = "Documents of a shard of which something is still to be derived.";
        gauge("clew_index_due", "", description, |tell| {
            for seen in SHARDS.all() {
                let Some(lag) = seen.reader().map(|reader| reader.lag()) else { continue };
                tell(lag.waiting as f64, &seen.labels("kind", "chunks"));
                tell(lag.outdated as f64, &seen.labels("kind", "outdated"));
                tell(lag.without_structure as f64, &seen.labels("kind", "structure"));
            }
        });
        let description = "Age of the oldest accepted document that cannot be found yet.";
        gauge("clew_index_lag", "s", description, |tell| {
            for seen in SHARDS.all() {
                let Some(lag) = seen.reader().map(|reader| reader.lag()) else { continue };
                let now = seen.clock.now();
                let age = lag.oldest_accepted.map(|accepted| now.saturating_since(accepted));
                let [corpus, shard, _] = seen.labels("kind", "chunks");
                tell(age.unwrap_or_default().as_secs_f64(), &[corpus, shard]);
            }
        });
        let description = "Time for which forgotten text has waited to be erased from storage.";
        gauge("clew_erasure_lag", "s", description, |tell| {
            for seen in SHARDS.all() {
                let Some(reader) = seen.reader() else { continue };
                let [corpus, shard, _] = seen.labels("kind", "text");
                let waits = reader.erasure_waits_for().unwrap_or_default();
                tell(waits.as_secs_f64(), &[corpus, shard]);
            }
        });
        let description = "Share of the nearest chunks that searches with the vector index find, as measured last.";
        gauge("clew_index_recall", "", description, |tell| {
            of_index(tell, |recall| recall.share.into());
        });
        let description = "Partitions of the vector index that searches read at first.";
        gauge("clew_index_probes", "", description, |tell| {
            of_index(tell, |recall| recall.probes as f64);
        });
        let description = "Memory that searches keep for the shards of this process.";
        gauge("clew_search_memory", "By", description, |tell| {
            let sum = |taken: fn(&SearchMemory) -> u64| {
                MEMORY.all().iter().map(|memory| taken(memory)).sum::<u64>() as f64
            };
            tell(sum(|memory| memory.vectors.taken()), &[label("part", "vectors")]);
            tell(sum(|memory| memory.indexes.taken()), &[label("part", "indexes")]);
            tell(sum(|memory| memory.texts.taken()), &[label("part", "texts")]);
        });
        tables("clew_table_rows", "", "Rows of a table.", |table| table.rows);
        tables(
            "clew_table_deleted_rows",
            "",
            "Rows that are deleted and not yet compacted away.",
            |table| table.deleted_rows,
        );
        tables(
            "clew_table_unindexed_rows",
            "",
            "Rows that the most outdated index misses.",
            |table| table.unindexed_rows,
        );
        tables("clew_table_fragments", "", "Fragments of a table.", |table| table.fragments);
        tables("clew_table_versions", "", "Versions of a table on disk.", |table| table.versions);
        tables("clew_table_size", "By", "Bytes of a table's current version.", |table| table.bytes);
    });
}

/// Reports the number of shards for each of `words`.
fn tally(
    tell: Tell<'_>,
    name: &'static str,
    words: &[&'static str],
    word: impl Fn(&ShardGauges) -> &'static str,
) {
    let shards = SHARDS.all();
    for of in words {
        let count = shards.iter().filter(|seen| word(seen) == *of).count();
        tell(count as f64, &[label(name, *of)]);
    }
}

/// Reports a value of each vector index whose recall was measured.
fn of_index(tell: Tell<'_>, value: impl Fn(IndexRecall) -> f64) {
    for seen in SHARDS.all() {
        if let Some(recall) = seen.reader().and_then(|reader| reader.recall()) {
            let [corpus, shard, _] = seen.labels("kind", "chunks");
            tell(value(recall), &[corpus, shard]);
        }
    }
}

/// Registers a gauge of each table of each shard, from the last maintenance.
fn tables(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    value: impl Fn(&TableStatistics) -> u64 + Send + Sync + 'static,
) {
    gauge(name, unit, description, move |tell| {
        for seen in SHARDS.all() {
            for (kind, table) in seen.tables().iter().flat_map(ShardStatistics::tables) {
                tell(value(table) as f64, &seen.labels("table", kind.name()));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpora_that_cannot_be_used_are_counted_by_reason() {
        let seen = CorporaGauges::default();
        let damaged = Error::new(ErrorKind::DataLoss, "DATA_LOSS", "torn");
        let newer = Error::new(ErrorKind::WrongState, "NEWER_FORMAT", "newer");
        seen.note(5, []);
        assert_eq!(seen.trouble(), None);
        seen.note(2, [&newer, &damaged, &newer]);
        let trouble = seen.trouble().unwrap();
        assert_eq!((trouble.part.as_str(), trouble.severity), ("corpora", Severity::Degraded));
        assert_eq!(trouble.problem, "3 cannot be used: 1 damaged, 2 newer");
        seen.note(4, [&newer]);
        assert_eq!(seen.trouble().unwrap().problem, "1 cannot be used: 1 newer");
    }
}
