//! What the retriever does with snapshots of whole corpora. Each shard copies itself, see
//! [`crate::shard`].

use std::time::{Duration, Instant};

use clew_core::{
    CorpusName, CorpusSettings, Error, Restoration, RestoreStep, SnapshotName, SnapshotSummary,
};
use clew_index::Registry;
use clew_runtime::deadline::within;

use crate::role::Seams;

/// How long one call goes on restoring.
const RESTORE_BUDGET: Duration = Duration::from_secs(2);

/// Makes a snapshot whole.
pub(crate) async fn finish(
    registry: &Registry,
    seams: &Seams,
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
        // The vectors that were copied may be those of other models, then.
        if registry.get(&corpus.name).await? != *corpus {
            return Err(clew_index::Error::CorpusChanged.into());
        }
        Ok(snapshots.finish(corpus, snapshot, digests, now).await?)
    })
    .await
}

/// The whole snapshots of a corpus.
pub(crate) async fn list(
    seams: &Seams,
    corpus: &CorpusName,
    deadline: Instant,
) -> Result<Vec<SnapshotSummary>, Error> {
    let snapshots = seams.snapshots()?;
    within(deadline, "listing snapshots", async { Ok(snapshots.list(corpus).await?) }).await
}

/// Goes on restoring a corpus.
pub(crate) async fn restore(
    registry: &Registry,
    seams: &Seams,
    asked: &Restoration,
    deadline: Instant,
) -> Result<RestoreStep, Error> {
    let (snapshots, now) = (seams.snapshots()?, seams.clock.now());
    within(deadline, "restoring the corpus", async {
        let snapshot = snapshots.read(&asked.corpus, &asked.snapshot).await?;
        // Before anything is copied that could not be searched.
        for encoder in snapshot.settings().encoders() {
            seams.encoders.of(encoder, deadline).await?;
        }
        Ok(Box::pin(registry.restore(&snapshot, asked, now, RESTORE_BUDGET)).await?)
    })
    .await
}
