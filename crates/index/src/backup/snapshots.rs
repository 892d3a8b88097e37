//! Snapshots of corpora, in a place of their own.
//!
//! ```text
//! CORPUS/SNAPSHOT/shard-0/…          files of the shard's tables and memories, in the layout of a
//!                                    data directory
//!                 shard-0.part.json  what was copied so far; removed when the snapshot is finished
//!                 shard-0.json       what the shard holds: each file with its length and hash
//!                 snapshot.json      written last: the corpus' settings, and the hash of each
//!                                    shard-N.json; a tombstone if the snapshot is being deleted
//!                 restoring          exists while a corpus is being restored from the snapshot
//! ```
//!
//! Files of tables are written once and never changed, and a version of a table is a list of them.
//! So a shard is copied in steps, while it goes on accepting writes. Each step lists the files that
//! the newest version names and copies those that are not there yet. The step that finds all of
//! them copied has one state of the shard in the snapshot, the newest one when the step began.
//! Nothing is held between two steps, so forgetting never waits for more than one step.
//!
//! Failures are left out: after a restore, the documents are tried again.

use std::collections::BTreeSet;

use clew_core::{CorpusName, CorpusSettings, ShardIndex, SnapshotName, SnapshotSummary, Timestamp};

use crate::backup::description::{
    DESCRIPTION, Described, Description, READING, ShardFiles, ShardPart, WRITING, digest_of,
    file_of, read_shard, to_json,
};
use crate::backup::transfer::damaged;
use crate::boxed;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::url::StorageUrl;

/// Snapshots of corpora in one place.
#[derive(Clone, Debug)]
pub struct Snapshots {
    place: Storage,
}

/// Complete snapshot.
#[derive(Clone, Debug)]
pub struct WholeSnapshot {
    pub(crate) name: SnapshotName,
    pub(crate) place: Storage,
    pub(crate) description: Description,
    /// Hash of its description, which covers all of it.
    pub(crate) digest: String,
}

impl Snapshots {
    /// Opens the snapshots in a place.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the place cannot be reached.
    #[boxed]
    pub async fn open(location: &StorageUrl) -> Result<Self> {
        Ok(Self { place: Storage::of(location).await? })
    }

    /// Returns the snapshots in an open place. For tests.
    #[doc(hidden)]
    pub fn in_place(place: Storage) -> Self {
        Self { place }
    }

    pub(crate) fn place_of(&self, corpus: &CorpusName, name: &SnapshotName) -> Storage {
        self.place.join(corpus.as_str()).join(name.as_str())
    }

    /// Checks that no complete snapshot has this name, nor one that is being deleted.
    pub(super) async fn check_free(&self, corpus: &CorpusName, name: &SnapshotName) -> Result<()> {
        match Described::read(&self.place_of(corpus, name)).await? {
            Described::Not => Ok(()),
            Described::Whole(_) => Err(Error::SnapshotExists(name.clone())),
            Described::Deleted(_) => Err(Error::SnapshotBeingDeleted(name.clone())),
        }
    }

    /// Completes a snapshot whose shards are all copied. `digests` are those of the shards, by
    /// index.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotExists`] if a complete snapshot of that name exists,
    /// [`Error::SnapshotBeingDeleted`] if one is being deleted, or a storage error. Returns
    /// [`Error::Corrupt`] if copied files are gone, for example if two callers took a snapshot of
    /// the same name at the same time; take it again then.
    #[boxed]
    pub async fn finish(
        &self,
        corpus: &CorpusSettings,
        name: &SnapshotName,
        digests: &[String],
        taken_at: Timestamp,
    ) -> Result<SnapshotSummary> {
        self.check_free(&corpus.name, name).await?;
        let place = self.place_of(&corpus.name, name);
        let found = place.files(READING).await?;
        let mut named = BTreeSet::new();
        let mut shards = Vec::with_capacity(digests.len());
        for (index, digest) in (0..).map(ShardIndex).zip(digests) {
            let listed = read_shard(&place, index, digest).await?;
            let mut part = ShardPart {
                digest: digest.clone(),
                documents: listed.documents,
                files: listed.files.len() as u64,
                bytes: 0,
            };
            for file in &listed.files {
                let file_name = format!("{index}/{}", file.name);
                if found.get(&file_name) != Some(&file.bytes) {
                    return Err(damaged(&file_name, "it is not there as it was copied"));
                }
                part.bytes += file.bytes;
                named.insert(file_name);
            }
            named.insert(file_of(index));
            shards.push(part);
        }
        // These files are of states that were newer when they were copied. They may hold documents
        // that were forgotten since.
        let left = found.into_keys().filter(|name| !named.contains(name));
        place.remove_files(left, WRITING).await?;
        let description = Description::new(corpus.clone(), shards, taken_at);
        if !place.put_new_file(DESCRIPTION, to_json(&description)?, WRITING).await? {
            self.check_free(&description.corpus.name, name).await?;
            return Err(Error::SnapshotExists(name.clone()));
        }
        Ok(description.summary(name))
    }

