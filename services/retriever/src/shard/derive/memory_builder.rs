//! Compressed memories: forms them from searchable documents, and drafts clues from them.
//!
//! Documents are read into a memory one after another until it covers as much as the corpus'
//! settings allow; then the next memory begins. New documents continue the last memory, so only
//! they are read. A memory is removed if a document that it covers is replaced or forgotten, and
//! the other documents that it covered are read again. A memory is committed every [`BATCH_BYTES`]
//! of text, so a crash costs at most that.
//!
//! A memory that was formed and cannot be stored is kept and stored again later. The pauses after
//! failures grow, and documents whose memory fails too often are set aside ([`Attempts`]).

mod attempts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{
    Clock, ClueQuery, DocumentId, DocumentState, DocumentStatus, DraftedClues, Error, Filter,
    FormTask, KeptMemory, Labels, ListQuery, MemoryEncoder, MemoryFailure, MemoryPart,
    MemoryRecord, MemorySettings, MemoryText, Span, StoredDocument, Version,
};
use clew_index::{ShardReader, ShardView};
use clew_runtime::deadline::ask;
use clew_telemetry::metrics;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use ractor::ActorRef;
use tokio::sync::watch;
use tracing::Instrument;

use self::attempts::Attempts;
use crate::shard::actor::writer;
use crate::shard::idleness::{Idleness, Task};

/// Bytes of text that are read before a commit.
const BATCH_BYTES: usize = 512 << 10;
/// Approximate bytes of a token. Settings count tokens, but texts are cut before their tokens are
/// counted.
const TOKEN_BYTES: usize = 4;
/// Number of documents that are listed at once.
const PAGE: usize = 10_000;
/// Number of memories of a shard that draft at the same time. Encoders queue the rest.
const DRAFTING: usize = 8;
/// Bound against a hung encoder, not an estimate: a CPU may take minutes for a batch.
const FORM_PATIENCE: Duration = Duration::from_secs(3600);
const COMMIT_PATIENCE: Duration = Duration::from_secs(600);
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(10);

/// Components that memories are formed with.
pub(crate) struct MemoryBuilder {
    /// Name of the shard, for the log.
    pub name: String,
    pub settings: MemorySettings,
    pub reader: ShardReader,
    pub encoder: Arc<dyn MemoryEncoder>,
    pub writer: ActorRef<writer::Message>,
    pub clock: Arc<dyn Clock>,
    pub interval: Duration,
    /// Receives what fails, for callers.
    pub failures: watch::Sender<Arc<Vec<MemoryFailure>>>,
    pub idleness: Idleness,
}

/// State of the work between two steps.
#[derive(Default)]
struct Work {
    /// Memory that was formed and is not stored yet.
    formed: Option<Formed>,
    attempts: Attempts,
    /// Whether files that are no memories were removed since the start and the last failure.
    is_swept: bool,
    /// Searchable documents, as of a revision of the shard.
    documents: Option<(u64, Arc<Vec<DocumentStatus>>)>,
    /// State in which nothing was left to form.
    whole: Option<Whole>,
}

/// State of a shard in which memories of a model covered every document.
struct Whole {
    revision: u64,
    records: Arc<Vec<MemoryRecord>>,
    model: String,
}

impl Whole {
    fn is(&self, revision: u64, records: &Arc<Vec<MemoryRecord>>) -> bool {
        self.revision == revision && Arc::ptr_eq(&self.records, records)
    }
}

/// Memory that was formed.
struct Formed {
    record: MemoryRecord,
    snapshot: Bytes,
    /// Keys of the memories that it replaces.
    replaced: Vec<String>,
    /// Parts that were to be read into it.
    parts: Vec<MemoryPart>,
}

/// How a step ended.
enum Step {
    /// There was nothing to do.
    Idle,
    /// There may be more to do.
    Done,
    /// A memory was stored.
    Stored,
}

