//! Maintenance of a shard: a pure function decides which steps are needed, and the shard does them
//! one by one.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::settings::Tuning;
use crate::shard::Shard;
use crate::table::kind::TableKind;
use crate::table::schema::IndexWanted;
use crate::table::statistics::TableStatistics;
use crate::table::vectors::VectorColumn;

/// Figures that say how much maintenance a shard needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStatistics {
    /// Statistics of the table `sources`.
    pub sources: TableStatistics,
    /// Statistics of the table `chunks`.
    pub chunks: TableStatistics,
    /// Statistics of the table `nodes`.
    pub nodes: TableStatistics,
    /// Statistics of the table `failures`.
    pub failures: TableStatistics,
    /// Number of vector columns that should have an index and have none.
    pub vector_indexes_missing: u64,
    /// Number of vector columns that are no longer wanted.
    pub idle_vectors: u64,
    /// Number of documents with rows that are to be swept.
    pub unswept_documents: u64,
    /// Whether forgotten text may still be on the disk.
    pub is_erasure_wanted: bool,
}

/// Step of maintenance. No step changes what readers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Delete rows that are no longer visible or of use.
    Sweep,
    /// Remove forgotten text from the disk. Includes what the steps below do.
    Erase,
    /// Build the table's missing indexes.
    BuildIndexes(TableKind),
    /// Build the missing vector indexes.
    BuildVectorIndex,
    /// Drop the vector columns that are no longer wanted.
    DropVectors,
    /// Add rows to the table's indexes.
    RefreshIndexes(TableKind),
    /// Merge the table's small fragments.
    Compact(TableKind),
    /// Remove the table's old versions.
    Prune(TableKind),
}

/// Steps that a shard needs, in the order in which they should be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenancePlan {
    /// Steps; empty if nothing is needed.
    pub steps: Vec<Step>,
}

/// Outcome of maintenance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Steps that were done.
    pub done: Vec<Step>,
    /// Steps that wait for searches to end. Plan again later.
    pub postponed: Vec<Step>,
}

/// Returns the plan for a shard with these statistics.
pub fn plan(statistics: &ShardStatistics, tuning: &Tuning) -> MaintenancePlan {
    let mut steps = Vec::new();
    if statistics.unswept_documents > 0 {
        steps.push(Step::Sweep);
    }
    if statistics.is_erasure_wanted {
        steps.push(Step::Erase);
    }
    let wants_vectors = statistics.chunks.rows >= tuning.vector_index_rows;
    for (kind, table) in statistics.tables() {
        if table.indexes_missing > 0 && table.rows >= tuning.index_rows {
            steps.push(Step::BuildIndexes(kind));
        }
        if kind == TableKind::Chunks && statistics.idle_vectors > 0 {
            steps.push(Step::DropVectors);
        }
        if kind == TableKind::Chunks && wants_vectors && statistics.vector_indexes_missing > 0 {
            steps.push(Step::BuildVectorIndex);
        }
        let compacts = table.small_fragments >= tuning.small_fragments || is_mostly_deleted(table);
        // The engine does not merge indexed fragments with others, so indexes come first.
        if needs_indexing(kind, table, tuning) || (compacts && table.unindexed_rows > 0) {
            steps.push(Step::RefreshIndexes(kind));
        }
        if compacts {
            steps.push(Step::Compact(kind));
        }
        if compacts || table.versions >= tuning.versions {
            steps.push(Step::Prune(kind));
        }
    }
    MaintenancePlan { steps }
}

/// Returns whether unindexed rows make searches slow or, in a small table, scores wrong. A BM25
/// score is right only among the indexed rows, so a tenth outside the index is too much.
fn needs_indexing(kind: TableKind, table: &TableStatistics, tuning: &Tuning) -> bool {
    let unindexed = table.unindexed_rows;
    let is_slow = match kind {
        // A row is a whole document, so its bytes count.
        TableKind::Sources => {
            table.bytes / table.rows.max(1) * unindexed >= tuning.unindexed_document_bytes
        }
        TableKind::Chunks | TableKind::Nodes | TableKind::Failures => {
            unindexed >= tuning.unindexed_chunks
        }
    };
    unindexed > 0 && (is_slow || unindexed * 10 >= table.rows)
}

