//! One table of a shard: wraps the storage engine's handle with our errors and our durability.

pub(crate) mod column;
pub(crate) mod engine;
pub(crate) mod fence;
pub(crate) mod filter;
pub(crate) mod kind;
pub(crate) mod named_files;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod vectors;

use std::collections::HashSet;
use std::fs;
use std::future::Future;
use std::num::NonZeroU64;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use futures::{FutureExt, StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::cleanup::{CleanupFileKind, CleanupPolicy};
use lance::dataset::{ColumnAlteration, ReadParams, WriteParams};
use lance_core::utils::tokio::get_num_compute_intensive_cpus;
use lance_table::format::Fragment;
use lance_table::io::commit::CommitHandler;
use lancedb::datafusion::prelude::Expr;
use lancedb::index::IndexConfig;
use lancedb::query::{QueryBase, Select};
use lancedb::table::{
    CompactionOptions, NewColumnTransform, OptimizeAction, OptimizeOptions, WriteOptions,
};
use lancedb::{Connection, Table};
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use crate::error::{Error, Operation, Result};
use crate::storage::durable::{self, MANIFESTS, SyncedFolder};
use crate::storage::{Place, on_files};
use crate::table::engine::{run, scan};
use crate::table::fence::Fence;
use crate::table::kind::TableKind;
use crate::table::schema::IndexWanted;
use crate::table::vectors::{StoredVectors, VectorColumn, fingerprint_of, vectors_in};

/// Maximum number of conditions in one predicate: deeper trees could exhaust the planner's stack.
const MAX_CONDITIONS: usize = 200;

/// Target number of rows per fragment: compaction does not merge fragments that have as many.
const FRAGMENT_ROWS: usize = 100_000;

/// Stored bytes of the rows that compaction decodes at a time. In memory they take a few times as
/// much: decoded, on the way to the writer, and in its pages. A larger value is not faster.
const COMPACTED_AT_ONCE: u64 = 16 << 20;

/// Minimum and maximum number of rows of a compaction batch. With fewer, a table that mixes small
/// rows with a few large ones would take long to compact. The maximum is the engine's own default.
const ROWS_OF_A_BATCH: (u64, u64) = (8, 8192);

/// Number of segments of an index from which they are merged: a search queries each of them.
const MAX_SEGMENTS: u32 = 8;

/// Table that only the shard's writer changes.
#[derive(Debug)]
pub(crate) struct Stored {
    kind: TableKind,
    table: Table,
    /// Commit handler that all commits go through.
    fence: Arc<Fence>,
    place: Place,
    /// Files known to be synced. `None` before the first sync and while one runs on another thread.
    synced: Option<SyncedFolder>,
}

/// Figures that say how much maintenance a table needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows that are deleted but still in the files.
    pub deleted_rows: u64,
    /// Number of fragments.
    pub fragments: u64,
    /// Number of fragments with fewer than 100,000 rows.
    pub small_fragments: u64,
    /// Number of stored versions, the current one included.
    pub versions: u64,
    /// Number of missing scalar indexes. Text and vector indexes are not counted.
    pub indexes_missing: u64,
    /// Number of rows that the most outdated index does not cover.
    pub unindexed_rows: u64,
    /// Bytes of data and index files of the current version.
    pub bytes: u64,
}

/// Table config key that names the owner. Its value is a number that grows with each owner, a
/// space, and a text for people.
const OWNER: &str = "clew.owner";

/// Table config key that is set before old versions are removed, only to force a commit.
const PRUNED: &str = "clew.pruned";

/// Maximum attempts of a takeover: the earlier owner's next commit may come before each of them.
const TAKEOVER_TRIES: usize = 50;

/// Maximum reads of the newest version: a commit of this owner that was believed lost may arrive
/// after each of them.
const REFRESH_TRIES: usize = 3;

/// Files of a table at one moment, from which the garbage is chosen.
#[derive(Debug)]
pub(crate) struct Present(HashSet<object_store::path::Path>);

