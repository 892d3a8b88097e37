//! Deletes snapshots of corpora.
//!
//! One write deletes a snapshot: a tombstone replaces its description. From then on it is neither
//! listed nor restored, and no snapshot is taken by its name. Then its files are removed, and the
//! tombstone last, which frees the name. A process that stops in between leaves the tombstone, and
//! the next deletion or listing that finds it continues.
//!
//! A snapshot that is being taken cannot be deleted, nor one that is being restored from, which has
//! a mark. A recent change of the files or of the mark counts as a sign of either, because the
//! process that made it may have died without notice or may belong to another cluster.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{CorpusName, DeletionStep, SnapshotDeletion, SnapshotName, Timestamp};

use crate::backup::description::{DESCRIPTION, Described, READING, Tombstone, digest_of, to_json};
use crate::backup::snapshots::{Snapshots, WholeSnapshot};
use crate::boxed;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::unique::unique;

/// Empty file of a snapshot that is being restored from. Each step of the restore writes it again.
const RESTORING: &str = "restoring";
/// Time after its last step for which a snapshot counts as being taken or restored from: a step
/// takes ten minutes at most.
const IN_USE_FOR: Duration = Duration::from_secs(900);
/// Number of files that are removed between two checks that the tombstone still exists: as many as
/// an object store removes with one request.
const AT_A_LOOK: usize = 1_000;
/// Maximum time for which a listing removes the leftovers of a deletion.
const LEFTOVER_BUDGET: Duration = Duration::from_secs(2);

const DELETING: &str = "delete the snapshot";
const MARKING: &str = "mark the snapshot as being restored from";

impl Snapshots {
    /// Continues to delete a snapshot, complete or not, also of a corpus that is gone. Starts to
    /// remove no further files after `budget`. After the first call it cannot be found or restored.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotNotFound`] if nothing of it exists, [`Error::SnapshotInUse`] if it
    /// is being taken or restored from, or a storage error.
    #[boxed]
    pub async fn delete(
        &self,
        deletion: &SnapshotDeletion,
        now: Timestamp,
        budget: Duration,
    ) -> Result<DeletionStep> {
        let until = Instant::now() + budget;
        let SnapshotDeletion { corpus, snapshot: name, is_dry_run } = deletion;
        let place = self.place_of(corpus, name);
        let in_use = |doing| Error::SnapshotInUse { name: name.clone(), doing };
        let found = Described::read(&place).await?;
        let (changed, doing) = match &found {
            Described::Deleted(_) => (None, ""),
            Described::Whole(_) => (place.changed_at(RESTORING, READING).await?, "restored from"),
            Described::Not => match place.newest_change(READING).await? {
                None => {
                    // An interrupted deletion may leave folders.
                    place.remove_empty_folders(DELETING).await?;
                    let (corpus, name) = (corpus.clone(), name.clone());
                    return Err(Error::SnapshotNotFound { corpus, name });
                }
                changed => (changed, "taken"),
            },
        };
        if changed.is_some_and(|changed| now.saturating_since(changed) < IN_USE_FOR) {
            return Err(in_use(doing));
        }
        if *is_dry_run {
            let files = place.files(READING).await?.len() as u64;
            return Ok(DeletionStep { files, is_done: false });
        }
        let new = to_json(&Tombstone::new(unique()))?;
        let (is_put, tombstone) = match found {
            Described::Deleted(tombstone) => (true, tombstone),
            Described::Whole(description) => {
                let put = place.replace_file(DESCRIPTION, &description, new.clone(), DELETING);
                (put.await?, new)
            }
            Described::Not => (place.put_new_file(DESCRIPTION, new.clone(), DELETING).await?, new),
        };
        // Another process completed or deleted it at this moment.
        if !is_put {
            return Err(in_use("changed"));
        }
        remove(&place, &tombstone, until).await
    }

    /// Removes some of what an incomplete deletion left.
    pub(crate) async fn go_on_deleting(&self, corpus: &CorpusName, name: &SnapshotName) {
        let place = self.place_of(corpus, name);
        let removed = async {
            match Described::read(&place).await? {
                Described::Deleted(tombstone) => {
                    let until = Instant::now() + LEFTOVER_BUDGET;
                    remove(&place, &tombstone, until).await.map(drop)
                }
                Described::Not | Described::Whole(_) => Ok(()),
            }
        };
        if let Err(error) = removed.await {
            tracing::warn!(%corpus, %name, %error, "files of a deleted snapshot are left");
        }
    }
}

/// Removes the files of a deleted snapshot, and its tombstone last.
async fn remove(place: &Storage, tombstone: &Bytes, until: Instant) -> Result<DeletionStep> {
    let mut names: Vec<String> = place.files(DELETING).await?.into_keys().collect();
    names.retain(|name| name != DESCRIPTION);
    let mut files = 0;
    for some in names.chunks(AT_A_LOOK) {
        if files > 0 && Instant::now() >= until {
            return Ok(DeletionStep { files, is_done: false });
        }
        // Another process may have finished the deletion meanwhile, and a new snapshot of this name
        // may exist.
        if !stands(place, tombstone).await? {
            return Ok(DeletionStep { files, is_done: true });
        }
        place.remove_files(some.iter().cloned(), DELETING).await?;
        files += some.len() as u64;
    }
    place.remove_empty_folders(DELETING).await?;
    if stands(place, tombstone).await? {
        place.remove_file(DESCRIPTION, DELETING).await?;
        place.remove_empty_folders(DELETING).await?;
        files += 1;
    }
    Ok(DeletionStep { files, is_done: true })
}

async fn stands(place: &Storage, tombstone: &Bytes) -> Result<bool> {
    let found = place.get_file(DESCRIPTION, None, READING).await?;
    Ok(found.is_some_and(|found| found == *tombstone))
}

impl WholeSnapshot {
    /// Keeps the snapshot from being deleted for a quarter of an hour.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotBeingDeleted`] if a deletion has begun, or a storage error.
    pub(crate) async fn hold(&self) -> Result<()> {
        // If the place is read-only, no process can delete the snapshot either.
        if let Err(error) = self.place.put_mark(RESTORING, MARKING).await {
            tracing::debug!(%error, "the snapshot is not marked as being restored from");
        }
        // Read after setting the mark: a deletion looks for the mark before it writes its
        // tombstone.
        match Described::read(&self.place).await? {
            Described::Whole(bytes) if digest_of(&bytes) == self.digest => Ok(()),
            Described::Whole(_) | Described::Deleted(_) | Described::Not => {
                self.release().await;
                Err(Error::SnapshotBeingDeleted(self.name.clone()))
            }
        }
    }

    /// Ends the protection that [`Self::hold`] began.
    pub(crate) async fn release(&self) {
        if let Err(error) = self.place.remove_file(RESTORING, MARKING).await {
            tracing::debug!(%error, "the snapshot stays marked as being restored from");
        }
    }
}
