//! Restores a corpus from a snapshot.
//!
//! Files are copied to a place that no reader takes for a corpus until all of them are there: a
//! folder of another name, or the prefix of a corpus whose register says that it is being restored.
//! So a restore may stop at any moment, any process may continue it, and every corpus that can be
//! found is complete.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clew_core::{
    Copied, CorpusSettings, DocumentId, Restoration, RestoreStep, ShardIndex, Timestamp, placement,
};
use futures::StreamExt;

use crate::backup::snapshots::WholeSnapshot;
use crate::backup::transfer::{FileRecord, in_time};
use crate::boxed;
use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::settings::{ShardSettings, Takeover};
use crate::shard::ShardWriter;
use crate::storage::Storage;

/// Empty file that marks a corpus as restored: nothing is copied to it any more.
const COPIED: &str = "restored";

const WRITING: &str = "restore the corpus";

/// Maximum wait for readers of a shard that is being restored. There are none.
const ERASE_PATIENCE: Duration = Duration::from_secs(5);

impl Registry {
    /// Continues to restore a corpus. Starts to copy no further file after `budget`. A corpus whose
    /// restore begins with this call counts as created at `now`.
    ///
    /// # Errors
    /// Returns [`Error::CorpusExists`] if the corpus exists, [`Error::Corrupt`] if the snapshot is
    /// damaged, or an error of either storage.
    #[boxed]
    pub async fn restore(
        &self,
        from: &WholeSnapshot,
        asked: &Restoration,
        now: Timestamp,
        budget: Duration,
    ) -> Result<RestoreStep> {
        let until = Instant::now() + budget;
        let settings = CorpusSettings { created_at: now, ..from.settings().clone() };
        let Some((settings, place)) = self.begin_restore(&settings, &from.digest).await? else {
            return match (self.get(&asked.corpus).await, asked.begun) {
                // The answer that reported the end of the restore was lost.
                (Ok(found), Some(begun)) if found.created_at == begun => {
                    Ok(step(begun, Copied::default(), 0, true))
                }
                _ => Err(Error::CorpusExists(asked.corpus.clone())),
            };
        };
        let begun = settings.created_at;
        from.hold().await?;
        let mut copied = Copied::default();
        if place.get_file(COPIED, None, WRITING).await?.is_none() {
            let mut named = BTreeSet::new();
            for index in (0..settings.shards).map(ShardIndex) {
                copied += copy_shard(from, index, &place, until, &mut named).await?;
            }
            if copied.files < copied.of_files {
                return Ok(step(begun, copied, 0, false));
            }
            remove_others(&place, &named).await?;
            place.put_mark(COPIED, WRITING).await?;
        }
        let left_out = Box::pin(leave_out(&settings, &place, &asked.leave_out)).await?;
        from.release().await;
        if !self.finish_restore(&settings, &from.digest).await? {
            return Err(Error::CorpusExists(asked.corpus.clone()));
        }
        Ok(step(begun, copied, left_out, true))
    }
}

fn step(begun: Timestamp, copied: Copied, left_out: u64, is_done: bool) -> RestoreStep {
    RestoreStep { copied, begun, left_out, is_done }
}

/// Copies the files of a shard that do not exist yet. Adds the names of all its files to `named`.
async fn copy_shard(
    from: &WholeSnapshot,
    index: ShardIndex,
    place: &Storage,
    until: Instant,
    named: &mut BTreeSet<String>,
) -> Result<Copied> {
    let (source, to) = (from.place.join(&index.to_string()), place.join(&index.to_string()));
    let files = from.shard(index).await?.files;
    let there = to.files(WRITING).await?;
    let (there, missing): (Vec<FileRecord>, Vec<FileRecord>) =
        files.into_iter().partition(|file| there.get(&file.name) == Some(&file.bytes));
    let all = || there.iter().chain(&missing);
    named.extend(all().map(|file| format!("{index}/{}", file.name)));
    let bytes = |files: &[FileRecord]| files.iter().map(|file| file.bytes).sum::<u64>();
    let mut copied = Copied {
        files: there.len() as u64,
        of_files: (there.len() + missing.len()) as u64,
        bytes: bytes(&there),
        of_bytes: bytes(&there) + bytes(&missing),
    };
    let (source, to) = (&source, &to);
    let copy = |file: FileRecord| async move { source.copy_file(&file, to, WRITING).await };
    let mut copies = std::pin::pin!(in_time(missing, until, copy));
    while let Some(file) = copies.next().await {
        copied.files += 1;
        copied.bytes += file?.bytes;
    }
    Ok(copied)
}

/// Removes files of shards that the snapshot does not name, which interrupted copying leaves.
async fn remove_others(place: &Storage, named: &BTreeSet<String>) -> Result<()> {
    let found = place.files(WRITING).await?.into_keys();
    // The settings lie beside the shards.
    let others = found.filter(|name| name.contains('/') && !named.contains(name));
    place.remove_files(others, WRITING).await
}

/// Forgets documents, down to the bytes on disk. Returns how many existed.
async fn leave_out(
    settings: &CorpusSettings,
    place: &Storage,
    documents: &[DocumentId],
) -> Result<u64> {
    let mut left_out = 0;
    for index in (0..settings.shards).map(ShardIndex) {
        let is_here = |id: &&DocumentId| placement::shard_of(id, settings.shards) == index;
        let here: Vec<DocumentId> = documents.iter().filter(is_here).cloned().collect();
        if here.is_empty() {
            continue;
        }
        let shard = place.join(&index.to_string());
        let settings = ShardSettings::of(settings);
        let mut shard =
            Box::pin(ShardWriter::open(&shard, settings, Takeover::Uncontested)).await?;
        let receipts = shard.forget(&here).await?;
        // Also if an earlier call was interrupted.
        shard.erase(ERASE_PATIENCE).await?;
        left_out += receipts.iter().filter(|receipt| receipt.versions > 0).count() as u64;
    }
    Ok(left_out)
}
