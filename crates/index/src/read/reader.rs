//! Readers of a shard: searches, texts of documents, and their states.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Float32Type;
use bytes::Bytes;
use clew_core::{
    Access, CandidateQuery, Candidates, CheckQuery, Checked, ChunkKind, ChunkListQuery, ChunkRef,
    ChunkText, Counts, DocumentId, DocumentStatus, EncoderIdentity, ListQuery, ListedChunks,
    MemoryFailure, MemoryPart, MemoryRecord, Reembedded, SearchedView, StoredDocument, Timestamp,
    Version, ViewName,
};
use lancedb::datafusion::prelude::Expr;
use lancedb::query::{QueryBase, Select};
use tokio::sync::watch;

use crate::boxed;
use crate::catalogue::groups::Totals;
use crate::error::{Error, Operation, Result};
use crate::read::search::{self, Seen, texts};
use crate::read::table_view::probing::IndexRecall;
use crate::read::view::{KeptViews, Snapshot};
use crate::read::{check, chunk_list};
use crate::storage::Storage;
use crate::storage::erasure_mark::SeenErasure;
use crate::storage::memories::{MemoryReader, StagedMemory};
use crate::table::column;
use crate::table::engine::{run, scan};
use crate::table::fence::Fence;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::values::due::{DueDocument, Lag};

/// Memory of an open shard without documents, and of each document and chunk that it has: measured
/// and rounded up.
const OPEN_BYTES: u64 = 1 << 20;
const DOCUMENT_BYTES: u64 = 1_500;
const CHUNK_BYTES: u64 = 100;

/// Reader for the shard's own work, whatever labels documents require. Cheap to clone. Never waits
/// for the writer.
///
/// Reads on behalf of a caller go through a [`ShardView`].
#[derive(Clone, Debug)]
pub struct ShardReader {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    kept: KeptViews,
    fence: Arc<Fence>,
    memories: MemoryReader,
    place: Storage,
    erasure: SeenErasure,
}

impl ShardReader {
    pub(crate) fn new(
        snapshots: watch::Receiver<Arc<Snapshot>>,
        kept: KeptViews,
        fence: Arc<Fence>,
        memories: MemoryReader,
        place: Storage,
        erasure: SeenErasure,
    ) -> Self {
        Self { snapshots, kept, fence, memories, place, erasure }
    }

    /// Returns where the shard is stored.
    pub(crate) fn place(&self) -> &Storage {
        &self.place
    }

    /// Returns whether forgotten text may still be on the disk.
    pub fn is_erasure_wanted(&self) -> bool {
        self.erasure.waits_for().is_some()
    }

    /// Returns for how long forgotten text has waited to be erased from the disk. `None` if there
    /// is none.
    pub fn erasure_waits_for(&self) -> Option<Duration> {
        self.erasure.waits_for()
    }

    /// Returns the files of the compressed memories, by name in the shard's place.
    pub(crate) fn memory_files(&self) -> Vec<String> {
        self.memories.files()
    }

    /// Returns the compressed memories, in the order in which they were begun.
    pub fn memories(&self) -> Arc<Vec<MemoryRecord>> {
        self.memories.records()
    }

    /// Returns whether every part of a compressed memory is of a version that searches find.
    pub fn finds_all(&self, parts: &[MemoryPart]) -> bool {
        self.snapshot().catalogue.finds_all(parts)
    }

    /// Writes a compressed memory, for [`crate::ShardWriter::commit_memory`]. A large one is sent
    /// in parts, each with a deadline; the writer does not wait for it. Returns `None` as soon as a
    /// part that it covers is of a version that searches do not find any more.
    ///
    /// # Errors
    /// Returns a storage error. Nothing of the memory is left then.
    #[boxed]
    pub async fn stage_memory(
        &self,
        record: MemoryRecord,
        snapshot: Bytes,
    ) -> Result<Option<StagedMemory>> {
        self.memories.stage(record, snapshot, |record| self.finds_all(&record.parts)).await
    }