/// Error of a step, with the parts of the memory that was tried, if any.
struct Failed {
    parts: Vec<MemoryPart>,
    error: Error,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { parts: Vec::new(), error }
    }
}

/// Forms memories step by step, for as long as the task runs.
pub(crate) async fn keep_building(builder: MemoryBuilder) {
    let mut work = Work::default();
    loop {
        let wait = match builder.step(&mut work).await {
            Ok(Step::Idle) => {
                if let Some(whole) = &work.whole {
                    builder.idleness.is_done(Task::MemoryBuilder, whole.revision);
                }
                Some(builder.interval)
            }
            Ok(Step::Done) => None,
            Ok(Step::Stored) => {
                work.attempts.succeeded();
                None
            }
            Err(failed) => Some(builder.failed(&mut work, failed)),
        };
        builder.failures.send_if_modified(|told| {
            let failures = work.attempts.shown();
            let changes = **told != failures;
            if changes {
                *told = Arc::new(failures);
            }
            changes
        });
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
    }
}

impl MemoryBuilder {
    /// Notes a failure. Returns the pause after it.
    fn failed(&self, work: &mut Work, Failed { parts, error }: Failed) -> Duration {
        let (shard, chain) = (&self.name, error.chain());
        if parts.is_empty() {
            let pause = work.attempts.failed_before();
            tracing::warn!(shard, error = chain, ?pause, "forming memories waits");
            return pause.max(self.interval);
        }
        // The failed write may have left a file.
        work.is_swept = false;
        let documents = parts.len();
        let (pause, is_aside) = work.attempts.failed(self.clock.now(), parts, &error);
        if is_aside {
            work.formed = None;
            let what = "a memory failed too often, and its documents are set aside";
            tracing::error!(shard, error = chain, documents, "{what}");
        } else {
            let what = "a memory is not formed or not stored, and is tried again";
            tracing::warn!(shard, error = chain, documents, ?pause, "{what}");
        }
        pause.max(self.interval)
    }

    /// Performs the next step.
    async fn step(&self, work: &mut Work) -> Result<Step, Failed> {
        // An idle shard costs nothing but this comparison, however many documents it has.
        let (revision, records) = (self.reader.revision(), self.reader.memories());
        let whole = work.whole.take_if(|whole| whole.is(revision, &records));
        let finds_all = |record: &MemoryRecord| self.reader.finds_all(&record.parts);
        if !work.is_swept || (whole.is_none() && !records.iter().all(finds_all)) {
            self.sweep().await?;
            work.is_swept = true;
            return Ok(Step::Done);
        }
        let span = tracing::info_span!(parent: None, "shard.memorise");
        if let Some(formed) = &work.formed {
            let storing = metrics::stage("memorise", self.store(formed));
            let is_stored = Box::pin(storing).instrument(span).await?;
            work.formed = None;
            return Ok(if is_stored { Step::Stored } else { Step::Done });
        }
        let deadline = Instant::now() + DESCRIBE_PATIENCE;
        let Some(model) = self.encoder.memory_model(deadline).await? else {
            return Ok(Step::Idle);
        };
        if whole.as_ref().is_some_and(|whole| whole.model == model.fingerprint) {
            work.whole = whole;
            return Ok(Step::Idle);
        }
        let aside = work.attempts.aside(self.clock.now(), |parts| self.reader.finds_all(parts));
        let documents = self.documents(work);
        let plan = plan(&documents, &records, &model.fingerprint, self.settings, &aside);
        let Some(plan) = plan else {
            let model = model.fingerprint;
            // What is set aside becomes due by time alone.
            work.whole = aside.is_empty().then_some(Whole { revision, records, model });
            return Ok(Step::Idle);
        };
        let parts = plan.added.clone();
        let forming = metrics::stage("memorise", self.form(plan));
        let formed = Box::pin(forming).instrument(span).await;
        // Stored by the next step.
        work.formed = formed.map_err(|error| Failed { parts, error })?;
        Ok(Step::Done)
    }

