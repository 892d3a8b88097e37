//! Deletes snapshots of corpora.
//!
//! A snapshot is deleted by one write: a tombstone takes the place of its description. From then on it is not listed and
//! not restored, and none is taken by its name. Then its files are removed, and last the tombstone, which frees the name.
//! Whoever ends in between leaves the tombstone, and whoever comes by it goes on: a deletion, or a listing.
//!
//! A snapshot that is being taken is refused, and one that is being restored from, which is marked so. Both show by what
//! was changed there lately, since whoever did it may have ended without a word, or be of another cluster.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{CorpusName, DeletionStep, SnapshotDeletion, SnapshotName, Timestamp};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::corpus_snapshot::{DESCRIPTION, READING, Snapshots, WholeSnapshot, digest_of, to_json};
use crate::error::{Error, Result};
use crate::objects::PARALLEL;
use crate::place::Place;
use crate::registry::unique;

/// Of a tombstone: beyond what earlier releases know, so that they refuse it.
const FORMAT: u32 = u32::MAX;
/// An empty file of a snapshot that is being restored from, put anew with each step.
const RESTORING: &str = "restoring";
/// How long after its last step a taking or restoring may go on: a step takes ten minutes at most.
const IN_USE_FOR: Duration = Duration::from_secs(900);
/// Files that are removed between two looks whether the tombstone stands.
const AT_A_LOOK: usize = 64;
/// How long a listing removes what a deletion left.
const LEFTOVER_BUDGET: Duration = Duration::from_secs(2);

const DELETING: &str = "delete the snapshot";
const MARKING: &str = "mark the snapshot as being restored from";

/// What takes the place of the description of a snapshot that is being deleted.
#[derive(Debug, Serialize, Deserialize)]
struct Tombstone {
    format: u32,
    /// The release that wrote it, for people.
    written_by: String,
    /// Which deletion it is of.
    deleted: String,
}

/// What lies in the place of a snapshot's description.
pub(crate) enum Described {
    /// Nothing: what there is of it is being taken, or was given up.
    Not,
    /// A description.
    Whole(Bytes),
    /// A tombstone.
    Deleted(Bytes),
}

impl Described {
    pub(crate) async fn read(place: &Place) -> Result<Self> {
        let Some(bytes) = place.get_file(DESCRIPTION, None, READING).await? else {
            return Ok(Self::Not);
        };
        Ok(match serde_json::from_slice::<Tombstone>(&bytes) {
            Ok(_) => Self::Deleted(bytes),
            Err(_) => Self::Whole(bytes),
        })
    }
}

impl Snapshots {
    /// Goes on deleting a snapshot, whole or not, also of a corpus that is gone, and begins to remove no further files
    /// after `budget`. From the first call on it cannot be found or restored.
    ///
    /// # Errors
    /// [`Error::SnapshotNotFound`]; [`Error::SnapshotInUse`]; those of the storage.
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
                    // Folders that an interrupted deletion left.
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
        let new = to_json(&Tombstone {
            format: FORMAT,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            deleted: unique(),
        })?;
        let (is_put, tombstone) = match found {
            Described::Deleted(tombstone) => (true, tombstone),
            Described::Whole(description) => {
                let put = place.replace_file(DESCRIPTION, &description, new.clone(), DELETING);
                (put.await?, new)
            }
            Described::Not => (place.put_new_file(DESCRIPTION, new.clone(), DELETING).await?, new),
        };
        // Another took or deleted it in this moment.
        if !is_put {
            return Err(in_use("changed"));
        }
        remove(&place, &tombstone, until).await
    }

    /// Removes some of what a deletion left that did not come to its end.
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

/// Removes the files of a deleted snapshot, and last its tombstone.
async fn remove(place: &Place, tombstone: &Bytes, until: Instant) -> Result<DeletionStep> {
    let mut names: Vec<String> = place.files(DELETING).await?.into_keys().collect();
    names.retain(|name| name != DESCRIPTION);
    let mut files = 0;
    for some in names.chunks(AT_A_LOOK) {
        if files > 0 && Instant::now() >= until {
            return Ok(DeletionStep { files, is_done: false });
        }
        // Another may have come to the end meanwhile, and a new snapshot be there by this name.
        if !stands(place, tombstone).await? {
            return Ok(DeletionStep { files, is_done: true });
        }
        futures::stream::iter(some.to_vec())
            .map(|name| async move { place.remove_file(&name, DELETING).await })
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await?;
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

async fn stands(place: &Place, tombstone: &Bytes) -> Result<bool> {
    let found = place.get_file(DESCRIPTION, None, READING).await?;
    Ok(found.is_some_and(|found| found == *tombstone))
}

impl WholeSnapshot {
    /// Has it not deleted for a quarter of an hour.
    ///
    /// # Errors
    /// [`Error::SnapshotBeingDeleted`] if that was begun; those of the storage.
    pub(crate) async fn hold(&self) -> Result<()> {
        // In a place that can only be read, nobody deletes it either.
        if let Err(error) = self.place.put_mark(RESTORING, MARKING).await {
            tracing::debug!(%error, "the snapshot is not marked as being restored from");
        }
        // Behind the mark: who deletes looks for the mark first.
        match Described::read(&self.place).await? {
            Described::Whole(bytes) if digest_of(&bytes) == self.digest => Ok(()),
            Described::Whole(_) | Described::Deleted(_) | Described::Not => {
                self.release().await;
                Err(Error::SnapshotBeingDeleted(self.name.clone()))
            }
        }
    }

    /// Ends what [`Self::hold`] began.
    pub(crate) async fn release(&self) {
        if let Err(error) = self.place.remove_file(RESTORING, MARKING).await {
            tracing::debug!(%error, "the snapshot stays marked as being restored from");
        }
    }
}
