//! Erases forgotten text from the disk.

use std::time::Duration;

use crate::boxed;
use crate::error::Result;
use crate::shard::ShardWriter;
use crate::shard::plan::MaintenanceStep;

impl ShardWriter {
    /// Returns whether forgotten text may still be on the disk.
    pub fn is_erasure_wanted(&self) -> bool {
        self.erasure.is_set()
    }

    /// Removes forgotten text from the disk while nothing else is written: rewrites the fragments
    /// that hold deleted rows and the parts of indexes over them, and removes every older version.
    /// Does nothing if nothing was forgotten since the last time. Continues after a crash. What it
    /// costs depends on the fragments that hold the rows, not on the size of the shard.
    ///
    /// # Errors
    /// Returns [`crate::Error::ReadersActive`] if searches hold older versions for longer than
    /// `patience`. The text is still on the disk then; call again. Otherwise returns a storage
    /// error.
    #[boxed]
    pub async fn erase(&mut self, patience: Duration) -> Result<()> {
        self.do_now(MaintenanceStep::Erase, patience).await
    }
}