    /// Returns the documents whose newest version is searchable. They are listed anew only if the
    /// shard has changed.
    fn documents(&self, work: &mut Work) -> Arc<Vec<DocumentStatus>> {
        // Asked before the documents are listed: if they change meanwhile, they are listed again.
        let revision = self.reader.revision();
        if let Some((known, documents)) = &work.documents
            && *known == revision
        {
            return Arc::clone(documents);
        }
        let mut all: Vec<DocumentStatus> = Vec::new();
        loop {
            let after = all.last().map(|last| last.document_id.clone());
            let state = Some(DocumentState::Indexed);
            let page = self.reader.list(&ListQuery { after, limit: PAGE, state });
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                break;
            }
        }
        let all = Arc::new(all);
        work.documents = Some((revision, Arc::clone(&all)));
        all
    }

    async fn sweep(&self) -> Result<(), Error> {
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let swept = ask(&self.writer, deadline, "sweeping memories", |reply| {
            writer::Message::SweepMemories { reply }
        });
        let removed = swept.await?;
        tracing::debug!(shard = self.name, removed, "removed memories of what is there no more");
        Ok(())
    }

    /// Forms a memory. Returns `None` if what it was to cover has changed meanwhile.
    async fn form(&self, plan: Plan) -> Result<Option<Formed>, Error> {
        let wanted: HashSet<(DocumentId, Version)> = plan.added.iter().map(document).collect();
        let wanted: Vec<(DocumentId, Version)> = wanted.into_iter().collect();
        let read = self.reader.read_sources(&wanted).await?.into_iter();
        let texts: HashMap<DocumentId, StoredDocument> =
            read.map(|stored| (stored.document.id.clone(), stored)).collect();
        let Some((added, texts)) = cut(&plan.added, &texts) else { return Ok(None) };
        let begun = match &plan.extended {
            None => None,
            // The memory is gone if a document that it covered was replaced meanwhile.
            Some(record) => match self.reader.memory(&record.key).await? {
                None => return Ok(None),
                Some(bytes) => Some(Arc::new(bytes.into())),
            },
        };
        let task = FormTask { ratio: self.settings.ratio, begun, texts };
        let formed = self.encoder.form(task, Instant::now() + FORM_PATIENCE).await?;
        let mut parts = plan.extended.as_ref().map_or(Vec::new(), |record| record.parts.clone());
        parts.extend(added);
        let record = MemoryRecord {
            key: key(&formed.model, self.settings.ratio, &parts),
            model: formed.model,
            ratio: self.settings.ratio,
            parts,
            tokens: formed.tokens,
            slots: formed.slots,
            bytes: formed.snapshot.len() as u64,
        };
        let mut replaced = plan.outdated;
        replaced.extend(plan.extended.map(|record| record.key));
        let snapshot = formed.snapshot.into();
        Ok(Some(Formed { record, snapshot, replaced, parts: plan.added }))
    }

    /// Stores a memory. Returns whether it did; otherwise what it covers has changed meanwhile.
    async fn store(&self, formed: &Formed) -> Result<bool, Failed> {
        let failed = |error| Failed { parts: formed.parts.clone(), error };
        let Formed { record, snapshot, replaced, .. } = formed;
        let (tokens, slots) = (record.tokens, record.slots);
        // The writer only gives the file its name, so that documents are accepted meanwhile.
        let staging = self.reader.stage_memory(record.clone(), snapshot.clone());
        let staged = staging.await.map_err(|error| failed(error.into()))?;
        let Some(staged) = staged else { return Ok(false) };
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let is_committed = ask(&self.writer, deadline, "committing a memory", |reply| {
            let (memory, replaced) = (Box::new(staged), replaced.clone());
            writer::Message::CommitMemory { memory, replaced, reply }
        })
        .await
        .map_err(failed)?;
        tracing::debug!(shard = self.name, tokens, slots, is_committed, "formed a memory");
        Ok(is_committed)
    }
}

