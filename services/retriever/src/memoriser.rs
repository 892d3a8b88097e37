//! Forms compressed memories of documents that can be found, and drafts clues from them.
//!
//! Documents are read into a memory one after the other until it covers as much as the corpus wants of one; then the
//! next begins. New documents go on where the last memory left off, so that only they are read. A memory of something
//! that was replaced or forgotten goes, and what else it covered is read anew. What was formed is committed every some
//! hundred kilobytes of text, so that a crash costs at most that.

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

use crate::writer;

/// Bytes of text that are read before what was formed is committed.
const BATCH_BYTES: usize = 512 << 10;
/// About how many bytes a token has: settings count tokens, and texts are cut before they are counted.
const TOKEN_BYTES: usize = 4;
/// Documents that are listed at once.
const PAGE: usize = 10_000;
/// Memories of a shard that draft at the same time: encoders queue the rest.
const DRAFTING: usize = 8;
/// A bound against a hung encoder, not an estimate: a processor may take minutes for a batch.
const FORM_PATIENCE: Duration = Duration::from_secs(3600);
const COMMIT_PATIENCE: Duration = Duration::from_secs(600);
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(10);
/// How long it is waited after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// What memories are formed with.
pub(crate) struct Memoriser {
    /// The shard, for the log.
    pub name: String,
    pub settings: MemorySettings,
    pub reader: ShardReader,
    pub encoder: Arc<dyn MemoryEncoder>,
    pub writer: ActorRef<writer::Message>,
    pub interval: Duration,
}

/// Forms memories for as long as the shard has a writer.
pub(crate) async fn keep_memorising(memoriser: Memoriser) {
    loop {
        let wait = match memoriser.step().await {
            Ok(true) => continue,
            Ok(false) => memoriser.interval,
            Err(error) => {
                let (shard, error) = (&memoriser.name, error.chain());
                tracing::warn!(shard, error, "forming memories waits for the next time");
                memoriser.interval.max(RETRY)
            }
        };
        tokio::time::sleep(wait).await;
    }
}

impl Memoriser {
    /// Does the next that is to be done; tells whether there was anything.
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

    /// Documents whose newest version can be found.
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
            // It is gone if something that it covered was replaced meanwhile.
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

/// What is formed next.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The memory that goes on; `None`: a new one.
    extended: Option<MemoryRecord>,
    /// What is read into it. The last may be cut short of its end.
    added: Vec<MemoryPart>,
    /// Memories of other models and ratios that hold some of it.
    outdated: Vec<String>,
}

/// What is formed next of `documents`, if anything. Whoever comes later in the list of versions is read later.
fn plan(
    documents: &[DocumentStatus],
    records: &[MemoryRecord],
    model: &str,
    settings: MemorySettings,
) -> Option<Plan> {
    let is_current =
        |record: &&MemoryRecord| record.model == model && record.ratio == settings.ratio;
    let current: Vec<&MemoryRecord> = records.iter().filter(is_current).collect();
    // Parts of a document are read in order, so the furthest end tells what is left.
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
    // What was begun comes first, then by age.
    left.sort_by_key(|part| (part.span.start == 0, part.version, part.document_id.clone()));
    let labels: HashMap<&DocumentId, &Labels> =
        documents.iter().map(|status| (&status.document_id, &status.labels)).collect();
    let first = left.first()?.clone();
    // What needs other labels is read into other memories, another time.
    let needed = labels.get(&first.document_id);
    left.retain(|part| labels.get(&part.document_id) == needed);
    let needs_same = |record: &&&MemoryRecord| {
        let known = record.parts.iter().find_map(|part| labels.get(&part.document_id));
        known == needed
    };
    let whole = settings.segment_tokens as usize * TOKEN_BYTES;
    let room = |record: &MemoryRecord| whole.saturating_sub(record.tokens as usize * TOKEN_BYTES);
    // The document that was begun goes on where it stopped, if anywhere; another fits, or is too long for any.
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

/// Whether all that a memory covers can be found, in the version that it covers.
fn is_live(record: &MemoryRecord, reader: &ShardReader) -> bool {
    record.parts.iter().all(|part| {
        let status = reader.status(&part.document_id);
        status.is_some_and(|status| status.live_version == Some(part.version))
    })
}

fn document(part: &MemoryPart) -> (DocumentId, Version) {
    (part.document_id.clone(), part.version)
}

/// The texts of parts; the last ends at a white space where it is cut. `None` if one is there no more.
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

/// Tells a memory from every other: of what it covers and what it was made with.
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

/// What those memories of a shard draft of which a caller sees all that they cover. One that cannot be asked now is
/// left out, unless all are.
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

/// A memory cannot tell its documents apart: it is asked only if all of them may be found.
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