impl Stored {
    /// Opens the table. Creates it if it does not exist.
    pub(crate) async fn open(
        connection: &Connection,
        shard: &Place,
        kind: TableKind,
        vectors: &[VectorColumn],
    ) -> Result<Self> {
        let place = shard.join(&format!("{}.lance", kind.name()));
        heal(&place, kind).await?;
        let fence = Arc::new(Fence::default());
        if !exists(&place, kind).await? {
            create(connection, kind, vectors, &fence).await?;
        }
        let handler: Arc<dyn CommitHandler> = Arc::clone(&fence) as _;
        let read = ReadParams { commit_handler: Some(handler), ..ReadParams::default() };
        let open = connection.open_table(kind.name()).lance_read_params(read).execute();
        let table = run(kind, Operation::Open, open).await?;
        let stored = run(kind, Operation::Open, table.schema()).await?;
        schema::check(kind, &stored, vectors)?;
        let opened = Self { kind, table, fence, place, synced: None };
        opened.adopt().await?;
        Ok(opened)
    }

    /// Takes the table over. When this returns, no commit of an earlier owner can succeed any more.
    ///
    /// Owners are numbered, and a table never passes to a lower number. The shard's first table
    /// determines the number (`number` is `None`): it is the version that the takeover commits, so
    /// two owners that race for the table get different numbers. The other tables use that number
    /// (`Some`). So if several owners take over a shard at the same time, all tables end up with
    /// the one that took the first table last, in whatever order they reach the others. Returns the
    /// number.
    pub(crate) async fn take_over(&self, owner: &str, number: Option<u64>) -> Result<u64> {
        let mut lost = None;
        for _ in 0..TAKEOVER_TRIES {
            if lost.is_some() {
                self.run(Operation::Open, self.table.checkout_latest()).await?;
                self.adopt().await?;
            }
            let dataset = self.dataset(Operation::Open).await?;
            let holder = dataset.config().get(OWNER).and_then(|text| number_of(text)).unwrap_or(0);
            let number = number.unwrap_or(dataset.version_id() + 1);
            if holder > number {
                let reason = format!("owner {holder} took over after this one, number {number}");
                return Err(Error::LostRace { table: self.kind, source: reason.into() });
            }
            match self.commit_config(OWNER, format!("{number} {owner}")).await {
                Err(error @ Error::LostRace { .. }) => lost = Some(error),
                done => return done.map(|()| number),
            }
        }
        Err(lost.unwrap_or_else(|| self.error(Operation::Open, "no try was made".into())))
    }