/// Next memory to form.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Memory to continue, or `None` to begin a new one.
    extended: Option<MemoryRecord>,
    /// Parts to read into it. The last one may end before its document does.
    added: Vec<MemoryPart>,
    /// Keys of memories of other models or ratios that cover some of the same documents.
    outdated: Vec<String>,
}

/// Returns the next memory to form from `documents` without those that are set aside, if any.
/// Documents with lower versions are read first.
fn plan(
    documents: &[DocumentStatus],
    records: &[MemoryRecord],
    model: &str,
    settings: MemorySettings,
    aside: &HashSet<(DocumentId, Version)>,
) -> Option<Plan> {
    let is_current =
        |record: &&MemoryRecord| record.model == model && record.ratio == settings.ratio;
    let current: Vec<&MemoryRecord> = records.iter().filter(is_current).collect();
    // The parts of a document are read in order, so the furthest end shows what is left.
    let mut covered: HashMap<&DocumentId, usize> = HashMap::new();
    for part in current.iter().flat_map(|record| &record.parts) {
        let end = covered.entry(&part.document_id).or_default();
        *end = (*end).max(part.span.end);
    }
    let rest = |status: &DocumentStatus| {
        let end = usize::try_from(status.bytes).unwrap_or(usize::MAX);
        let (id, version) = (&status.document_id, status.version);
        let start = covered.get(id).copied().unwrap_or(0);
        (start < end).then(|| MemoryPart {
            document_id: id.clone(),
            version,
            span: Span::new(start, end),
        })
    };
    let mut left: Vec<MemoryPart> = documents.iter().filter_map(rest).collect();
    if !aside.is_empty() {
        left.retain(|part| !aside.contains(&document(part)));
    }
    // Documents that were begun come first, then the oldest.
    left.sort_by_key(|part| (part.span.start == 0, part.version, part.document_id.clone()));
    let labels: HashMap<&DocumentId, &Labels> =
        documents.iter().map(|status| (&status.document_id, &status.labels)).collect();
    let first = left.first()?.clone();
    // Documents that require other labels are read into other memories, another time.
    let needed = labels.get(&first.document_id);
    left.retain(|part| labels.get(&part.document_id) == needed);
    let needs_same = |record: &&&MemoryRecord| {
        let known = record.parts.iter().find_map(|part| labels.get(&part.document_id));
        known == needed
    };
    let whole = settings.segment_tokens as usize * TOKEN_BYTES;
    let room = |record: &MemoryRecord| whole.saturating_sub(record.tokens as usize * TOKEN_BYTES);
    // A document that was begun continues in the last memory if there is room. Another one goes
    // there only if it fits whole.
    let last = current.iter().rfind(needs_same).filter(|record| {
        let room = room(record);
        let goes_on = first.span.start > 0;
        room > 0 && (goes_on || first.span.end <= room)
    });
    let mut room = last.map_or(whole, |record| room(record)).min(BATCH_BYTES);
    let mut added: Vec<MemoryPart> = Vec::new();
    for mut part in left {
        let length = part.span.end - part.span.start;
        if length > room {
            if added.is_empty() {
                part.span.end = part.span.start + room;
                added.push(part);
            }
            break;
        }
        room -= length;
        added.push(part);
    }
    let touched: HashSet<&DocumentId> = added.iter().map(|part| &part.document_id).collect();
    let holds = |record: &&MemoryRecord| {
        !is_current(record) && record.parts.iter().any(|part| touched.contains(&part.document_id))
    };
    let outdated = records.iter().filter(holds).map(|record| record.key.clone()).collect();
    Some(Plan { extended: last.map(|record| (*record).clone()), added, outdated })
}

fn document(part: &MemoryPart) -> (DocumentId, Version) {
    (part.document_id.clone(), part.version)
}