    /// Returns the content of a compressed memory, or `None` if it is gone. Reads a large one in
    /// ranges, each with a deadline.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn memory(&self, key: &str) -> Result<Option<Bytes>> {
        self.memories.snapshot(key).await
    }

    /// Returns the part of the shard that a caller sees.
    pub fn with_access(&self, access: &Access) -> ShardView {
        ShardView { reader: self.clone(), access: access.clone() }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Returns the newest view, and keeps it for further pages.
    fn keep(&self) -> Arc<Snapshot> {
        self.kept.keep(|| self.snapshot())
    }

    /// Returns the view of a name if it is kept and is not the newest one.
    fn older(&self, name: ViewName) -> Option<Arc<Snapshot>> {
        self.kept.named(name).filter(|view| view.name != self.snapshot().name)
    }

    /// Waits for the next write that changes what readers see. Returns whether the writer still
    /// exists.
    pub async fn changed(&mut self) -> bool {
        self.snapshots.changed().await.is_ok()
    }

    /// Asks the storage whether this reader's shard is still the newest owner of the documents. If
    /// it is, everything that the reader shows was true when this was called. Costs one listing and
    /// waits for a commit of `sources` that is under way.
    ///
    /// # Errors
    /// Returns a storage error. The answer is unknown then.
    pub async fn is_current(&self) -> Result<bool> {
        let sources = &self.snapshot().sources;
        let Some(shown) = sources.dataset() else { return Ok(false) };
        let newest = async { Ok(shown.get().await?.latest_version_id().await?) };
        let newest = run(TableKind::Sources, Operation::Refresh, newest).await?;
        let owns = async { Ok(self.fence.owns(newest).await?) };
        run(TableKind::Sources, Operation::Refresh, owns).await
    }

    /// Returns up to `limit` document versions whose chunks are to be made now, oldest first.
    /// Leaves out those that are `busy`, wait for their next attempt, or are set aside.
    pub fn due(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.snapshot().catalogue.due(now, limit, busy)
    }

    /// Returns document versions whose searchable chunks do not meet the wanted recipes and are to
    /// be made again now, as [`ShardReader::due`] does.
    pub fn outdated(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.snapshot().catalogue.outdated(now, limit, busy)
    }

    /// Takes on what searches left to be done for the next ones. Returns whether there is anything:
    /// the caller then calls [`ShardReader::upkeep`].
    pub fn take_upkeep(&self) -> bool {
        self.snapshot().chunk_rows.take_upkeep()
    }

    /// Does for the next searches what earlier ones left to be done. Reads vectors into memory as
    /// far as there is room. If the vector index has changed, measures its recall with questions
    /// that were asked, and chooses how much of it searches read so that they find at least a share
    /// `recall` (0 to 1) of the nearest chunks.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn upkeep(&self, recall: f32) -> Result<()> {
        let snapshot = self.snapshot();
        let Some(vectors) = snapshot.vectors.of("") else { return Ok(()) };
        snapshot.chunk_rows.read_directions(vectors).await?;
        search::recall::measure(&snapshot, recall).await
    }

    /// Returns the recall of the vector index, if it was measured. It is `None` for a shard without
    /// an index, whose searches are exact.
    pub fn recall(&self) -> Option<IndexRecall> {
        let snapshot = self.snapshot();
        snapshot.chunk_rows.recall(&snapshot.vectors.of("")?.name)
    }

    /// Returns how far reembedding has come.
    pub fn reembedded(&self) -> Reembedded {
        self.snapshot().catalogue.reembedded()
    }

    /// Returns the vectors of a model that the chunks of documents have, by key text, for those of
    /// `texts` that have one.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn vectors(
        &self,
        encoder: &EncoderIdentity,
        documents: &[DocumentId],
        texts: &[&str],
    ) -> Result<HashMap<String, Vec<f32>>> {
        let snapshot = self.snapshot();
        let mut found = HashMap::new();
        let Some(vectors) = snapshot.vectors.of(&encoder.fingerprint()) else { return Ok(found) };
        if documents.is_empty() {
            return Ok(found);
        }
        let texts: HashSet<&str> = texts.iter().copied().collect();
        let query = snapshot.chunks.query().only_if_expr(filter::documents(documents));
        let query = query.select(Select::columns(&[column::KEY_TEXT, vectors.name.as_str()]));
        scan(TableKind::Chunks, query, |batch| {
            let rows = Rows::new(TableKind::Chunks, batch);
            let made = rows.key_texts()?.into_iter().zip(rows.lists::<Float32Type>(&vectors.name)?);
            found.extend(made.filter(|(text, vector)| {
                vector.len() == vectors.dimension && texts.contains(text.as_str())
            }));
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// Returns when the next document that failed becomes due again.
    pub fn next_try(&self) -> Option<Timestamp> {
        self.snapshot().catalogue.next_try()
    }

    /// Returns the status of a document, or `None` if there is no document of this id.
    pub fn status(&self, id: &DocumentId) -> Option<DocumentStatus> {
        let snapshot = self.snapshot();
        snapshot.catalogue.get(id)?.status(snapshot.catalogue.wanted())
    }

    /// Returns a page of documents, by id.
    pub fn list(&self, query: &ListQuery) -> Vec<DocumentStatus> {
        self.snapshot().catalogue.list(query, &Access::all())
    }

    /// Returns the totals of all documents.
    pub fn counts(&self) -> Counts {
        self.snapshot().catalogue.counts(&Access::all())
    }

    /// Returns the totals of all documents in a form that needs no tables, for as long as nothing
    /// is written.
    pub fn totals(&self) -> Totals {
        self.snapshot().catalogue.totals()
    }

    /// Estimates the bytes of memory that the open shard takes, beside those that
    /// [`crate::SearchMemory`] bounds.
    pub fn memory_bytes(&self) -> u64 {
        let counts = self.counts();
        OPEN_BYTES + counts.accepted * DOCUMENT_BYTES + counts.chunks * CHUNK_BYTES
    }

    /// Returns how much is still to be derived.
    pub fn lag(&self) -> Lag {
        self.snapshot().catalogue.lag()
    }

    /// Returns document versions with their texts, in no particular order. Leaves out those that
    /// are gone.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn read_sources(
        &self,
        wanted: &[(DocumentId, Version)],
    ) -> Result<Vec<StoredDocument>> {
        read_sources(&self.snapshot(), wanted).await
    }

    /// Returns up to `limit` documents whose newest version has an event time before `oldest`, or
    /// has none and was accepted before `oldest`.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn older_than(&self, oldest: Timestamp, limit: usize) -> Result<Vec<DocumentId>> {
        let before = Some(filter::older_than(oldest));
        let mut found = Vec::new();
        newest_versions(&self.snapshot(), before, |id, _| {
            if found.len() < limit {
                found.push(id);
            }
        })
        .await?;
        Ok(found)
    }

    /// Returns the time before which [`Self::older_than`] finds nothing, or `None` if there are no
    /// documents. Reads two columns of all rows of `sources`.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn oldest(&self) -> Result<Option<Timestamp>> {
        let mut oldest = None;
        newest_versions(&self.snapshot(), None, |_, time| {
            oldest = Some(oldest.map_or(time, |oldest: Timestamp| oldest.min(time)));
        })
        .await?;
        Ok(oldest)
    }
}

