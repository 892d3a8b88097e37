//! Compressed memories: forms them from searchable documents, and drafts clues from them.
//!
//! Documents are read into a memory one after another until it covers as much as the corpus'
//! settings allow; then the next memory begins. New documents continue the last memory, so only
//! they are read. A memory is removed if a document that it covers is replaced or forgotten, and
//! the other documents that it covered are read again. A memory is committed every [`BATCH_BYTES`]
//! of text, so a crash costs at most that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    ClueQuery, DocumentId, DocumentState, DocumentStatus, DraftedClues, Error, Filter, FormTask,
    KeptMemory, Labels, ListQuery, MemoryEncoder, MemoryPart, MemoryRecord, MemorySettings,
    MemoryText, Span, StoredDocument, Version,
};
use clew_index::{ShardReader, ShardView};
use clew_runtime::deadline::ask;
use clew_telemetry::metrics;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use ractor::ActorRef;
use tracing::Instrument;

use crate::shard::actor::writer;

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
/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Components that memories are formed with.
pub(crate) struct MemoryBuilder {
    /// Name of the shard, for the log.
    pub name: String,
    pub settings: MemorySettings,
    pub reader: ShardReader,
    pub encoder: Arc<dyn MemoryEncoder>,
    pub writer: ActorRef<writer::Message>,
    pub interval: Duration,
}

/// Forms memories step by step, for as long as the task runs.
pub(crate) async fn keep_building(builder: MemoryBuilder) {
    loop {
        let wait = match builder.step().await {
            Ok(true) => continue,
            Ok(false) => builder.interval,
            Err(error) => {
                let (shard, error) = (&builder.name, error.chain());
                tracing::warn!(shard, error, "forming memories waits for the next time");
                builder.interval.max(RETRY)
            }
        };
        tokio::time::sleep(wait).await;
    }
}

impl MemoryBuilder {
    /// Performs the next step. Returns whether there was anything to do.
    async fn step(&self) -> Result<bool, Error> {
        let deadline = Instant::now() + DESCRIBE_PATIENCE;
        let records = self.reader.memories();
        if !records.iter().all(|record| is_live(record, &self.reader)) {
            return self.sweep().await.map(|()| true);
        }
        let Some(model) = self.encoder.memory_model(deadline).await? else { return Ok(false) };
        let documents = self.documents();
        let Some(plan) = plan(&documents, &records, &model.fingerprint, self.settings) else {
            return Ok(false);
        };
        let span = tracing::info_span!(parent: None, "shard.memorise");
        Box::pin(metrics::stage("memorise", self.form(plan)).instrument(span)).await
    }

    /// Returns the documents whose newest version is searchable.
    fn documents(&self) -> Vec<DocumentStatus> {
        let mut all: Vec<DocumentStatus> = Vec::new();
        loop {
            let after = all.last().map(|last| last.document_id.clone());
            let state = Some(DocumentState::Indexed);
            let page = self.reader.list(&ListQuery { after, limit: PAGE, state });
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return all;
            }
        }
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

    async fn form(&self, plan: Plan) -> Result<bool, Error> {
        let wanted: HashSet<(DocumentId, Version)> = plan.added.iter().map(document).collect();
        let wanted: Vec<(DocumentId, Version)> = wanted.into_iter().collect();
        let read = self.reader.read_sources(&wanted).await?.into_iter();
        let texts: HashMap<DocumentId, StoredDocument> =
            read.map(|stored| (stored.document.id.clone(), stored)).collect();
        let Some((added, texts)) = cut(&plan.added, &texts) else { return Ok(true) };
        let begun = match &plan.extended {
            None => None,
            // The memory is gone if a document that it covered was replaced meanwhile.
            Some(record) => match self.reader.memory(&record.key).await? {
                None => return Ok(true),
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
        let (tokens, slots) = (record.tokens, record.slots);
        let mut replaced = plan.outdated;
        replaced.extend(plan.extended.map(|record| record.key));
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let is_committed = ask(&self.writer, deadline, "committing a memory", |reply| {
            let snapshot = formed.snapshot;
            writer::Message::CommitMemory { record: Box::new(record), snapshot, replaced, reply }
        })
        .await?;
        tracing::debug!(shard = self.name, tokens, slots, is_committed, "formed a memory");
        Ok(true)
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

/// Returns the next memory to form from `documents`, if any. Documents with lower versions are read
/// first.
fn plan(
    documents: &[DocumentStatus],
    records: &[MemoryRecord],
    model: &str,
    settings: MemorySettings,
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

/// Returns whether every part of a memory is searchable in the version that it covers.
fn is_live(record: &MemoryRecord, reader: &ShardReader) -> bool {
    record.parts.iter().all(|part| {
        let status = reader.status(&part.document_id);
        status.is_some_and(|status| status.live_version == Some(part.version))
    })
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
        if admits(&query.filter, record) && is_live(record, reader) {
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
    let only_documents = Filter { documents: filter.documents.clone(), ..Filter::default() };
    *filter == only_documents
        && record.parts.iter().all(|part| filter.documents.contains(&part.document_id))
}

#[cfg(test)]
mod tests;