/// Returns the texts of parts. A text that ends before its document is cut at white space. Returns
/// `None` if a document is gone.
fn cut(
    parts: &[MemoryPart],
    documents: &HashMap<DocumentId, StoredDocument>,
) -> Option<(Vec<MemoryPart>, Vec<MemoryText>)> {
    let (mut cut, mut texts) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    for part in parts {
        let stored = documents.get(&part.document_id)?;
        let text = &stored.document.text;
        let start = text.floor_char_boundary(part.span.start);
        let mut end = text.floor_char_boundary(part.span.end);
        if end < text.len() {
            let space = text[start..end].rfind(char::is_whitespace).filter(|at| *at > 0);
            end = space.map_or(end, |at| start + at);
        }
        let is_first = start == 0;
        let title = if is_first { stored.document.title.clone() } else { String::new() };
        texts.push(MemoryText { title, text: text[start..end].to_owned() });
        cut.push(MemoryPart { span: Span::new(start, end), ..part.clone() });
    }
    Some((cut, texts))
}

/// Returns the key of a memory: a hash of what it covers and of what it was formed with.
fn key(model: &str, ratio: u32, parts: &[MemoryPart]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("clew compressed memory v1");
    hasher.update(format!("{model} {ratio}\n").as_bytes());
    for MemoryPart { document_id, version, span } in parts {
        let id = document_id.as_str();
        let part = format!("{} {id} {} {} {}\n", id.len(), version.0, span.start, span.end);
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// A memory of a shard.
struct Kept<'a> {
    key: &'a str,
    reader: &'a ShardReader,
}

#[async_trait]
impl KeptMemory for Kept<'_> {
    fn key(&self) -> &str {
        self.key
    }

    async fn bytes(&self, _deadline: Instant) -> Result<Arc<Vec<u8>>, Error> {
        let bytes = self.reader.memory(self.key).await?;
        bytes.map(|bytes| Arc::new(bytes.into())).ok_or_else(|| {
            Error::new(
                clew_core::ErrorKind::Unavailable,
                "UNAVAILABLE",
                "the memory is formed anew since something that it covered has changed; retry",
            )
        })
    }
}

/// Returns the clues drafted by those memories of a shard of which the caller sees every covered
/// document. A memory that cannot be asked now is left out, unless none can.
pub(crate) async fn draft(
    view: &ShardView,
    encoder: &dyn MemoryEncoder,
    query: &ClueQuery,
    deadline: Instant,
) -> Result<DraftedClues, Error> {
    let (records, reader) = (view.memories(), view.reader());
    let mut usable: Vec<&MemoryRecord> = Vec::new();
    for record in &records {
        if admits(&query.filter, record) && reader.finds_all(&record.parts) {
            usable.push(record);
        }
    }
    if usable.is_empty() {
        return Ok(DraftedClues::default());
    }
    let Some(model) = encoder.memory_model(deadline).await? else {
        return Ok(DraftedClues::default());
    };
    let mut drafting: Vec<BoxFuture<'_, Result<DraftedClues, Error>>> = Vec::new();
    for record in usable {
        if record.model == model.fingerprint {
            let kept = Kept { key: &record.key, reader };
            drafting
                .push(Box::pin(async move { encoder.draft(&kept, &query.draft, deadline).await }));
        }
    }
    let drafts: Vec<Result<DraftedClues, Error>> =
        stream::iter(drafting).buffered(DRAFTING).collect().await;
    let (mut drafted, mut failed) = (Vec::new(), None);
    for draft in drafts {
        match draft {
            Ok(draft) => drafted.push(draft),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if drafted.is_empty() => return Err(error),
        Some(error) => tracing::warn!(error = error.chain(), "a memory drafted nothing"),
        None => {}
    }
    Ok(DraftedClues::united(drafted))
}

/// Returns whether a memory may be asked. It cannot tell its documents apart, so the filter must
/// admit all of them.
fn admits(filter: &Filter, record: &MemoryRecord) -> bool {
    if filter.is_empty() {
        return true;
    }
    filter.names_documents_only()
        && record.parts.iter().all(|part| filter.documents.contains(&part.document_id))
}

#[cfg(test)]
mod tests;
