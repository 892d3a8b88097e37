//! Copies shards to snapshots, in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use clew_core::{Access, Copied, ShardCopy, ShardIndex, SnapshotName};
use futures::StreamExt;
use lancedb::Table;

use crate::backup::description::{READING, ShardFiles, WRITING, digest_of, file_of, to_json};
use crate::backup::snapshots::Snapshots;
use crate::backup::transfer::{FileRecord, damaged, in_time};
use crate::boxed;
use crate::error::{Error, Result};
use crate::read::reader::ShardReader;
use crate::storage::Storage;
use crate::table::kind::TableKind;
use crate::table::named_files::{INDEXES, NamedFiles, TRANSACTIONS};

/// Number of files after which the progress is written down, so that they are not copied again
/// after a crash.
const NOTED_AFTER: usize = 64;

impl ShardReader {
    /// Continues to copy the newest state of the shard to a snapshot. Starts no further file after
    /// `budget`.
    ///
    /// # Errors
    /// Returns [`Error::SnapshotExists`] if a complete snapshot of that name exists,
    /// [`Error::SnapshotBeingDeleted`] if one is being deleted, [`Error::LostRace`] if another
    /// process owns the shard, [`Error::ReadersActive`] while forgotten text is still on the disk,
    /// or an error of either storage.
    #[boxed]
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

/// Progress of copying a shard to an incomplete snapshot.
struct Noted {
    name: String,
    files: BTreeMap<String, FileRecord>,
    unwritten: usize,
}

impl Noted {
    async fn read(place: &Storage, shard: ShardIndex) -> Result<Self> {
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

    async fn add(&mut self, file: FileRecord, place: &Storage) -> Result<()> {
        self.files.insert(file.name.clone(), file);
        self.unwritten += 1;
        if self.unwritten >= NOTED_AFTER { self.write(place).await } else { Ok(()) }
    }

    async fn write(&mut self, place: &Storage) -> Result<()> {
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
async fn files_of(kind: TableKind, table: &Table, shard: &Storage) -> Result<BTreeSet<String>> {
    let named = NamedFiles::of(kind, table).await?;
    let folder = format!("{}.lance", kind.name());
    let table = shard.join(&folder);
    let mut files: BTreeSet<String> =
        named.rows.into_keys().chain(named.deletions.into_keys()).chain(named.manifest).collect();
    for index in named.indexes.into_keys() {
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
