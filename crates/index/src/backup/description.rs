//! What a snapshot stores about itself: its description, the lists of its shards' files, and the
//! tombstone of one that is being deleted.

use bytes::Bytes;
use clew_core::{CorpusSettings, ShardIndex, SnapshotName, SnapshotSummary, Timestamp};
use serde::{Deserialize, Serialize};

use crate::backup::transfer::{FileRecord, damaged};
use crate::error::{Error, Result};
use crate::registry::format::{FORMAT, format_of};
use crate::storage::Storage;

/// File whose presence makes a snapshot complete.
pub(crate) const DESCRIPTION: &str = "snapshot.json";
pub(crate) const READING: &str = "read the snapshot";
pub(crate) const WRITING: &str = "write the snapshot";

/// Stored description of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    format: u32,
    /// Release that wrote it, for people.
    written_by: String,
    pub taken_at: Timestamp,
    pub corpus: CorpusSettings,
    /// Shards by index.
    pub shards: Vec<ShardPart>,
}

/// Stored description of a shard of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShardPart {
    /// Hash of its list of files.
    pub digest: String,
    pub documents: u64,
    pub files: u64,
    pub bytes: u64,
}

/// Stored list of what a shard holds in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShardFiles {
    pub documents: u64,
    pub files: Vec<FileRecord>,
}

impl Description {
    /// Returns the description of a snapshot that this release takes.
    pub(crate) fn new(corpus: CorpusSettings, shards: Vec<ShardPart>, taken_at: Timestamp) -> Self {
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: format_of(&corpus), written_by, taken_at, corpus, shards }
    }

    /// Returns what a listing shows of the snapshot.
    pub(crate) fn summary(&self, name: &SnapshotName) -> SnapshotSummary {
        SnapshotSummary {
            corpus: self.corpus.name.clone(),
            name: name.clone(),
            taken_at: self.taken_at,
            documents: self.shards.iter().map(|shard| shard.documents).sum(),
            files: self.shards.iter().map(|shard| shard.files).sum(),
            bytes: self.shards.iter().map(|shard| shard.bytes).sum(),
        }
    }

    /// Parses a description. Reads the format first, because it decides what else there may be. It
    /// is the format of the settings, the only part that releases have written differently so far.
    /// Refuses a newer one.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let failed = |error: serde_json::Error| damaged(DESCRIPTION, error.to_string());
        let Versioned { format } = serde_json::from_slice(bytes).map_err(failed)?;
        if format > FORMAT {
            let what = "the snapshot".to_owned();
            return Err(Error::NewerFormat { what, found: format, known: FORMAT });
        }
        serde_json::from_slice(bytes).map_err(failed)
    }
}

/// Format of a tombstone: beyond what earlier releases know, so that they refuse it.
const TOMBSTONE: u32 = u32::MAX;

/// Content that replaces the description of a snapshot that is being deleted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    format: u32,
    /// Release that wrote it, for people.
    written_by: String,
    /// Identifier of the deletion.
    deleted: String,
}

impl Tombstone {
    /// Returns the tombstone of the deletion of this identifier.
    pub(crate) fn new(deleted: String) -> Self {
        Self { format: TOMBSTONE, written_by: env!("CARGO_PKG_VERSION").to_owned(), deleted }
    }
}

/// Content of the file with a snapshot's description.
pub(crate) enum Described {
    /// No such file: the snapshot is being taken, or was given up.
    Not,
    /// A description.
    Whole(Bytes),
    /// A tombstone.
    Deleted(Bytes),
}

impl Described {
    /// Reads the description of the snapshot in a place.
    pub(crate) async fn read(place: &Storage) -> Result<Self> {
        let Some(bytes) = place.get_file(DESCRIPTION, None, READING).await? else {
            return Ok(Self::Not);
        };
        Ok(match serde_json::from_slice::<Tombstone>(&bytes) {
            Ok(_) => Self::Deleted(bytes),
            Err(_) => Self::Whole(bytes),
        })
    }
}

/// Reads what a shard holds in a snapshot, from the list of that digest.
pub(crate) async fn read_shard(
    place: &Storage,
    index: ShardIndex,
    digest: &str,
) -> Result<ShardFiles> {
    let name = file_of(index);
    let bytes = place.get_file(&name, None, READING).await?;
    let bytes = bytes.ok_or_else(|| damaged(&name, "it is not there"))?;
    if digest_of(&bytes) != digest {
        return Err(damaged(&name, "it is not the one that the snapshot was made of"));
    }
    serde_json::from_slice(&bytes).map_err(|error| damaged(&name, error.to_string()))
}

/// Returns the name of the file with what a shard holds.
pub(crate) fn file_of(shard: ShardIndex) -> String {
    format!("{shard}.json")
}

/// Returns the hash by which a snapshot refers to a part of it.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Serializes a part of a snapshot.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Bytes> {
    let json = serde_json::to_vec_pretty(value);
    json.map(Into::into).map_err(|error| Error::of_file(WRITING, error.into()))
}
