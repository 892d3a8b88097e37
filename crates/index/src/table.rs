//! One table of a shard: the storage engine's handle, with our errors and our durability.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use arrow::record_batch::RecordBatch;
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use lancedb::datafusion::prelude::Expr;
use lancedb::index::IndexConfig;
use lancedb::query::{ExecutableQuery, Query, QueryBase, Select};
use lancedb::table::{CompactionOptions, OptimizeAction, OptimizeOptions};
use lancedb::{Connection, Table};

use crate::durable::{self, SyncedFolder};
use crate::error::{Error, Operation, Result};
use crate::filter;
use crate::schema::{self, IndexWanted, TableKind};

/// Most conditions in one predicate: deeper trees could exhaust the planner's stack.
const MAX_CONDITIONS: usize = 200;

/// Rows of a fragment that is not merged with others any more.
const FRAGMENT_ROWS: usize = 100_000;

/// Segments of an index from which they are merged: a search asks each of them.
const MAX_SEGMENTS: u32 = 8;

/// A table that only the shard's writer changes.
#[derive(Debug)]
pub(crate) struct Stored {
    kind: TableKind,
    table: Table,
    /// `None` only while a sync runs on another thread.
    synced: Option<SyncedFolder>,
    folder: PathBuf,
}

/// How much of a table needs maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Rows.
    pub rows: u64,
    /// Rows that are deleted but still in the files.
    pub deleted_rows: u64,
    /// Fragments.
    pub fragments: u64,
    /// Fragments of fewer than 100,000 rows.
    pub small_fragments: u64,
    /// Versions kept on disk, the current one included.
    pub versions: u64,
    /// Indexes that are wanted and missing, those of texts and vectors left out.
    pub indexes_missing: u64,
    /// Rows that the most outdated index does not cover.
    pub unindexed_rows: u64,
    /// Bytes of data and index files of the current version.
    pub bytes: u64,
}

impl Stored {
    /// Opens the table, or makes it if it is not there.
    pub(crate) async fn open(
        connection: &Connection,
        shard_folder: &Path,
        kind: TableKind,
        dimension: u32,
    ) -> Result<Self> {
        let folder = shard_folder.join(format!("{}.lance", kind.name()));
        heal(folder.clone(), kind).await?;
        let schema = kind.schema(dimension);
        let table = if folder.exists() {
            run(kind, Operation::Open, connection.open_table(kind.name()).execute()).await?
        } else {
            let create = connection.create_empty_table(kind.name(), schema).execute();
            run(kind, Operation::Create, create).await?
        };
        let stored = run(kind, Operation::Open, table.schema()).await?;
        schema::check(kind, &stored, dimension)?;
        let synced = Some(SyncedFolder::new(folder.clone()));
        let opened = Self { kind, table, synced, folder };
        if let Some(wanted) = kind.text_index()
            && !opened.has_index(&wanted).await?
        {
            opened.build_index(&wanted).await?;
        }
        Ok(opened)
    }

    /// A handle that goes on showing the current version.
    pub(crate) async fn pinned(&self) -> Result<Table> {
        self.run(Operation::Read, self.table.query_snapshot()).await
    }