    /// Returns a complete snapshot.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotNotFound`] if nothing of it exists, [`Error::SnapshotUnfinished`]
    /// if it was not completed, [`Error::SnapshotBeingDeleted`] if it is being deleted,
    /// [`Error::NewerFormat`] if a newer release wrote it, [`Error::Corrupt`] if its description
    /// cannot be read, and [`Error::Invalid`] if it is of a corpus of another name.
    #[boxed]
    pub async fn read(&self, corpus: &CorpusName, name: &SnapshotName) -> Result<WholeSnapshot> {
        let place = self.place_of(corpus, name);
        let bytes = match Described::read(&place).await? {
            Described::Whole(bytes) => bytes,
            Described::Deleted(_) => return Err(Error::SnapshotBeingDeleted(name.clone())),
            Described::Not => {
                return Err(match place.names(READING).await?.is_empty() {
                    true => Error::SnapshotNotFound { corpus: corpus.clone(), name: name.clone() },
                    false => Error::SnapshotUnfinished(name.clone()),
                });
            }
        };
        let description = Description::parse(&bytes)?;
        if description.corpus.name != *corpus {
            let problem = format!(
                "expected `{}`, of which the snapshot is: passages hold their corpus' name",
                description.corpus.name
            );
            return Err(Error::invalid("corpus", problem));
        }
        Ok(WholeSnapshot { name: name.clone(), place, description, digest: digest_of(&bytes) })
    }

    /// Returns the names of the snapshots of a corpus, including incomplete ones, in order.
    pub(crate) async fn names(&self, corpus: &CorpusName) -> Result<Vec<SnapshotName>> {
        let names = self.place.join(corpus.as_str()).names(READING).await?;
        let mut names: Vec<SnapshotName> = names.iter().filter_map(|it| it.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the complete snapshots of a corpus, by name. Leaves out and logs those that cannot
    /// be read. Continues to delete those that are being deleted.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn list(&self, corpus: &CorpusName) -> Result<Vec<SnapshotSummary>> {
        let mut found = Vec::new();
        for name in self.names(corpus).await? {
            match self.read(corpus, &name).await {
                Ok(snapshot) => found.push(snapshot.description.summary(&name)),
                Err(Error::SnapshotNotFound { .. } | Error::SnapshotUnfinished(_)) => {}
                Err(Error::SnapshotBeingDeleted(_)) => self.go_on_deleting(corpus, &name).await,
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                Err(error) => tracing::warn!(%corpus, %name, %error, "a snapshot is no use"),
            }
        }
        Ok(found)
    }
}

impl WholeSnapshot {
    /// Returns when the snapshot was completed.
    pub(crate) fn taken_at(&self) -> Timestamp {
        self.description.taken_at
    }

    /// Returns the settings of its corpus.
    pub fn settings(&self) -> &CorpusSettings {
        &self.description.corpus
    }

    /// Returns the name of the largest file of a shard. For tests that damage it.
    #[doc(hidden)]
    #[boxed]
    pub async fn some_file(&self, index: ShardIndex) -> Result<String> {
        let files = self.shard(index).await?.files;
        let largest = files.into_iter().max_by_key(|file| file.bytes);
        Ok(largest.map(|file| file.name).unwrap_or_default())
    }

    /// Returns what a shard holds.
    pub(crate) async fn shard(&self, index: ShardIndex) -> Result<ShardFiles> {
        let part = self.description.shards.get(index.0 as usize);
        let part = part.ok_or_else(|| damaged(DESCRIPTION, format!("it has no {index}")))?;
        read_shard(&self.place, index, &part.digest).await
    }
}
