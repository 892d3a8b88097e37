//! Erases forgotten text from the disk.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::shard::ShardWriter;
use crate::table::kind::TableKind;

impl ShardWriter {
    /// Returns whether forgotten text may still be on the disk.
    pub fn is_erasure_wanted(&self) -> bool {
        self.erasure.is_set()
    }

    /// Removes forgotten text from the disk: rewrites the files that hold deleted rows, rebuilds
    /// the indexes, and removes every older version. Does nothing if nothing was forgotten since
    /// the last time. Continues after a crash. Takes about as long as building the indexes, and
    /// other writes wait.
    ///
    /// # Errors
    /// Returns [`Error::ReadersActive`] if searches hold older versions for longer than `patience`.
    /// The text is still on the disk then; call again. Otherwise returns a storage error.
    pub async fn erase(&mut self, patience: Duration) -> Result<()> {
        if !self.erasure.is_set() {
            return Ok(());
        }
        while self.sweep().await? {}
        self.begin_write().await?;
        let mut kinds = Vec::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            if !table.has_data().await? {
                continue;
            }
            table.compact(true).await?;
            table.rebuild_indexes().await?;
            table.sync().await?;
            kinds.push(kind);
        }
        self.publish().await?;
        self.end_write();
        for kind in kinds {
            self.prune(kind, patience).await?;
        }
        self.erasure.clear().await
    }

    /// Removes old versions of a table.
    pub(crate) async fn prune(&mut self, kind: TableKind, patience: Duration) -> Result<()> {
        self.begin_write().await?;
        self.publish().await?;
        if !self.publisher.old_snapshots_released(patience).await {
            self.end_write();
            return Err(Error::ReadersActive);
        }
        let present = self.table(kind).begin_removal().await?;
        // That commit made a new version. Readers move to it before the version that they read is
        // removed.
        self.publish().await?;
        let released = self.publisher.old_snapshots_released(patience).await;
        if released {
            self.table(kind).remove(present).await?;
        }
        self.end_write();
        if released { Ok(()) } else { Err(Error::ReadersActive) }
    }
}