/// Reader for a caller. It never reveals, counts or hints at anything that requires a label that
/// the caller does not hold. Cheap to clone. Never waits for the writer.
#[derive(Clone, Debug)]
pub struct ShardView {
    reader: ShardReader,
    access: Access,
}

impl ShardView {
    /// Returns the caller's access.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the reader for the shard's own work, which ignores labels.
    pub fn reader(&self) -> &ShardReader {
        &self.reader
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.reader.snapshot()
    }

    /// Returns the best chunks or documents for a query, from one state of the shard.
    ///
    /// A search of a kept state finds no document that has been forgotten since, or that needs
    /// labels since then that the caller does not hold. Of a document that has been replaced since,
    /// it finds the version of that state. If that state cannot be searched, for whatever reason,
    /// the newest is.
    ///
    /// # Errors
    /// Returns [`crate::Error::Invalid`] if the mode needs a vector and the query has none or a bad
    /// one, [`crate::Error::OtherVectors`] if the shard has no vectors of the query's model, and
    /// [`crate::Error::Corrupt`] and [`crate::Error::Unavailable`] from the storage.
    #[boxed]
    pub async fn candidates(&self, query: &CandidateQuery) -> Result<Candidates> {
        if let SearchedView::Named(name) = query.view
            && let Some(older) = self.reader.older(name)
            && (!query.mode.uses_embeddings() || older.vectors.of(&query.encoder).is_some())
        {
            match search::run(Arc::clone(&older), self.seen_in(&older), query.clone()).await {
                Err(error) if !matches!(error, Error::Invalid { .. }) => {
                    tracing::debug!(%error, "a kept state of the shard cannot be searched");
                }
                done => return done,
            }
        }
        // Held here too: as long as the caller waits, no file that it names is removed.
        let snapshot = match query.view {
            SearchedView::Newest => self.snapshot(),
            SearchedView::Kept | SearchedView::Named(_) => self.reader.keep(),
        };
        search::run(Arc::clone(&snapshot), self.seen_in(&snapshot), query.clone()).await
    }

