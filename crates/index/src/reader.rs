//! Reading a shard: searches, texts of documents, and what is known of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::Float32Type;
use bytes::Bytes;
use clew_core::{
    Access, CandidateQuery, Candidates, CheckQuery, Checked, Counts, DocumentId, DocumentStatus,
    EncoderIdentity, ListQuery, MemoryRecord, Reembedded, StoredDocument, Timestamp, Version,
};
use lancedb::query::{QueryBase, Select};
use tokio::sync::watch;

use crate::check;
use crate::error::{Operation, Result};
use crate::fence::Fence;
use crate::filter;
use crate::memories::MemoryReader;
use crate::place::Place;
use crate::rows::Rows;
use crate::schema::{TableKind, column};
use crate::search;
use crate::snapshot::Snapshot;
use crate::status::{DueDocument, Lag};
use crate::table::{run, scan};

/// Reads a shard for its own work, whatever labels documents need. Cheap to clone; never waits for the writer.
///
/// Whoever reads for a caller does so through a [`ShardView`].
#[derive(Clone, Debug)]
pub struct ShardReader {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    fence: Arc<Fence>,
    memories: MemoryReader,
    place: Place,
    is_erasure_wanted: Arc<AtomicBool>,
}

impl ShardReader {
    pub(crate) fn new(
        snapshots: watch::Receiver<Arc<Snapshot>>,
        fence: Arc<Fence>,
        memories: MemoryReader,
        place: Place,
        is_erasure_wanted: Arc<AtomicBool>,
    ) -> Self {
        Self { snapshots, fence, memories, place, is_erasure_wanted }
    }

    /// Where the shard lies.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether forgotten text may still be on the disk.
    pub fn is_erasure_wanted(&self) -> bool {
        self.is_erasure_wanted.load(Ordering::Acquire)
    }

    /// The files of the compressed memories, by name in the shard's place.
    pub(crate) fn memory_files(&self) -> Vec<String> {
        self.memories.files()
    }

    /// The compressed memories, in the order in which they were begun.
    pub fn memories(&self) -> Arc<Vec<MemoryRecord>> {
        self.memories.records()
    }

    /// The snapshot of a compressed memory; `None` if it is gone.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn memory(&self, key: &str) -> Result<Option<Bytes>> {
        self.memories.snapshot(key).await
    }

    /// What a caller sees of the shard.
    pub fn seen_by(&self, access: &Access) -> ShardView {
        ShardView { reader: self.clone(), access: access.clone() }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Waits for the next write that changed what readers see. Returns whether the writer still
    /// lives.
    pub async fn changed(&mut self) -> bool {
        self.snapshots.changed().await.is_ok()
    }

    /// Asks the storage whether this reader's shard is still the newest owner of the documents: one
    /// listing. If so, what it shows was true when this was called. It waits for a commit of
    /// `sources` that is under way.
    ///
    /// # Errors
    /// Those of the storage; then it is not known.
    pub async fn is_current(&self) -> Result<bool> {
        let sources = &self.snapshot().sources;
        let Some(shown) = sources.dataset() else { return Ok(false) };
        let newest = async { Ok(shown.get().await?.latest_version_id().await?) };
        let newest = run(TableKind::Sources, Operation::Refresh, newest).await?;
        let owns = async { Ok(self.fence.owns(newest).await?) };
        run(TableKind::Sources, Operation::Refresh, owns).await
    }

    /// Document versions whose chunks are to be made now: up to `limit`, oldest first, without
    /// those that are `busy`, that wait for their next try, or that are set aside.
    pub fn due(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.snapshot().catalogue.due(now, limit, busy)
    }

    /// Document versions whose chunks lack something and are to be made again now, as [`ShardReader::due`] tells them.
    pub fn outdated(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.snapshot().catalogue.outdated(now, limit, busy)
    }

    /// How far the shard is with what chunks should have.
    pub fn reembedded(&self) -> Reembedded {
        self.snapshot().catalogue.reembedded()
    }

    /// The vectors of a model that the chunks of documents have, by what they were made of. A chunk that has none is
    /// left out.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn vectors(
        &self,
        encoder: &EncoderIdentity,
        documents: &[DocumentId],
    ) -> Result<HashMap<String, Vec<f32>>> {
        let snapshot = self.snapshot();
        let mut found = HashMap::new();
        let Some(vectors) = snapshot.vectors.of(&encoder.fingerprint()) else { return Ok(found) };
        if documents.is_empty() {
            return Ok(found);
        }
        let query = snapshot.chunks.query().only_if_expr(filter::documents(documents));
        let query = query.select(Select::columns(&[column::KEY_TEXT, vectors.name.as_str()]));
        scan(TableKind::Chunks, query, |batch| {
            let rows = Rows::new(TableKind::Chunks, batch);
            let made = rows.key_texts()?.into_iter().zip(rows.lists::<Float32Type>(&vectors.name)?);
            found.extend(made.filter(|(_, vector)| vector.len() == vectors.dimension));
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// When the next document that failed becomes due again.
    pub fn next_try(&self) -> Option<Timestamp> {
        self.snapshot().catalogue.next_try()
    }

    /// What is known of a document; `None` if there is none of that id.
    pub fn status(&self, id: &DocumentId) -> Option<DocumentStatus> {
        let snapshot = self.snapshot();
        snapshot.catalogue.get(id)?.status(snapshot.catalogue.wanted())
    }

    /// A page of documents, by id.
    pub fn list(&self, query: &ListQuery) -> Vec<DocumentStatus> {
        self.snapshot().catalogue.list(query, &Access::all())
    }

    /// Totals.
    pub fn counts(&self) -> Counts {
        self.snapshot().catalogue.counts(&Access::all())
    }

    /// What is still to be derived.
    pub fn lag(&self) -> Lag {
        self.snapshot().catalogue.lag()
    }

    /// Document versions with their texts, in no particular order; those gone are left out.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn read_sources(
        &self,
        wanted: &[(DocumentId, Version)],
    ) -> Result<Vec<StoredDocument>> {
        read_sources(&self.snapshot(), wanted).await
    }

    /// Up to `limit` documents whose newest version tells of something before `oldest`, or, if it tells of
    /// no time, was accepted before.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn older_than(&self, oldest: Timestamp, limit: usize) -> Result<Vec<DocumentId>> {
        older_than(&self.snapshot(), oldest, limit).await
    }
}