    /// Sees what was committed last, by whomever.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.run(Operation::Read, self.table.checkout_latest()).await
    }

    /// Adds rows in one commit.
    pub(crate) async fn append(&self, batches: Vec<RecordBatch>) -> Result<()> {
        self.run(Operation::Append, self.table.add(batches).execute()).await.map(drop)
    }

    /// Deletes the rows that meet any of `conditions`; returns how many they were.
    pub(crate) async fn delete_any(&self, conditions: Vec<Expr>) -> Result<u64> {
        let mut deleted = 0;
        for some in conditions.chunks(MAX_CONDITIONS) {
            let Some(predicate) = filter::any_of(some.to_vec()) else { continue };
            deleted +=
                self.run(Operation::Delete, self.table.delete(&predicate)).await?.num_deleted_rows;
        }
        Ok(deleted)
    }

    /// Calls `visit` with every batch of the given columns.
    pub(crate) async fn scan(
        &self,
        columns: &[&str],
        visit: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let query = self.table.query().select(Select::columns(columns));
        scan(self.kind, query, visit).await
    }

    /// Syncs what was written since the last time.
    pub(crate) async fn sync(&mut self) -> Result<()> {
        let mut synced =
            self.synced.take().unwrap_or_else(|| SyncedFolder::new(self.folder.clone()));
        let done = tokio::task::spawn_blocking(move || {
            let result = synced.sync();
            (synced, result)
        });
        let (synced, result) =
            done.await.map_err(|error| self.error(Operation::Sync, error.into()))?;
        self.synced = Some(synced);
        result.map(drop).map_err(|error| self.error(Operation::Sync, error.into()))
    }

    /// Merges small fragments, and rewrites fragments of which more than a tenth is deleted; or, if
    /// `every_deletion`, all that have a deleted row.
    pub(crate) async fn compact(&self, every_deletion: bool) -> Result<()> {
        let mut options =
            CompactionOptions { target_rows_per_fragment: FRAGMENT_ROWS, ..Default::default() };
        if every_deletion {
            options.materialize_deletions_threshold = 0.0;
        }
        let action = OptimizeAction::Compact { options, remap_options: None };
        self.run(Operation::Compact, self.table.optimize(action)).await.map(drop)
    }

    /// Adds rows that are not indexed yet to the indexes: as a segment of their own, which costs as
    /// much as there are such rows, until an index has so many segments that they are merged.
    pub(crate) async fn refresh_indexes(&self) -> Result<()> {
        let mut segments = 0;
        for index in self.indexes().await? {
            let covered = self.run(Operation::Read, self.table.index_stats(&index.name)).await?;
            segments = segments.max(covered.and_then(|c| c.num_indices).unwrap_or(0));
        }
        let merges = segments >= MAX_SEGMENTS;
        let mut options = OptimizeOptions::default();
        options.num_indices_to_merge = Some(if merges { segments as usize } else { 0 });
        options.enable_partition_rebalancing = merges;
        let action = OptimizeAction::Index(options);
        self.run(Operation::Index, self.table.optimize(action)).await.map(drop)
    }

    /// Makes an index from all rows, in place of the one that may be there.
    pub(crate) async fn build_index(&self, wanted: &IndexWanted) -> Result<()> {
        let index = self.table.create_index(&[wanted.column], (wanted.index)());
        let build = index.name(wanted.name()).replace(true).execute();
        self.run(Operation::Index, build).await
    }

    /// Makes the indexes of ids, times and attributes that are not there.
    pub(crate) async fn build_missing_indexes(&self) -> Result<()> {
        for wanted in self.kind.scalar_indexes() {
            if !self.has_index(&wanted).await? {
                self.build_index(&wanted).await?;
            }
        }
        Ok(())
    }

    /// Builds each index it has from the rows it has now. Merging an index would keep words and
    /// vectors of deleted rows.
    pub(crate) async fn rebuild_indexes(&self) -> Result<()> {
        let all = self.kind.scalar_indexes().into_iter().chain(self.kind.text_index());
        for wanted in all.chain([IndexWanted::VECTOR]) {
            if self.has_index(&wanted).await? {
                self.build_index(&wanted).await?;
            }
        }
        Ok(())
    }

    /// Whether it has an index.
    pub(crate) async fn has_index(&self, wanted: &IndexWanted) -> Result<bool> {
        Ok(self.indexes().await?.iter().any(|index| index.name == wanted.name()))
    }

    async fn indexes(&self) -> Result<Vec<IndexConfig>> {
        self.run(Operation::Read, self.table.list_indices()).await
    }

    /// Removes every version but the current one from the disk, and all files only those name.
    pub(crate) async fn prune(&self) -> Result<()> {
        let action = OptimizeAction::Prune {
            older_than: Some(lancedb::table::Duration::zero()),
            // Only this shard's writer writes, and it is here: no transaction is under way.
            delete_unverified: Some(true),
            error_if_tagged_old_versions: Some(true),
        };
        self.run(Operation::Prune, self.table.optimize(action)).await.map(drop)
    }

    /// How much maintenance it needs.
    pub(crate) async fn statistics(&self) -> Result<TableStatistics> {
        let statistics = self.run(Operation::Read, self.table.stats()).await?;
        let versions = self.run(Operation::Read, self.table.list_versions()).await?;
        let indexes = self.indexes().await?;
        let mut unindexed_rows = 0;
        for index in &indexes {
            let covered = self.run(Operation::Read, self.table.index_stats(&index.name)).await?;
            unindexed_rows = unindexed_rows.max(covered.map_or(0, |c| c.num_unindexed_rows as u64));
        }
        let wanted = self.kind.scalar_indexes();
        let is_missing = |wanted: &&IndexWanted| !indexes.iter().any(|i| i.name == wanted.name());
        Ok(TableStatistics {
            rows: statistics.num_rows as u64,
            deleted_rows: statistics.num_deleted_rows.unwrap_or(0) as u64,
            fragments: statistics.fragment_stats.num_fragments as u64,
            small_fragments: statistics.fragment_stats.num_small_fragments as u64,
            versions: versions.len() as u64,
            indexes_missing: wanted.iter().filter(is_missing).count() as u64,
            unindexed_rows,
            bytes: statistics.total_bytes as u64,
        })
    }

    async fn run<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = lancedb::Result<T>>,
    ) -> Result<T> {
        run(self.kind, operation, work).await
    }

    fn error(&self, operation: Operation, source: crate::error::Cause) -> Error {
        Error::of_table(self.kind, operation, source)
    }
}

/// Runs an operation of the storage engine on a table. The engine may panic on damaged files; that
/// is an error like any other of the operation.
pub(crate) async fn run<T>(
    table: TableKind,
    operation: Operation,
    work: impl Future<Output = lancedb::Result<T>>,
) -> Result<T> {
    // What a panic leaves half-done is the engine's own, which is opened anew or read again.
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result.map_err(failed(table, operation)),
        Err(_) => Err(Error::of_table(table, operation, "the storage engine panicked".into())),
    }
}

/// The conversion of the storage engine's errors about a table.
pub(crate) fn failed(
    table: TableKind,
    operation: Operation,
) -> impl FnOnce(lancedb::Error) -> Error {
    move |error| Error::of_table(table, operation, error.into())
}

/// Calls `visit` with every batch that `query` finds.
pub(crate) async fn scan(
    table: TableKind,
    query: Query,
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut stream = run(table, Operation::Read, query.execute()).await?;
    while let Some(batch) =
        run(table, Operation::Read, stream.try_next().map_err(Into::into)).await?
    {
        visit(&batch)?;
    }
    Ok(())
}

async fn heal(folder: PathBuf, kind: TableKind) -> Result<()> {
    let healed = tokio::task::spawn_blocking(move || durable::remove_torn_commit(&folder))
        .await
        .map_err(|error| Error::of_table(kind, Operation::Open, error.into()))?
        .map_err(|error| Error::of_table(kind, Operation::Open, error.into()))?;
    if let Some(found) = healed {
        tracing::warn!(table = kind.name(), found, "removed what an interrupted write left");
    }
    Ok(())
}
