//! Trait of the corpora of a node or a cluster.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::{
    Access, Corpus, CorpusEntry, CorpusName, CorpusSettings, DeletionStep, Error, IngestRun,
    PartReport, Restoration, RestoreStep, RunName, RunPage, RunPart, RunPlace, SnapshotDeletion,
    SnapshotName, SnapshotSummary,
};

/// Corpora that can be reached, each as far as a caller sees it. All later calls to a returned
/// [`Corpus`] and its shards are made on behalf of that caller.
#[async_trait]
pub trait Corpora: Send + Sync {
    /// Creates a corpus.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if the settings cannot work,
    /// [`crate::ErrorKind::AlreadyExists`] if there is a corpus of that name, and the errors of the
    /// storage.
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// Returns the corpus of that name.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is none.
    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// Returns up to `limit` corpora whose names come after `after`, ordered by name, including
    /// those that cannot be used.
    ///
    /// # Errors
    /// Returns the errors of the storage.
    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        deadline: Instant,
    ) -> Result<Vec<CorpusEntry>, Error>;

    /// Changes settings from `from` to `to`, of the same corpus. No caller sees anything between
    /// the two. Nothing is changed if the settings are `to` already.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::LostRace`] if the settings are neither,
    /// [`crate::ErrorKind::NotFound`] if there is no such corpus, and the errors of the storage.
    async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error>;

    /// Deletes a corpus with everything in it and returns how many documents it held.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, and the errors of the
    /// storage, after which the deletion is finished later.
    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error>;

    /// Marks a snapshot of a corpus as complete once all shards are copied. `digests` are the
    /// digests that [`crate::ShardAdmin::copy_to_snapshot`] returned, ordered by shard index. Only
    /// a complete snapshot can be restored.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a complete snapshot of that name,
    /// [`crate::ErrorKind::DataLoss`] if what was copied no longer exists, and the errors of the
    /// storage.
    async fn finish_snapshot(
        &self,
        corpus: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error>;

    /// Returns the complete snapshots of a corpus, ordered by name, even if the corpus no longer
    /// exists.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] if no place for snapshots is configured, and the
    /// errors of the storage.
    async fn snapshots(
        &self,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error>;

    /// Continues, for some seconds, to delete a snapshot of a corpus. Call it again until it is
    /// done.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if nothing of the snapshot exists,
    /// [`crate::ErrorKind::WrongState`] with the reason `SNAPSHOT_IN_USE` while it is being taken
    /// or restored from, and [`crate::ErrorKind::WrongState`] if no place for snapshots is
    /// configured. Also returns the errors of the storage. The next call, or [`Self::snapshots`],
    /// then continues the deletion.
    async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error>;

    /// Continues, for some seconds, to restore a corpus. Call it again until it is done. Until then
    /// the corpus does not exist.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a corpus of that name,
    /// [`crate::ErrorKind::NotFound`] if there is no such snapshot,
    /// [`crate::ErrorKind::WrongState`] if it is not complete, or was made with another encoder or
    /// by a newer release, and [`crate::ErrorKind::DataLoss`] if it is damaged.
    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error>;

    /// Keeps what a part of a run of ingestion has done so far, and returns the part as it is kept
    /// now. The first report of a run creates it with so many parts. A report that is repeated, or
    /// comes after a later one of the same process or of the process that took its place, changes
    /// nothing. The caller has checked the report ([`PartReport::check`]).
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, and
    /// [`crate::ErrorKind::WrongState`] with the reason `RUN_DIFFERS` if the run has another number
    /// of parts, or `RUNS_FULL` if there are too many runs that have not ended. Also returns the
    /// errors of the storage.
    async fn report_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
        deadline: Instant,
    ) -> Result<RunPart, Error>;

    /// Returns a run of ingestion.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, or, with the reason
    /// [`crate::RUN_NOT_FOUND`], no such run. Returns [`crate::ErrorKind::DataLoss`] if a report
    /// cannot be read back, [`crate::ErrorKind::WrongState`] if a newer release wrote one, and the
    /// errors of the storage.
    async fn run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<IngestRun, Error>;

    /// Returns up to `limit` runs of a corpus that come after a place in the list, the newest
    /// first. They are fewer if they have many parts.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, and the errors of the
    /// storage.
    async fn runs(
        &self,
        corpus: &CorpusName,
        after: Option<&RunPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<RunPage, Error>;

    /// Deletes what is kept of a run. The documents stay.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, or, with the reason
    /// [`crate::RUN_NOT_FOUND`], no such run, and the errors of the storage.
    async fn delete_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<(), Error>;
}