/// Reads a shard for a caller: nothing that needs a label which the caller does not hold is told, counted or
/// hinted at. Cheap to clone; never waits for the writer.
#[derive(Clone, Debug)]
pub struct ShardView {
    reader: ShardReader,
    access: Access,
}

impl ShardView {
    /// Of whom it is.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Reads what the shard's own work needs, whatever labels documents need.
    pub fn reader(&self) -> &ShardReader {
        &self.reader
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.reader.snapshot()
    }

    /// The best chunks or documents for a query, from one state of the shard.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the mode needs a vector and there is none or a bad one;
    /// [`crate::Error::Corrupt`] and [`crate::Error::Unavailable`] from the storage.
    pub async fn candidates(&self, query: &CandidateQuery) -> Result<Candidates> {
        search::candidates(self.snapshot(), &self.access, query).await
    }

    /// A page of documents, by id.
    pub fn list(&self, query: &ListQuery) -> Vec<DocumentStatus> {
        self.snapshot().catalogue.list(query, &self.access)
    }

    /// Totals.
    pub fn counts(&self) -> Counts {
        self.snapshot().catalogue.counts(&self.access)
    }

    /// Checks a page of documents against every [`clew_core::Invariant`], in one state of the shard.
    /// The first page reads the light columns of all rows besides.
    ///
    /// # Errors
    /// Those of the storage, also if a row is so damaged that it cannot be read.
    pub async fn check(&self, query: &CheckQuery) -> Result<Checked> {
        check::check(&self.snapshot(), &self.access, query).await
    }

    /// The compressed memories of which the caller sees all that they cover, in the order in which they were begun.
    pub fn memories(&self) -> Vec<MemoryRecord> {
        let snapshot = self.snapshot();
        let is_seen = |record: &&MemoryRecord| {
            let mut parts = record.parts.iter();
            parts.all(|part| snapshot.catalogue.sees(&self.access, &part.document_id))
        };
        self.reader.memories().iter().filter(is_seen).cloned().collect()
    }

    /// Documents as they are stored, with their states, from one state of the shard and in no particular
    /// order: the version that searches find, or else the newest. Those that are not there are left out.
    ///
    /// # Errors
    /// Those of the storage.
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

/// Documents whose newest version tells of, or else came, before a time.
async fn older_than(
    snapshot: &Snapshot,
    oldest: Timestamp,
    limit: usize,
) -> Result<Vec<DocumentId>> {
    let columns = [column::DOCUMENT_ID, column::VERSION];
    let query = snapshot.sources.query().only_if_expr(filter::older_than(oldest));
    let mut found = Vec::new();
    scan(TableKind::Sources, query.select(Select::columns(&columns)), |batch| {
        for (id, version) in Rows::new(TableKind::Sources, batch).versions()? {
            let newest = snapshot.catalogue.get(&id).and_then(|record| record.newest());
            if found.len() < limit && newest.is_some_and(|newest| newest.version == version) {
                found.push(id);
            }
        }
        Ok(())
    })
    .await?;
    Ok(found)
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
