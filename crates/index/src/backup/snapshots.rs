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

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{
    Access, Copied, CorpusName, CorpusSettings, ShardCopy, ShardIndex, SnapshotName,
    SnapshotSummary, Timestamp,
};
use futures::{Stream, StreamExt};
use lancedb::Table;
use serde::{Deserialize, Serialize};

use crate::backup::deletion::Described;
use crate::backup::transfer::{FileRecord, damaged};
use crate::error::{Error, Result};
use crate::read::reader::ShardReader;
use crate::registry::{FORMAT, format_of};
use crate::storage::Place;
use crate::storage::url::Location;
use crate::table::named_files::{INDEXES, NamedFiles, TRANSACTIONS};
use crate::table::schema::TableKind;

/// File whose presence makes a snapshot complete.
pub(crate) const DESCRIPTION: &str = "snapshot.json";
/// Number of files that are copied at the same time.
const AT_ONCE: usize = 4;
/// Number of files after which the progress is written down, so that they are not copied again
/// after a crash.
const NOTED_AFTER: usize = 64;

pub(crate) const READING: &str = "read the snapshot";
const WRITING: &str = "write the snapshot";

/// Snapshots of corpora in one place.
#[derive(Clone, Debug)]
pub struct Snapshots {
    place: Place,
}

/// Complete snapshot.
#[derive(Clone, Debug)]
pub struct WholeSnapshot {
    pub(crate) name: SnapshotName,
    pub(crate) place: Place,
    pub(crate) description: Description,
    /// Hash of its description, which covers all of it.
    pub(crate) digest: String,
}

/// Stored description of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    format: u32,
    /// Release that wrote it, for people.
    written_by: String,
    taken_at: Timestamp,
    pub corpus: CorpusSettings,
    /// Shards by index.
    pub shards: Vec<ShardPart>,
}

/// Stored description of a shard of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShardPart {
    /// Hash of its list of files.
    digest: String,
    documents: u64,
    files: u64,
    bytes: u64,
}

/// Stored list of what a shard holds in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShardFiles {
    documents: u64,
    pub files: Vec<FileRecord>,
}

impl Snapshots {
    /// Opens the snapshots in a place.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the place cannot be reached.
    pub async fn open(location: &Location) -> Result<Self> {
        Ok(Self { place: Place::of(location).await? })
    }

    /// Returns the snapshots in an open place. For tests.
    #[doc(hidden)]
    pub fn in_place(place: Place) -> Self {
        Self { place }
    }

    pub(crate) fn place_of(&self, corpus: &CorpusName, name: &SnapshotName) -> Place {
        self.place.join(corpus.as_str()).join(name.as_str())
    }