    /// Returns what the caller sees of a view.
    fn seen_in(&self, view: &Snapshot) -> Seen {
        let newest = Some(self.snapshot()).filter(|newest| newest.name != view.name);
        Seen { access: self.access.clone(), newest }
    }

    /// Returns what is shown of chunks, in no particular order. Leaves out chunks that a search of
    /// the kept state `view` would not find, or of the newest one without a name or if that state
    /// is not kept any more.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn chunks(
        &self,
        wanted: &[ChunkRef],
        view: Option<ViewName>,
    ) -> Result<Vec<(ChunkRef, ChunkText)>> {
        if let Some(older) = view.and_then(|name| self.reader.older(name)) {
            match texts::chunks(&older, &self.seen_in(&older), wanted).await {
                Ok(chunks) => return Ok(chunks),
                Err(error) => {
                    tracing::debug!(%error, "a kept state of the shard cannot be read");
                }
            }
        }
        let newest = self.snapshot();
        texts::chunks(&newest, &self.seen_in(&newest), wanted).await
    }

    /// Returns a page of the chunks of a document, by ordinal, or `None` if there is no document of
    /// this id. `kind` says of what kind a chunk is, by its ordinal.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn chunks_of(
        &self,
        query: &ChunkListQuery,
        kind: impl Fn(u32) -> ChunkKind,
    ) -> Result<Option<ListedChunks>> {
        chunk_list::chunks_of(&self.snapshot(), &self.access, query, kind).await
    }

    /// Returns a page of documents, by id.
    pub fn list(&self, query: &ListQuery) -> Vec<DocumentStatus> {
        self.snapshot().catalogue.list(query, &self.access)
    }

    /// Returns the totals of what the caller sees.
    pub fn counts(&self) -> Counts {
        self.snapshot().catalogue.counts(&self.access)
    }

    /// Checks a page of documents against every [`clew_core::Invariant`], in one state of the
    /// shard. The first page also looks for rows of documents that are unknown. Memory use does not
    /// grow with the shard.
    ///
    /// # Errors
    /// Returns a storage error, also if a row is so damaged that it cannot be read.
    #[boxed]
    pub async fn check(&self, query: &CheckQuery) -> Result<Checked> {
        check::check(&self.snapshot(), &self.access, query).await
    }

    /// Returns the compressed memories that cover only documents that the caller sees, in the order
    /// in which they were begun.
    pub fn memories(&self) -> Vec<MemoryRecord> {
        let snapshot = self.snapshot();
        let is_seen = |record: &&MemoryRecord| {
            let mut parts = record.parts.iter();
            parts.all(|part| snapshot.catalogue.sees(&self.access, &part.document_id))
        };
        self.reader.memories().iter().filter(is_seen).cloned().collect()
    }

    /// Returns those failures at compressed memories of which the caller sees all documents.
    pub fn seen_failures(&self, failures: &[MemoryFailure]) -> Vec<MemoryFailure> {
        let snapshot = self.snapshot();
        let is_seen = |failure: &&MemoryFailure| {
            failure.documents.iter().all(|id| snapshot.catalogue.sees(&self.access, id))
        };
        failures.iter().filter(is_seen).cloned().collect()
    }

    /// Returns documents as they are stored, with their states, from one state of the shard and in
    /// no particular order. Each is in the version that searches find, or else the newest. Leaves
    /// out documents that do not exist.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn get(&self, ids: &[DocumentId]) -> Result<Vec<(StoredDocument, DocumentStatus)>> {
        let snapshot = self.snapshot();
        let version = |id: &DocumentId| {
            let record = snapshot.catalogue.get(id)?;
            if !record.is_seen_by(&self.access) {
                return None;
            }
            let live = record.live().map(|live| live.version);
            let version = live.or(record.newest().map(|newest| newest.version))?;
            Some((id.clone(), version))
        };
        let wanted: Vec<_> = ids.iter().filter_map(version).collect();
        let read = read_sources(&snapshot, &wanted).await?.into_iter();
        let with_status = |stored: StoredDocument| {
            let record = snapshot.catalogue.get(&stored.document.id)?;
            Some((stored, record.status(snapshot.catalogue.wanted())?))
        };
        Ok(read.filter_map(with_status).collect())
    }
}