    /// Adds the columns that a table of an earlier release lacks. Changes metadata only.
    pub(crate) async fn ensure_columns(&self) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let mut missing = self.kind.added_columns();
        missing.retain(|column| stored.field_with_name(column.name()).is_err());
        self.add_columns(missing).await
    }

    /// Adds columns that are null in every row. Changes metadata only.
    async fn add_columns(&self, columns: Vec<Field>) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let columns = NewColumnTransform::AllNulls(Arc::new(Schema::new(columns)));
        let add = self.table.add_columns().transform(columns).execute();
        self.run(Operation::Append, add).await.map(drop)
    }

    /// Adds the wanted vector columns that are missing. Makes every vector column nullable unless
    /// it is the only one wanted. Changes metadata only.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if a column of that name holds vectors of another dimension, or
    /// a storage error.
    pub(crate) async fn ensure_vectors(&self, wanted: &[VectorColumn]) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        schema::check(self.kind, &stored, wanted)?;
        let is_only = |field: &Field| wanted.len() == 1 && wanted[0].name == *field.name();
        let needed = vectors_in(&stored).filter(|it| !it.is_nullable() && !is_only(it));
        let relaxed: Vec<ColumnAlteration> = needed
            .map(|field| ColumnAlteration::new(field.name().clone()).set_nullable(true))
            .collect();
        if !relaxed.is_empty() {
            self.run(Operation::Append, self.table.alter_columns(&relaxed)).await?;
        }
        let missing = wanted.iter().filter(|it| stored.field_with_name(&it.name).is_err());
        self.add_columns(missing.map(VectorColumn::field).collect()).await
    }

    /// Returns the vector columns that the table has, wanted or not. `first` is the fingerprint of
    /// the corpus' first model.
    pub(crate) async fn vectors(&self, first: &str) -> Result<Vec<StoredVectors>> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let column = |field: &FieldRef| {
            let DataType::FixedSizeList(_, dimension) = field.data_type() else { return None };
            let (name, dimension) = (field.name().clone(), usize::try_from(*dimension).ok()?);
            let encoder = fingerprint_of(&name, first).to_owned();
            Some(StoredVectors { name, encoder, dimension })
        };
        Ok(vectors_in(&stored).filter_map(column).collect())
    }

    /// Drops columns and their indexes. Their values leave the disk when the rows are rewritten.
    pub(crate) async fn drop_columns(&self, names: &[String]) -> Result<()> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.run(Operation::Delete, self.table.drop_columns(&names)).await.map(drop)
    }

    /// Raises the schema version of an older table to the current one. Call it after adding
    /// columns.
    pub(crate) async fn ensure_version(&self) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let Some(shown) = self.table.dataset() else { return Ok(()) };
        if schema::version_of(&stored) == Some(schema::SCHEMA_VERSION) {
            return Ok(());
        }
        let mut dataset = Dataset::clone(&*self.dataset(Operation::Open).await?);
        let raise = async {
            let version = schema::SCHEMA_VERSION.to_string();
            dataset.update_schema_metadata([(schema::VERSION_KEY, version.as_str())]).await?;
            Ok(())
        };
        self.run(Operation::Open, raise).await?;
        shown.update(dataset);
        Ok(())
    }

    /// Builds the text index if it does not exist.
    pub(crate) async fn ensure_text_index(&self) -> Result<()> {
        if let Some(wanted) = self.kind.text_index()
            && !self.has_index(&wanted).await?
        {
            self.build_index(&wanted).await?;
        }
        Ok(())
    }

    /// Adopts the stored state as this owner's, on which its commits build.
    async fn adopt(&self) -> Result<()> {
        let dataset = self.dataset(Operation::Open).await?;
        let adopt = async {
            let store = dataset.object_store(None).await?;
            Ok(self.fence.adopt(dataset.manifest_location(), &store).await?)
        };
        self.run(Operation::Open, adopt).await
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

    /// Asks the storage whether this owner is still the newest. Costs one listing.
    ///
    /// # Errors
    /// Returns [`Error::LostRace`] if another owner committed, or a storage error.
    pub(crate) async fn confirm_owned(&self) -> Result<()> {
        let dataset = self.dataset(Operation::Refresh).await?;
        let newest = async { Ok(self.fence.tip(dataset.latest_version_id().await?).await?) };
        self.run(Operation::Refresh, newest).await.map(drop)
    }

    /// Returns [`Error::LostRace`] if another owner is known to have written.
    pub(crate) async fn check_owned(&self) -> Result<()> {
        if !self.fence.is_breached().await {
            return Ok(());
        }
        let reason = "a commit of another owner was found before";
        Err(Error::LostRace { table: self.kind, source: reason.into() })
    }

    /// Returns a handle that stays at the current version.
    pub(crate) async fn pinned(&self) -> Result<Table> {
        self.run(Operation::Read, self.table.query_snapshot()).await
    }

    /// Moves to the version that this owner committed last, even if it did not know that this
    /// commit had happened.
    ///
    /// # Errors
    /// Returns [`Error::LostRace`] if another owner committed, or a storage error.
    pub(crate) async fn refresh(&self) -> Result<()> {
        for _ in 0..REFRESH_TRIES {
            self.run(Operation::Read, self.table.checkout_latest()).await?;
            let seen = self.run(Operation::Read, self.table.version()).await?;
            let tip = async { Ok(self.fence.tip(seen).await?) };
            if self.run(Operation::Refresh, tip).await? == seen {
                return Ok(());
            }
        }
        Err(self.error(Operation::Refresh, "its newest version keeps changing".into()))
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

    /// Calls `visit` with every batch of the given columns.
    pub(crate) async fn scan(
        &self,
        columns: &[&str],
        visit: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let query = self.table.query().select(Select::columns(columns));
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

    /// Merges small fragments and rewrites fragments of which more than a tenth is deleted, or, if
    /// `every_deletion`, all that have a deleted row.
    ///
    /// Memory use does not grow with the table, the size of its rows or the number of cores. Most
    /// of it is the engine's read-ahead: 32 MiB for each of its concurrent requests to the storage.
    /// There is no tighter limit, because a row larger than the read-ahead would block the engine
    /// for ever.
    pub(crate) async fn compact(&self, every_deletion: bool) -> Result<()> {
        let dataset = self.dataset(Operation::Compact).await?;
        let sizes = dataset.fragments().iter().map(size_of);
        let mut options = CompactionOptions {
            target_rows_per_fragment: FRAGMENT_ROWS,
            // Concurrent merges would each hold rows of their own.
            num_threads: Some(1),
            batch_size: Some(rows_of_a_batch(sizes, get_num_compute_intensive_cpus())),
            ..Default::default()
        };
        if every_deletion {
            options.materialize_deletions_threshold = 0.0;
        }
        let action = OptimizeAction::Compact { options, remap_options: None };
        self.run(Operation::Compact, self.table.optimize(action)).await.map(drop)
    }

    /// Adds rows that are not indexed yet to the indexes, as a new segment. This costs as much as
    /// there are such rows. Merges the segments once an index has [`MAX_SEGMENTS`] of them.
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

    /// Builds an index from all rows. Replaces an existing one.
    pub(crate) async fn build_index(&self, wanted: &IndexWanted) -> Result<()> {
        let index = self.table.create_index(&[wanted.column.as_ref()], (wanted.index)());
        let build = index.name(wanted.name()).replace(true).execute();
        self.run(Operation::Index, build).await
    }

    /// Builds the scalar indexes that are missing.
    pub(crate) async fn build_missing_indexes(&self) -> Result<()> {
        for wanted in self.kind.scalar_indexes() {
            if !self.has_index(&wanted).await? {
                self.build_index(&wanted).await?;
            }
        }
        Ok(())
    }

    /// Rebuilds each existing index from the current rows. Merging an index would keep words and
    /// vectors of deleted rows.
    pub(crate) async fn rebuild_indexes(&self) -> Result<()> {
        let stored = self.run(Operation::Read, self.table.schema()).await?;
        let of_vectors = vectors_in(&stored).map(|it| it.name().clone());
        let all = self.kind.scalar_indexes().into_iter().chain(self.kind.text_index());
        for wanted in all.chain(of_vectors.map(IndexWanted::of_vectors)) {
            if self.has_index(&wanted).await? {
                self.build_index(&wanted).await?;
            }
        }
        Ok(())
    }

    /// Returns whether the table has an index.
    pub(crate) async fn has_index(&self, wanted: &IndexWanted) -> Result<bool> {
        Ok(self.indexes().await?.iter().any(|index| index.name == wanted.name()))
    }

    async fn indexes(&self) -> Result<Vec<IndexConfig>> {
        self.run(Operation::Read, self.table.list_indices()).await
    }

    /// Returns whether the table has data files, including those of rows that are deleted or were
    /// never committed.
    pub(crate) async fn has_data(&self) -> Result<bool> {
        Ok(!self.place.join("data").names("look for the table's rows").await?.is_empty())
    }

    /// Begins to remove old versions: lists the files that exist, then makes a commit.
    ///
    /// A file that no manifest names may be garbage of an interrupted write, or a new owner may
    /// have written it and not committed yet. Nothing tells these two apart, and this process may
    /// be suspended between any two steps for long enough that another becomes the owner. The order
    /// of the steps makes removal safe:
    ///
    /// 1. List the files that exist.
    /// 2. Make a commit through the fence. It succeeds only if no other owner has taken over. An
    ///    owner writes to a table only after its takeover, so every listed file belongs to this
    ///    owner, which writes nothing else meanwhile, or to an earlier owner, which can commit
    ///    nothing any more.
    /// 3. Remove the files that were listed *and* that the newest manifest does not name. File
    ///    names are never reused, and a later manifest names only files that the one before it
    ///    names or that were written after it. So these files stay garbage, and removing them is
    ///    safe at any later time, whoever the owner is then.
    pub(crate) async fn begin_removal(&mut self) -> Result<Present> {
        let dataset = self.dataset(Operation::Prune).await?;
        let list = async {
            let store = dataset.object_store(None).await?;
            let files = store.inner.list(Some(&dataset.branch_location().path));
            let files = files.map_ok(|file| file.location).try_collect().await;
            Ok(files.map_err(lance_core::Error::from)?)
        };
        let present = Present(self.run(Operation::Prune, list).await?);
        self.commit_config(PRUNED, (dataset.version_id() + 1).to_string()).await?;
        // The newest version must be on disk before earlier ones are removed.
        self.sync().await?;
        Ok(present)
    }

    /// Removes the files of `present` that only older versions name, or none. The caller makes sure
    /// that no view of an older version is read any more.
    pub(crate) async fn remove(&self, present: Present) -> Result<()> {
        let dataset = self.dataset(Operation::Prune).await?;
        let policy = CleanupPolicy {
            before_version: Some(dataset.version_id()),
            delete_unverified: true,
            ..CleanupPolicy::default()
        };
        // Boxed: the engine's future is large and is part of the futures of all callers.
        let explained = Box::pin(async {
            let cleanup = dataset.cleanup(policy).with_max_candidate_files(usize::MAX);
            Ok(cleanup.explain().await?)
        });
        let explained = self.run(Operation::Prune, explained).await?;
        let (mut manifests, mut files) = (Vec::new(), Vec::new());
        for file in explained.candidate_files {
            let path = object_store::path::Path::parse(&file.path)
                .map_err(|error| self.error(Operation::Prune, error.into()))?;
            if present.0.contains(&path) {
                let is_manifest = file.kind == CleanupFileKind::Manifest;
                if is_manifest { &mut manifests } else { &mut files }.push(path);
            }
        }
        let removed = async {
            let store = dataset.object_store(None).await?;
            // In one stream: an object store removes a thousand objects per request.
            let files = futures::stream::iter(files.into_iter().map(Ok)).boxed();
            let mut removed = store.inner.delete_stream(files);
            while let Some(file) = removed.next().await {
                gone(file)?;
            }
            // Oldest first and one after the other, on which the fence relies. In the engine's
            // naming scheme the newest manifest sorts first.
            manifests.sort_unstable();
            for manifest in manifests.iter().rev() {
                gone(store.inner.delete(manifest).await)?;
            }
            Ok(())
        };
        self.run(Operation::Prune, removed).await?;
        self.remove_empty_folders().await
    }

    /// Removes the empty folders of removed indexes. Each index has a folder of its own.
    async fn remove_empty_folders(&self) -> Result<()> {
        let Some(folder) = self.place.folder() else { return Ok(()) };
        let indexes = folder.join("_indices");
        on_files("remove the folders of old indexes", move || {
            let Ok(entries) = fs::read_dir(indexes) else { return Ok(()) };
            for entry in entries {
                // Removal fails if the folder is not empty, which means that it is in use.
                let _ = fs::remove_dir(entry?.path());
            }
            Ok(())
        })
        .await
    }

    /// Returns how much maintenance the table needs.
    pub(crate) async fn statistics(&self) -> Result<TableStatistics> {
        let statistics = self.run(Operation::Read, self.table.stats()).await?;
        // Counted by file name: the engine's list reads every manifest.
        let names = self.place.join(MANIFESTS).names("count the table's versions").await?;
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
            versions: names.iter().filter(|name| name.ends_with(".manifest")).count() as u64,
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

async fn heal(table: &Place, kind: TableKind) -> Result<()> {
    let Some(folder) = table.folder().map(ToOwned::to_owned) else { return Ok(()) };
    if on_files("look for torn commits", move || durable::remove_torn_commit(&folder)).await? {
        tracing::warn!(table = kind.name(), "removed an empty manifest that a power cut left");
    }
    Ok(())
}

/// Returns whether the table exists. A table with rows whose manifests are gone is an error and is
/// not created anew.
async fn exists(table: &Place, kind: TableKind) -> Result<bool> {
    const DOING: &str = "look for the table";
    let has_manifest = || async {
        let names = table.join("_versions").names(DOING).await?;
        Ok(names.iter().any(|name| name.ends_with(".manifest")))
    };
    if has_manifest().await? {
        return Ok(true);
    }
    let has_rows = !table.join("data").names(DOING).await?.is_empty();
    // Another owner may have created it meanwhile: rows come after the first manifest.
    match has_manifest().await? {
        false if has_rows => {
            Err(Error::of_table(kind, Operation::Open, "there are rows but no manifest".into()))
        }
        found => Ok(found),
    }
}

/// Creates the table, unless another process does so at the same time.
async fn create(
    connection: &Connection,
    kind: TableKind,
    vectors: &[VectorColumn],
    fence: &Arc<Fence>,
) -> Result<()> {
    let write = WriteParams { commit_handler: Some(Arc::clone(fence) as _), ..Default::default() };
    let create = connection
        .create_empty_table(kind.name(), kind.schema(vectors))
        .write_options(WriteOptions { lance_write_params: Some(write) })
        .execute();
    let create = create.map(|created| match created {
        Err(lancedb::Error::TableAlreadyExists { .. }) => Ok(()),
        created => created.map(drop),
    });
    match run(kind, Operation::Create, create).await {
        // The fence found another owner's first version.
        Err(Error::LostRace { .. }) => Ok(()),
        created => created,
    }
}

/// Counts a file that no longer exists as removed.
fn gone<T>(removed: object_store::Result<T>) -> lance_core::Result<()> {
    match removed {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the rows and the stored bytes of a fragment.
fn size_of(fragment: &Fragment) -> (u64, u64) {
    let files = fragment.files.iter().filter_map(|file| file.file_size_bytes.get());
    (fragment.physical_rows.unwrap_or(0) as u64, files.map(NonZeroU64::get).sum())
}

/// Returns the number of rows of a batch. The batches that are decoded at a time, one for each
/// core, have about [`COMPACTED_AT_ONCE`] bytes together. `fragments` yields rows and bytes. The
/// largest rows decide, except those of fragments that are no larger than this limit themselves,
/// such as one large document: a batch never spans fragments.
fn rows_of_a_batch(fragments: impl Iterator<Item = (u64, u64)>, cores: usize) -> usize {
    let divided = fragments.filter(|(_, bytes)| *bytes > COMPACTED_AT_ONCE);
    let largest = divided.map(|(rows, bytes)| bytes / rows.max(1)).max();
    let rows = COMPACTED_AT_ONCE / cores.max(1) as u64 / largest.unwrap_or(0).max(1);
    let (fewest, most) = ROWS_OF_A_BATCH;
    rows.clamp(fewest, most) as usize
}

fn number_of(owner: &str) -> Option<u64> {
    owner.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::stream::BoxStream;
    use lance_io::object_store::ObjectStore;
    use lance_table::io::commit::{ManifestNamingScheme, write_manifest_file_to_path};
    use object_store::path::Path;
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
        PutMultipartOptions, PutOptions, PutPayload, PutResult,
    };

    use super::*;

    #[test]
    fn a_batch_has_as_many_rows_as_fit_whatever_they_are() {
        let check = |fragments: &[(u64, u64)], cores, expected| {
            let rows = rows_of_a_batch(fragments.iter().copied(), cores);
            assert_eq!(rows, expected, "{fragments:?} on {cores}");
        };
        const MIB: u64 = 1 << 20;
        check(&[], 4, 8192);
        // Chunks with their vectors and texts.
        check(&[(100_000, 200 * MIB), (0, 0)], 1, 8000);
        check(&[(100_000, 200 * MIB)], 8, 1000);
        // Documents of 128 KiB, and of 16 MiB.
        check(&[(800, 100 * MIB), (100_000, 100 * MIB)], 1, 128);
        check(&[(6, 100 * MIB)], 1, 8);
        // One document of 16 MiB, which is a batch by itself, beside many small ones.
        check(&[(1, 16 * MIB), (100_000, 100 * MIB)], 1, 8192);
    }

    async fn owned(folder: &std::path::Path) -> Stored {
        let place = Place::from(folder);
        let connection = place.connect().await.unwrap();
        let table = Stored::open(&connection, &place, TableKind::Failures, &[]).await.unwrap();
        table.take_over("test", None).await.unwrap();
        table
    }

    async fn commit(table: &Stored) -> Result<()> {
        table.commit_config("test", "value".to_owned()).await
    }

    async fn prune(table: &mut Stored) {
        let present = table.begin_removal().await.unwrap();
        table.remove(present).await.unwrap();
    }

    async fn newest(table: &Stored) -> u64 {
        table.dataset(Operation::Read).await.unwrap().latest_version_id().await.unwrap()
    }

    /// Commits `version` as the engine does, but without its look at what was committed meanwhile,
    /// like a process that was suspended between the two.
    async fn commit_blindly(
        table: &Stored,
        store: &ObjectStore,
        version: u64,
    ) -> lance_core::Result<()> {
        static DIFFERENT: AtomicU64 = AtomicU64::new(0);
        let dataset = table.dataset(Operation::Read).await.unwrap();
        let mut manifest = dataset.manifest().clone();
        manifest.version = version;
        let different = DIFFERENT.fetch_add(1, Ordering::Relaxed);
        manifest.config.insert("different".to_owned(), different.to_string());
        let base = dataset.branch_location().path;
        let naming = ManifestNamingScheme::V2;
        let write = write_manifest_file_to_path;
        let done = table.fence.commit(&mut manifest, None, &base, store, write, naming, None).await;
        Ok(done.map(drop)?)
    }

    async fn store_of(table: &Stored) -> ObjectStore {
        let dataset = table.dataset(Operation::Read).await.unwrap();
        ObjectStore::clone(&*dataset.object_store(None).await.unwrap())
    }

    #[tokio::test]
    async fn a_commit_of_a_version_that_was_there_and_is_gone_does_not_count() {
        let temporary = tempfile::tempdir().unwrap();
        let a = owned(temporary.path()).await;
        let (store, next) = (store_of(&a).await, newest(&a).await + 1);
        let mut b = owned(temporary.path()).await;
        commit(&b).await.unwrap();
        prune(&mut b).await;
        let tip = newest(&b).await;
        assert!(tip > next);
        let error = commit_blindly(&a, &store, next).await.unwrap_err();
        assert!(matches!(error, lance_core::Error::Fenced { .. }), "{error:?}");
        assert!(a.check_owned().await.is_err());
        assert_eq!(newest(&b).await, tip);
        b.confirm_owned().await.unwrap();
        commit(&b).await.unwrap();
        prune(&mut b).await;
        assert_eq!(b.statistics().await.unwrap().versions, 1);
    }

    #[tokio::test]
    async fn an_earlier_owner_removes_nothing_of_a_later_one() {
        let temporary = tempfile::tempdir().unwrap();
        let mut a = owned(temporary.path()).await;
        let data = temporary.path().join("failures.lance/data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("garbage.lance"), "of an interrupted write").unwrap();
        let present = a.begin_removal().await.unwrap();
        // Here `a` is suspended for as long as it takes.
        let mut b = owned(temporary.path()).await;
        let schema = TableKind::Failures.schema(&[]);
        b.append(vec![RecordBatch::new_empty(schema)]).await.unwrap();
        commit(&b).await.unwrap();
        fs::write(data.join("written.lance"), "before its commit").unwrap();
        let before = newest(&b).await;
        a.remove(present).await.unwrap();
        assert!(!data.join("garbage.lance").exists());
        assert!(data.join("written.lance").exists());
        assert!(matches!(a.begin_removal().await, Err(Error::LostRace { .. })));
        assert_eq!(newest(&b).await, before);
        let again = owned(temporary.path()).await;
        again.scan(&[column::DOCUMENT_ID], |_| Ok(())).await.unwrap();
        assert!(matches!(b.begin_removal().await, Err(Error::LostRace { .. })));
    }

    #[tokio::test]
    async fn a_put_whose_answer_was_lost_counts_if_it_happened() {
        let temporary = tempfile::tempdir().unwrap();
        let table = owned(temporary.path()).await;
        let (faulty, store) = Faulty::before(store_of(&table).await);
        let tip = newest(&table).await;
        faulty.next(Fault::AnswerLost);
        commit_blindly(&table, &store, tip + 1).await.unwrap();
        assert_eq!(newest(&table).await, tip + 1);
        // The same, but the outcome cannot be read at once either.
        faulty.next(Fault::AnswerLostAndDeaf);
        commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        faulty.hears_again();
        table.check_owned().await.unwrap();
        table.refresh().await.unwrap();
        commit(&table).await.unwrap();
        assert_eq!(newest(&table).await, tip + 3);
    }

    #[tokio::test]
    async fn a_put_that_did_not_happen_may_happen_later() {
        let temporary = tempfile::tempdir().unwrap();
        let table = owned(temporary.path()).await;
        let (faulty, store) = Faulty::before(store_of(&table).await);
        let tip = newest(&table).await;
        faulty.next(Fault::Late);
        commit_blindly(&table, &store, tip + 1).await.unwrap_err();
        // The put did not happen, and another takes its place.
        commit_blindly(&table, &store, tip + 1).await.unwrap();
        faulty.arrives().await.unwrap_err();

        faulty.next(Fault::Late);
        commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        faulty.arrives().await.unwrap();
        // The put happened after all, so this owner has to look again before it goes on.
        let error = commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        assert!(!matches!(error, lance_core::Error::Fenced { .. }), "{error:?}");
        table.refresh().await.unwrap();
        commit(&table).await.unwrap();
        assert_eq!(newest(&table).await, tip + 3);
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// The put happens but reports a failure.
        AnswerLost,
        /// Like [`Fault::AnswerLost`], and from then on nothing can be read.
        AnswerLostAndDeaf,
        /// The put reports a failure and happens when [`Faulty::arrives`] is called.
        Late,
    }

    /// Store that fails on request.
    #[derive(Debug)]
    struct Faulty {
        inner: Arc<dyn object_store::ObjectStore>,
        state: Mutex<FaultyState>,
    }

    #[derive(Debug, Default)]
    struct FaultyState {
        next: Option<Fault>,
        late: Option<(Path, PutPayload, PutOptions)>,
        is_deaf: bool,
    }

    impl Faulty {
        fn before(mut store: ObjectStore) -> (Arc<Self>, ObjectStore) {
            let faulty = Arc::new(Self { inner: store.inner, state: Mutex::default() });
            store.inner = Arc::clone(&faulty) as _;
            (faulty, store)
        }

        fn next(&self, fault: Fault) {
            self.state.lock().unwrap().next = Some(fault);
        }

        fn hears_again(&self) {
            self.state.lock().unwrap().is_deaf = false;
        }

        async fn arrives(&self) -> object_store::Result<PutResult> {
            let (path, payload, options) = self.state.lock().unwrap().late.take().unwrap();
            self.inner.put_opts(&path, payload, options).await
        }
    }

    impl std::fmt::Display for Faulty {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "faulty {}", self.inner)
        }
    }

    fn timed_out() -> object_store::Error {
        let source = std::io::Error::from(std::io::ErrorKind::TimedOut).into();
        object_store::Error::Generic { store: "faulty", source }
    }

    #[async_trait::async_trait]
    impl object_store::ObjectStore for Faulty {
        async fn put_opts(
            &self,
            path: &Path,
            payload: PutPayload,
            options: PutOptions,
        ) -> object_store::Result<PutResult> {
            let fault = self.state.lock().unwrap().next.take();
            if fault == Some(Fault::Late) {
                self.state.lock().unwrap().late = Some((path.clone(), payload, options));
                return Err(timed_out());
            }
            let put = self.inner.put_opts(path, payload, options).await?;
            self.state.lock().unwrap().is_deaf |= fault == Some(Fault::AnswerLostAndDeaf);
            if fault.is_some() { Err(timed_out()) } else { Ok(put) }
        }

        async fn put_multipart_opts(
            &self,
            path: &Path,
            options: PutMultipartOptions,
        ) -> object_store::Result<Box<dyn MultipartUpload>> {
            self.inner.put_multipart_opts(path, options).await
        }

        async fn get_opts(
            &self,
            path: &Path,
            options: GetOptions,
        ) -> object_store::Result<GetResult> {
            if self.state.lock().unwrap().is_deaf {
                return Err(timed_out());
            }
            self.inner.get_opts(path, options).await
        }

        fn delete_stream(
            &self,
            paths: BoxStream<'static, object_store::Result<Path>>,
        ) -> BoxStream<'static, object_store::Result<Path>> {
            self.inner.delete_stream(paths)
        }

        fn list(
            &self,
            prefix: Option<&Path>,
        ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            self.inner.list(prefix)
        }

        async fn list_with_delimiter(
            &self,
            prefix: Option<&Path>,
        ) -> object_store::Result<ListResult> {
            self.inner.list_with_delimiter(prefix).await
        }

        async fn copy_opts(
            &self,
            from: &Path,
            to: &Path,
            options: CopyOptions,
        ) -> object_store::Result<()> {
            self.inner.copy_opts(from, to, options).await
        }
    }
}
