//! Commits and removes compressed memories.
//!
//! A memory is valid while every part that it covers is of a version that searches find.

use std::collections::HashSet;

use clew_core::{DocumentId, MemoryRecord};

use crate::boxed;
use crate::error::Result;
use crate::shard::ShardWriter;
use crate::storage::memories::{StagedMemory, is_of_memory};

impl ShardWriter {
    /// Commits a memory that replaces others, if every part that it covers is of a version that
    /// searches find. Returns whether it did. Takes one short operation: the file was written
    /// before, with [`crate::ShardReader::stage_memory`].
    ///
    /// # Errors
    /// Returns [`crate::Error::LostRace`] if another process owns the shard; the memory is not
    /// stored then. Otherwise returns a storage error. The tables stay as they were known.
    #[boxed]
    pub async fn commit_memory(
        &mut self,
        memory: StagedMemory,
        replaced: &[String],
    ) -> Result<bool> {
        self.ensure_known().await?;
        let StagedMemory { record, file } = memory;
        if !self.catalogue.finds_all(&record.parts) {
            file.discard().await;
            return Ok(false);
        }
        let stored = async {
            self.memories.publish(file).await?;
            self.sources.confirm_owned().await
        };
        if let Err(error) = stored.await {
            // The file may have its name. The current owner does not know of it, and may have
            // forgotten documents that it covers.
            if let Err(error) = self.memories.take_back(&record).await {
                tracing::warn!(%error, "a file that is no memory stays until the next sweep");
            }
            return Err(error);
        }
        self.memories.show(record);
        if let Err(error) = self.memories.remove(|known| replaced.contains(&known.key)).await {
            tracing::warn!(%error, "replaced memories stay until the next sweep");
        }
        Ok(true)
    }

    /// Removes memories that cover a document which was replaced or forgotten, and files that are
    /// no memories. Returns the number of removed memories.
    ///
    /// # Errors
    /// Returns a storage error. The tables stay as they were known.
    #[boxed]
    pub async fn sweep_memories(&mut self) -> Result<usize> {
        self.ensure_known().await?;
        let is_gone = |record: &MemoryRecord| !self.catalogue.finds_all(&record.parts);
        let removed = self.memories.remove(is_gone).await?;
        self.remove_other_memories(|_any| true).await?;
        Ok(removed)
    }

    /// Removes what interrupted writes and removals of memories left. Any other file stays, and the
    /// scan after forgetting reports it.
    pub(crate) async fn remove_unfinished_memories(&mut self) -> Result<()> {
        self.remove_other_memories(is_of_memory).await
    }

    async fn remove_other_memories(&mut self, which: fn(&str) -> bool) -> Result<()> {
        let mut others = self.memories.others().await?;
        others.retain(|name| which(name));
        if others.is_empty() {
            return Ok(());
        }
        // Only files that were listed before are removed, so none of a later owner.
        self.sources.confirm_owned().await?;
        self.memories.remove_others(others).await
    }

    /// Removes the memories that cover any of these documents, in any version.
    pub(crate) async fn forget_memories(&mut self, ids: &[DocumentId]) -> Result<()> {
        let ids: HashSet<&DocumentId> = ids.iter().collect();
        let covers =
            |record: &MemoryRecord| record.parts.iter().any(|part| ids.contains(&part.document_id));
        if self.memories.remove(covers).await? > 0 {
            self.remove_unfinished_memories().await?;
        }
        Ok(())
    }

    /// Returns how many memories cover a document.
    pub(crate) fn memories_of(&self, id: &DocumentId) -> u64 {
        self.memories.covering(id)
    }
}