/// Calls `found` with each document whose newest version `wanted` selects, and with that version's
/// event time, or else the time at which it was accepted.
async fn newest_versions(
    snapshot: &Snapshot,
    wanted: Option<Expr>,
    mut found: impl FnMut(DocumentId, Timestamp) + Send,
) -> Result<()> {
    let columns = [column::DOCUMENT_ID, column::VERSION, column::EVENT_TIME, column::ACCEPTED_AT];
    let query = snapshot.sources.query().select(Select::columns(&columns));
    let query = match wanted {
        Some(wanted) => query.only_if_expr(wanted),
        None => query,
    };
    scan(TableKind::Sources, query, |batch| {
        let rows = Rows::new(TableKind::Sources, batch);
        for ((id, version), time) in rows.versions()?.into_iter().zip(rows.dates()?) {
            let newest = snapshot.catalogue.get(&id).and_then(|record| record.newest());
            if newest.is_some_and(|newest| newest.version == version) {
                found(id, time);
            }
        }
        Ok(())
    })
    .await
}

pub(crate) async fn read_sources(
    snapshot: &Snapshot,
    wanted: &[(DocumentId, Version)],
) -> Result<Vec<StoredDocument>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let versions: HashSet<(&DocumentId, Version)> =
        wanted.iter().map(|(id, version)| (id, *version)).collect();
    let mut found = HashMap::new();
    let predicate = filter::documents(wanted.iter().map(|(id, _)| id));
    scan(TableKind::Sources, snapshot.sources.query().only_if_expr(predicate), |batch| {
        for stored in Rows::new(TableKind::Sources, batch).documents()? {
            if versions.contains(&(&stored.document.id, stored.version)) {
                found.insert((stored.document.id.clone(), stored.version), stored);
            }
        }
        Ok(())
    })
    .await?;
    Ok(found.into_values().collect())
}
