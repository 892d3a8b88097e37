//! Restores a corpus out of a snapshot.
//!
//! What is copied lies where nobody looks for a corpus, until all of it is there: in a folder of another
//! name, or below the prefix of a corpus whose register says that it is being restored. So a restoration may
//! end at any moment and be gone on with by anybody, and what can be found is whole.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clew_core::{
    Copied, CorpusSettings, DocumentId, Restoration, RestoreStep, ShardIndex, Timestamp, placement,
};
use futures::StreamExt;

use crate::corpus_snapshot::{WholeSnapshot, in_time};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::registry::Registry;
use crate::shard::{Shard, ShardSettings, Takeover};
use crate::transfer::FileRecord;

/// An empty file of a corpus that was restored: from then on nothing is copied to it any more.
const COPIED: &str = "restored";

const WRITING: &str = "restore the corpus";

/// How long what reads a shard that is being restored is waited for; nobody does.
const ERASE_PATIENCE: Duration = Duration::from_secs(5);

impl Registry {
    /// Goes on restoring a corpus, and begins to copy no further file after `budget`. A corpus that is
    /// begun to be restored counts as made at `now`.
    ///
    /// # Errors
    /// [`Error::CorpusExists`]; [`Error::Corrupt`] if the snapshot is damaged; those of both places.
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
                // The answer that told of its end was lost.
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

/// Copies files of a shard that are not there yet. Adds the names of all to `named`.
async fn copy_shard(
    from: &WholeSnapshot,
    index: ShardIndex,
    place: &Place,
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

/// Removes files of shards that the snapshot does not name, as interrupted copying leaves.
async fn remove_others(place: &Place, named: &BTreeSet<String>) -> Result<()> {
    for name in place.files(WRITING).await?.into_keys() {
        // Beside the shards lie the settings.
        if name.contains('/') && !named.contains(&name) {
            place.remove_file(&name, WRITING).await?;
        }
    }
    Ok(())
}

/// Forgets documents, down to the bytes on disk; returns how many there were.
async fn leave_out(
    settings: &CorpusSettings,
    place: &Place,
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
        let mut shard = Box::pin(Shard::open(&shard, settings, Takeover::Uncontested)).await?;
        let receipts = shard.forget(&here).await?;
        // Also where it was interrupted before.
        shard.erase(ERASE_PATIENCE).await?;
        left_out += receipts.iter().filter(|receipt| receipt.versions > 0).count() as u64;
    }
    Ok(left_out)
}
