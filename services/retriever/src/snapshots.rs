//! Operations on snapshots of whole corpora. Each shard copies itself, see [`crate::shard`].

use std::time::{Duration, Instant};

use clew_core::{
    Access, CorpusName, CorpusSettings, DeletionStep, DocumentId, Error, HoldingSnapshot,
    Restoration, RestoreStep, SnapshotDeletion, SnapshotName, SnapshotSummary,
};
use clew_index::{Registry, Snapshots};
use clew_runtime::deadline::within;

use crate::seams::ShardSeams;

/// Longest search for snapshots that hold forgotten documents.
const HOLDING_BUDGET: Duration = Duration::from_secs(5);
/// Time after which one call stops restoring or deleting.
const STEP_BUDGET: Duration = Duration::from_secs(2);

/// Marks a snapshot as complete.
pub(crate) async fn finish(
    registry: &Registry,
    seams: &ShardSeams,
    corpus: &CorpusSettings,
    snapshot: &SnapshotName,
    digests: &[String],
    deadline: Instant,
) -> Result<SnapshotSummary, Error> {
    if digests.len() != corpus.shards as usize {
        let problem = format!("expected {} of them, got {}", corpus.shards, digests.len());
        return Err(Error::invalid("digests", problem));
    }
    let (snapshots, now) = (seams.snapshots()?, seams.clock.now());
    within(deadline, "finishing the snapshot", async {
        // If the settings changed, the copied vectors may be those of other models.
        if registry.get(&corpus.name).await? != *corpus {
            return Err(clew_index::Error::CorpusChanged.into());
        }
        Ok(snapshots.finish(corpus, snapshot, digests, now).await?)
    })
    .await
}

/// Returns the snapshots of a corpus that hold any of these documents that the caller sees, and
/// those for which this is not known. Returns none if no place for snapshots is configured. The
/// documents are forgotten already, so a failure here is reported in the result and not as an
/// error.
pub(crate) async fn holding(
    snapshots: Option<&Snapshots>,
    corpus: &CorpusName,
    ids: &[DocumentId],
    access: &Access,
    deadline: Instant,
) -> Vec<HoldingSnapshot> {
    let Some(snapshots) = snapshots else { return Vec::new() };
    // Leave time for the other shards of the request.
    let left = deadline.saturating_duration_since(Instant::now()) / 4;
    let looked = snapshots.holding(corpus, ids, access, left.min(HOLDING_BUDGET)).await;
    looked.unwrap_or_else(|error| {
        let problem = Error::from(error).to_string();
        vec![HoldingSnapshot { name: String::new(), taken_at: None, documents: 0, problem }]
    })
}

/// Returns the complete snapshots of a corpus.
pub(crate) async fn list(
    seams: &ShardSeams,
    corpus: &CorpusName,
    deadline: Instant,
) -> Result<Vec<SnapshotSummary>, Error> {
    let snapshots = seams.snapshots()?;
    within(deadline, "listing snapshots", async { Ok(snapshots.list(corpus).await?) }).await
}

/// Performs the next step of deleting a snapshot.
pub(crate) async fn delete(
    seams: &ShardSeams,
    deletion: &SnapshotDeletion,
    deadline: Instant,
) -> Result<DeletionStep, Error> {
    let (snapshots, now) = (seams.snapshots()?, seams.clock.now());
    let deleting = async { Ok(snapshots.delete(deletion, now, STEP_BUDGET).await?) };
    within(deadline, "deleting the snapshot", deleting).await
}

/// Performs the next step of restoring a corpus.
pub(crate) async fn restore(
    registry: &Registry,
    seams: &ShardSeams,
    asked: &Restoration,
    deadline: Instant,
) -> Result<RestoreStep, Error> {
    let (snapshots, now) = (seams.snapshots()?, seams.clock.now());
    within(deadline, "restoring the corpus", async {
        let snapshot = snapshots.read(&asked.corpus, &asked.snapshot).await?;
        // Check the models before copying: without them the corpus could not be searched.
        for encoder in snapshot.settings().encoders() {
            seams.encoders.of(encoder, deadline).await?;
        }
        Ok(Box::pin(registry.restore(&snapshot, asked, now, STEP_BUDGET)).await?)
    })
    .await
}