/// Returns whether reading the table reads at least a fifth more than its rows.
fn is_mostly_deleted(table: &TableStatistics) -> bool {
    table.deleted_rows >= 1_000 && table.deleted_rows * 5 >= table.rows
}

impl ShardStatistics {
    /// Returns each table with its statistics.
    pub fn tables(&self) -> [(TableKind, &TableStatistics); 4] {
        [
            (TableKind::Sources, &self.sources),
            (TableKind::Chunks, &self.chunks),
            (TableKind::Nodes, &self.nodes),
            (TableKind::Failures, &self.failures),
        ]
    }
}

impl Shard {
    /// Returns how much maintenance the shard needs. Reads a few small files.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn statistics(&self) -> Result<ShardStatistics> {
        Ok(ShardStatistics {
            sources: self.sources.statistics().await?,
            chunks: self.chunks.statistics().await?,
            nodes: self.nodes.statistics().await?,
            failures: self.failures.statistics().await?,
            vector_indexes_missing: self.vector_indexes_missing().await?.len() as u64,
            idle_vectors: self.idle_vectors().await?.len() as u64,
            unswept_documents: self.catalogue.unswept().count() as u64,
            is_erasure_wanted: self.is_erasure_wanted(),
        })
    }

    /// Returns the plan for the shard as it is now.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn maintenance_plan(&self) -> Result<MaintenancePlan> {
        Ok(plan(&self.statistics().await?, &self.settings.tuning))
    }

    /// Does the steps of a plan. A step that removes files waits up to `patience` for searches that
    /// may read them, and is postponed if they go on.
    ///
    /// # Errors
    /// Returns a storage error. The steps before it were done.
    pub async fn maintain(
        &mut self,
        plan: &MaintenancePlan,
        patience: Duration,
    ) -> Result<MaintenanceReport> {
        let mut report = MaintenanceReport::default();
        for &step in &plan.steps {
            match self.take(step, patience).await {
                Ok(()) => report.done.push(step),
                Err(Error::ReadersActive) => report.postponed.push(step),
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    async fn take(&mut self, step: Step, patience: Duration) -> Result<()> {
        match step {
            // The next plan covers what one round leaves.
            Step::Sweep => self.sweep().await.map(drop),
            Step::Erase => self.erase(patience).await,
            Step::Prune(kind) => self.prune(kind, patience).await,
            Step::BuildIndexes(kind) => {
                self.begin_write().await?;
                self.table(kind).build_missing_indexes().await?;
                self.end_rewrite(kind).await
            }
            Step::BuildVectorIndex => {
                self.begin_write().await?;
                for wanted in self.vector_indexes_missing().await? {
                    self.chunks.build_index(&wanted).await?;
                }
                self.end_rewrite(TableKind::Chunks).await
            }
            Step::DropVectors => {
                self.begin_write().await?;
                let idle = self.idle_vectors().await?;
                self.chunks.drop_columns(&idle).await?;
                self.end_rewrite(TableKind::Chunks).await
            }
            Step::RefreshIndexes(kind) => {
                self.begin_write().await?;
                self.table(kind).refresh_indexes().await?;
                self.end_rewrite(kind).await
            }
            Step::Compact(kind) => {
                self.begin_write().await?;
                self.table(kind).compact(false).await?;
                self.end_rewrite(kind).await
            }
        }
    }

    /// Returns the indexes that vector columns lack. An index is trained on the vectors that exist
    /// when it is built. So the index for a model that the corpus moves to is built only once all
    /// chunks have vectors of that model.
    async fn vector_indexes_missing(&self) -> Result<Vec<IndexWanted>> {
        let is_filled = self.catalogue.reembedded().outdated == 0;
        let mut missing = Vec::new();
        for VectorColumn { encoder, name } in &self.settings.vectors {
            let wanted = IndexWanted::of_vectors(name.clone());
            let is_wanted = is_filled || encoder.fingerprint() == self.settings.searched;
            // The index packs dimensions by eight. Vectors of other dimensions are compared one by
            // one.
            let is_wanted = is_wanted && encoder.dimension.is_multiple_of(8);
            if is_wanted && !self.chunks.has_index(&wanted).await? {
                missing.push(wanted);
            }
        }
        Ok(missing)
    }

    /// Returns the vector columns that have not been wanted for a while.
    async fn idle_vectors(&self) -> Result<Vec<String>> {
        if self.settled_for() < self.settings.tuning.vectors_linger {
            return Ok(Vec::new());
        }
        let there = self.chunks.vectors(&self.settings.first).await?;
        let names = there.into_iter().map(|column| column.name);
        let is_wanted = |name: &String| self.settings.vectors.iter().any(|it| it.name == *name);
        Ok(names.filter(|name| !is_wanted(name)).collect())
    }

    /// Ends a write that changed how a table's rows are stored.
    async fn end_rewrite(&mut self, kind: TableKind) -> Result<()> {
        self.table(kind).sync().await?;
        self.publish().await?;
        self.end_write();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ShardStatistics), expected: &[Step]) {
        let mut statistics = ShardStatistics::default();
        change(&mut statistics);
        let tuning = Tuning {
            attempts: 3,
            index_rows: 100,
            vector_index_rows: 1_000,
            unindexed_chunks: 50,
            unindexed_document_bytes: 10_000,
            small_fragments: 10,
            versions: 20,
            vectors_linger: Duration::ZERO,
        };
        assert_eq!(plan(&statistics, &tuning).steps, expected);
    }

    #[test]
    fn each_need_has_its_steps_in_order() {
        use TableKind::{Chunks, Failures, Sources};
        check(|_| {}, &[]);
        check(|s| s.unswept_documents = 1, &[Step::Sweep]);
        check(|s| s.is_erasure_wanted = true, &[Step::Erase]);
        check(|s| s.sources.versions = 20, &[Step::Prune(Sources)]);
        check(
            |s| (s.failures.small_fragments, s.failures.versions) = (10, 12),
            &[Step::Compact(Failures), Step::Prune(Failures)],
        );
        check(|s| (s.chunks.rows, s.chunks.indexes_missing) = (99, 5), &[]);
        check(
            |s| {
                (s.chunks.rows, s.chunks.indexes_missing) = (1_000, 5);
                s.vector_indexes_missing = 1;
            },
            &[Step::BuildIndexes(Chunks), Step::BuildVectorIndex],
        );
        check(|s| (s.chunks.rows, s.vector_indexes_missing) = (999, 1), &[]);
        check(|s| s.idle_vectors = 1, &[Step::DropVectors]);
        check(
            |s| (s.chunks.rows, s.chunks.unindexed_rows) = (900, 50),
            &[Step::RefreshIndexes(Chunks)],
        );
        check(|s| (s.chunks.rows, s.chunks.unindexed_rows) = (900, 49), &[]);
        check(
            |s| (s.sources.rows, s.sources.unindexed_rows) = (30, 3),
            &[Step::RefreshIndexes(Sources)],
        );
        check(|s| (s.sources.rows, s.sources.unindexed_rows) = (31, 3), &[]);
        check(
            |s| (s.sources.rows, s.sources.unindexed_rows, s.sources.bytes) = (900, 10, 900_000),
            &[Step::RefreshIndexes(Sources)],
        );
        check(
            |s| (s.chunks.rows, s.chunks.unindexed_rows, s.chunks.small_fragments) = (90, 1, 10),
            &[Step::RefreshIndexes(Chunks), Step::Compact(Chunks), Step::Prune(Chunks)],
        );
        check(
            |s| (s.sources.rows, s.sources.deleted_rows) = (5_000, 1_000),
            &[Step::Compact(Sources), Step::Prune(Sources)],
        );
    }
}
