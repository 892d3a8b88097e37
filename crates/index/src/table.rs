//! One table of a shard: wraps the storage engine's handle with our errors and our durability.

mod batches;
pub(crate) mod column;
mod columns;
mod condition;
pub(crate) mod engine;
#[cfg(test)]
mod faulty;
pub(crate) mod fence;
pub(crate) mod filter;
pub(crate) mod indexes;
pub(crate) mod kind;
pub(crate) mod named_files;
mod open;
pub(crate) mod ownership;
pub(crate) mod removal;
pub(crate) mod renumbering;
pub(crate) mod rewriting;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod statistics;
pub(crate) mod tiers;
pub(crate) mod vectors;

use std::future::Future;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use lance::Dataset;
use lancedb::Table;
use lancedb::datafusion::prelude::Expr;
use lancedb::query::{QueryBase, Select};

use crate::error::{Cause, Error, Operation, Result};
use crate::storage::Storage;
use crate::storage::durable::SyncedFolder;
use crate::table::engine::{run, scan};
use crate::table::fence::Fence;
use crate::table::kind::TableKind;

/// Maximum number of conditions in one predicate: deeper trees could exhaust the planner's stack.
const MAX_CONDITIONS: usize = 200;

/// Table that only the shard's writer changes.
#[derive(Debug)]
pub(crate) struct Stored {
    kind: TableKind,
    table: Table,
    /// Commit handler that all commits go through.
    fence: Arc<Fence>,
    place: Storage,
    /// Files known to be synced. `None` before the first sync and while one runs on another thread.
    synced: Option<SyncedFolder>,
}

impl Stored {
    /// Returns the storage engine's handle, which shows the newest version that this owner knows.
    pub(crate) fn shown(&self) -> &Table {
        &self.table
    }

    pub(crate) async fn dataset(&self, operation: Operation) -> Result<Arc<Dataset>> {
        match self.table.dataset() {
            Some(shown) => self.run(operation, shown.get()).await,
            None => Err(self.error(operation, "the table is not a local one".into())),
        }
    }

    /// Returns which table it is.
    pub(crate) fn kind(&self) -> TableKind {
        self.kind
    }

    /// Returns the fence, which knows whether this owner is still the newest.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// Returns a handle that stays at the current version, and the version's files.
    pub(crate) async fn pinned(&self) -> Result<(Table, Arc<Dataset>)> {
        let table = self.run(Operation::Read, self.table.query_snapshot()).await?;
        match table.dataset() {
            Some(shown) => {
                let dataset = self.run(Operation::Read, shown.get()).await?;
                Ok((table, dataset))
            }
            None => Err(self.error(Operation::Read, "the table is not a local one".into())),
        }
    }

    /// Adds rows in one commit.
    pub(crate) async fn append(&self, batches: Vec<RecordBatch>) -> Result<()> {
        self.run(Operation::Append, self.table.add(batches).execute()).await.map(drop)
    }

    /// Deletes the rows that meet any of `conditions`. Returns how many it deleted.
    pub(crate) async fn delete_any(&self, conditions: Vec<Expr>) -> Result<u64> {
        let mut deleted = 0;
        for some in conditions.chunks(MAX_CONDITIONS) {
            let Some(predicate) = filter::any_of(some.to_vec()) else { continue };
            deleted +=
                self.run(Operation::Delete, self.table.delete(&predicate)).await?.num_deleted_rows;
        }
        Ok(deleted)
    }

    /// Commits one table setting and nothing else.
    async fn commit_config(&self, key: &str, value: String) -> Result<()> {
        let Some(shown) = self.table.dataset() else { return Ok(()) };
        let mut dataset = Dataset::clone(&*self.dataset(Operation::Append).await?);
        let commit = async {
            dataset.update_config([(key, value.as_str())]).await?;
            Ok(())
        };
        self.run(Operation::Append, commit).await?;
        shown.update(dataset);
        Ok(())
    }

    /// Calls `visit` with every batch of the given columns and the rows' numbers.
    pub(crate) async fn scan(
        &self,
        columns: &[&str],
        visit: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let query = self.table.query().select(Select::columns(columns)).with_row_id();
        scan(self.kind, query, visit).await
    }

    /// Syncs to disk what was written since the last sync. Does nothing on object storage.
    pub(crate) async fn sync(&mut self) -> Result<()> {
        let Some(folder) = self.place.folder() else { return Ok(()) };
        let anew = || SyncedFolder::new(folder.to_owned());
        let mut synced = self.synced.take().unwrap_or_else(anew);
        let done = tokio::task::spawn_blocking(move || {
            let result = synced.sync();
            (synced, result)
        });
        let (synced, result) =
            done.await.map_err(|error| self.error(Operation::Sync, error.into()))?;
        self.synced = Some(synced);
        result.map(drop).map_err(|error| self.error(Operation::Sync, error.into()))
    }

    /// Returns whether the table has data files, including those of rows that are deleted or were
    /// never committed.
    pub(crate) async fn has_data(&self) -> Result<bool> {
        let shown = self.dataset(Operation::Read).await?;
        let has_rows = !shown.fragments().is_empty();
        Ok(has_rows
            || !self.place.join("data").names("look for the table's rows").await?.is_empty())
    }

    async fn run<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = lancedb::Result<T>>,
    ) -> Result<T> {
        run(self.kind, operation, work).await
    }

    fn error(&self, operation: Operation, source: Cause) -> Error {
        Error::of_table(self.kind, operation, source)
    }
}
