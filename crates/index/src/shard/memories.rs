//! Commits and removes compressed memories.
//!
//! A memory is valid while every part that it covers is of a version that searches find.

use std::collections::HashSet;

use clew_core::{DocumentId, MemoryPart, MemoryRecord};

use crate::error::Result;
use crate::shard::ShardWriter;
use crate::storage::memories::is_of_memory;

impl ShardWriter {
    /// Writes a memory that replaces others, if every part that it covers is of a version that
    /// searches find. Returns whether it did.
    ///
    /// # Errors
    /// Returns [`crate::Error::LostRace`] if another process owns the shard; the memory is not
    /// stored then. Otherwise returns a storage error.
    pub async fn commit_memory(
        &mut self,
        record: MemoryRecord,
        snapshot: &[u8],
        replaced: &[String],
    ) -> Result<bool> {
        self.begin_write().await?;
        if !record.parts.iter().all(|part| self.is_live(part)) {
            self.end_write();
            return Ok(false);
        }
        self.memories.put(&record, snapshot).await?;
        if let Err(error) = self.sources.confirm_owned().await {
            // The current owner does not know of it, and may have forgotten documents that it
            // covers.
            self.memories.take_back(&record).await?;
            return Err(error);
        }
        self.memories.show(record);
        self.memories.remove(|known| replaced.contains(&known.key)).await?;
        self.end_write();
        Ok(true)
    }

    /// Removes memories that cover a document which was replaced or forgotten, and files that are
    /// no memories. Returns the number of removed memories.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn sweep_memories(&mut self) -> Result<usize> {
        self.begin_write().await?;
        let removed = self
            .memories
            .remove(|record| !record.parts.iter().all(|part| self.is_live(part)))
            .await?;
        self.remove_other_memories(|_any| true).await?;
        self.end_write();
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
        for name in others {
            self.memories.remove_other(&name).await?;
        }
        Ok(())
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

    fn is_live(&self, part: &MemoryPart) -> bool {
        let record = self.catalogue.get(&part.document_id);
        let live = record.and_then(|record| record.live());
        live.is_some_and(|live| live.version == part.version)
    }
}