    /// Checks that no complete snapshot has this name, nor one that is being deleted.
    async fn check_free(&self, corpus: &CorpusName, name: &SnapshotName) -> Result<()> {
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
        for left in found.keys().filter(|name| !named.contains(*name)) {
            place.remove_file(left, WRITING).await?;
        }
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        let corpus = corpus.clone();
        let format = format_of(&corpus);
        let description = Description { format, written_by, taken_at, corpus, shards };
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
        let description = description(&bytes)?;
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

impl Description {
    fn summary(&self, name: &SnapshotName) -> SnapshotSummary {
        SnapshotSummary {
            corpus: self.corpus.name.clone(),
            name: name.clone(),
            taken_at: self.taken_at,
            documents: self.shards.iter().map(|shard| shard.documents).sum(),
            files: self.shards.iter().map(|shard| shard.files).sum(),
            bytes: self.shards.iter().map(|shard| shard.bytes).sum(),
        }
    }
}

impl ShardReader {
    /// Continues to copy the newest state of the shard to a snapshot. Starts no further file after
    /// `budget`.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotExists`] if a complete snapshot of that name exists,
    /// [`Error::SnapshotBeingDeleted`] if one is being deleted, [`Error::LostRace`] if another
    /// process owns the shard, [`Error::ReadersActive`] while forgotten text is still on the disk,
    /// or an error of either storage.
    pub async fn copy_to_snapshot(
        &self,
        snapshots: &Snapshots,
        name: &SnapshotName,
        shard: ShardIndex,
        budget: Duration,
    ) -> Result<ShardCopy> {
        let until = Instant::now() + budget;
        // Held to the end: none of its files is removed as long as it is held.
        let pinned = self.snapshot();
        // Asked after pinning: the view then holds nothing that was forgotten before, not even as
        // hidden rows.
        if self.is_erasure_wanted() {
            return Err(Error::ReadersActive);
        }
        snapshots.check_free(&pinned.corpus, name).await?;
        let place = snapshots.place_of(&pinned.corpus, name);
        let to = place.join(&shard.to_string());
        let mut wanted = BTreeSet::new();
        for (kind, table) in [
            (TableKind::Sources, &pinned.sources),
            (TableKind::Chunks, &pinned.chunks),
            (TableKind::Nodes, &pinned.nodes),
        ] {
            wanted.extend(Box::pin(files_of(kind, table, self.place())).await?);
        }
        let found = self.place().files("list the shard's files").await?;
        let bytes = |name: String| match found.get(&name) {
            Some(bytes) => Ok((name, *bytes)),
            None => Err(damaged(&name, "it is not there")),
        };
        let mut wanted: BTreeMap<String, u64> =
            wanted.into_iter().map(bytes).collect::<Result<_>>()?;
        // A memory that is gone meanwhile is made anew after a restore.
        let memories = self.memory_files();
        wanted.extend(
            memories.into_iter().filter_map(|name| Some((name.clone(), *found.get(&name)?))),
        );

        let mut noted = Noted::read(&place, shard).await?;
        let there = to.files(READING).await?;
        noted.keep(|file| {
            let is_same = |bytes: Option<&u64>| bytes == Some(&file.bytes);
            is_same(wanted.get(&file.name)) && is_same(there.get(&file.name))
        });
        let missing: Vec<FileRecord> = wanted
            .iter()
            .filter(|(name, _)| !noted.files.contains_key(*name))
            .map(|(name, bytes)| FileRecord::new(name, *bytes))
            .collect();
        let (from, to) = (self.place(), &to);
        let copy = |file: FileRecord| async move { from.copy_file(&file, to, WRITING).await };
        let mut copies = std::pin::pin!(in_time(missing, until, copy));
        let mut copied = Ok(());
        while let Some(result) = copies.next().await {
            match result {
                Ok(file) => noted.add(file, &place).await?,
                Err(error) => copied = Err(error),
            }
        }
        noted.write(&place).await?;
        copied?;
        let bytes = noted.files.values().map(|file| file.bytes).sum();
        let copied = Copied {
            files: noted.files.len() as u64,
            of_files: wanted.len() as u64,
            bytes,
            of_bytes: wanted.values().sum(),
        };
        if copied.files < copied.of_files {
            return Ok(ShardCopy { copied, digest: None });
        }
        if !self.is_current().await? {
            let source = "the shard has another owner by now".into();
            return Err(Error::LostRace { table: TableKind::Sources, source });
        }
        let documents = pinned.catalogue.counts(&Access::all()).accepted;
        let files = noted.files.into_values().collect();
        let listed = to_json(&ShardFiles { documents, files })?;
        let digest = digest_of(&listed);
        place.put_file(&file_of(shard), listed, WRITING).await?;
        Ok(ShardCopy { copied, digest: Some(digest) })
    }
}

/// Copies files with `copy`, several at the same time. Starts none after `until` except the first.
pub(crate) fn in_time<F: Future<Output = Result<FileRecord>>>(
    files: Vec<FileRecord>,
    until: Instant,
    copy: impl FnMut(FileRecord) -> F,
) -> impl Stream<Item = Result<FileRecord>> {
    let mut is_first = true;
    let in_time = move |_: &FileRecord| std::mem::take(&mut is_first) || Instant::now() < until;
    let files = files.into_iter().take_while(in_time);
    futures::stream::iter(files.map(copy)).buffer_unordered(AT_ONCE)
}

/// Progress of copying a shard to an incomplete snapshot.
struct Noted {
    name: String,
    files: BTreeMap<String, FileRecord>,
    unwritten: usize,
}

impl Noted {
    async fn read(place: &Place, shard: ShardIndex) -> Result<Self> {
        let name = format!("{shard}.part.json");
        let bytes = place.get_file(&name, None, READING).await?.unwrap_or_default();
        // If the progress cannot be read, everything is copied again.
        let files: Vec<FileRecord> = serde_json::from_slice(&bytes).unwrap_or_default();
        let files = files.into_iter().map(|file| (file.name.clone(), file)).collect();
        Ok(Self { name, files, unwritten: 0 })
    }

    fn keep(&mut self, is_kept: impl Fn(&FileRecord) -> bool) {
        self.files.retain(|_, file| is_kept(file));
    }

    async fn add(&mut self, file: FileRecord, place: &Place) -> Result<()> {
        self.files.insert(file.name.clone(), file);
        self.unwritten += 1;
        if self.unwritten >= NOTED_AFTER { self.write(place).await } else { Ok(()) }
    }

    async fn write(&mut self, place: &Place) -> Result<()> {
        if self.unwritten == 0 {
            return Ok(());
        }
        let files: Vec<&FileRecord> = self.files.values().collect();
        place.put_file(&self.name, to_json(&files)?, WRITING).await?;
        self.unwritten = 0;
        Ok(())
    }
}

/// Returns the files of the version that a table shows, by name in the shard's place.
async fn files_of(kind: TableKind, table: &Table, shard: &Place) -> Result<BTreeSet<String>> {
    let named = NamedFiles::of(kind, table).await?;
    let folder = format!("{}.lance", kind.name());
    let table = shard.join(&folder);
    let mut files: BTreeSet<String> =
        named.rows.into_keys().chain(named.deletions.into_keys()).chain(named.manifest).collect();
    for index in named.indexes {
        let names = table.join(INDEXES).join(&index).names(READING).await?;
        files.extend(names.into_iter().map(|name| format!("{INDEXES}/{index}/{name}")));
    }
    if let Some(transaction) = named.transaction {
        // The file exists only if the manifest does not hold the transaction itself. Commits that
        // read this version look at the transaction that made it.
        let present = table.join(TRANSACTIONS).names(READING).await?;
        let is_there = present.contains(&transaction);
        files.extend(is_there.then(|| format!("{TRANSACTIONS}/{transaction}")));
    }
    Ok(files.into_iter().map(|name| format!("{folder}/{name}")).collect())
}

async fn read_shard(place: &Place, index: ShardIndex, digest: &str) -> Result<ShardFiles> {
    let name = file_of(index);
    let bytes = place.get_file(&name, None, READING).await?;
    let bytes = bytes.ok_or_else(|| damaged(&name, "it is not there"))?;
    if digest_of(&bytes) != digest {
        return Err(damaged(&name, "it is not the one that the snapshot was made of"));
    }
    serde_json::from_slice(&bytes).map_err(|error| damaged(&name, error.to_string()))
}

/// Parses a description. Reads the format first, because it decides what else there may be. It is
/// the format of the settings, the only part that releases have written differently so far. Refuses
/// a newer one.
fn description(bytes: &[u8]) -> Result<Description> {
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

fn file_of(shard: ShardIndex) -> String {
    format!("{shard}.json")
}

pub(crate) fn digest_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Bytes> {
    let json = serde_json::to_vec_pretty(value);
    json.map(Into::into).map_err(|error| Error::of_file(WRITING, error.into()))
}
