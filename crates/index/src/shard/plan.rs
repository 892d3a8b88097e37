//! Plan of maintenance: a pure function of a shard's statistics decides which steps are needed.

use clew_core::ErasureScan;

use crate::settings::Tuning;
use crate::table::kind::TableKind;
use crate::table::statistics::TableStatistics;

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

/// Step of maintenance. No step changes what readers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaintenanceStep {
    /// Delete rows that are no longer visible or of use.
    Sweep,
    /// Remove forgotten text from the disk. Includes what the steps below do.
    Erase,
    /// Build the table's missing scalar indexes.
    BuildIndexes(TableKind),
    /// Build the missing vector indexes.
    BuildVectorIndex,
    /// Drop the vector columns that are no longer wanted.
    DropVectors,
    /// Merge the table's small fragments, rewrite those with many deleted rows, and index what is
    /// not indexed yet.
    Compact(TableKind),
    /// Remove the table's old versions.
    Prune(TableKind),
}

/// Steps that a shard needs, in the order in which they should be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenancePlan {
    /// Steps; empty if nothing is needed.
    pub steps: Vec<MaintenanceStep>,
}

/// Outcome of maintenance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Steps that were done.
    pub done: Vec<MaintenanceStep>,
    /// Steps that wait for searches to end. Plan again later.
    pub postponed: Vec<MaintenanceStep>,
    /// What was left of forgotten documents, if they were looked for.
    pub scan: Option<ErasureScan>,
}

/// Returns the plan for a shard with these statistics.
pub fn plan(statistics: &ShardStatistics, tuning: &Tuning) -> MaintenancePlan {
    let mut steps = Vec::new();
    if statistics.unswept_documents > 0 {
        steps.push(MaintenanceStep::Sweep);
    }
    if statistics.is_erasure_wanted {
        steps.push(MaintenanceStep::Erase);
    }
    let wants_vectors = statistics.chunks.rows >= tuning.vector_index_rows;
    for (kind, table) in statistics.tables() {
        if table.indexes_missing > 0 && table.rows >= tuning.index_rows {
            steps.push(MaintenanceStep::BuildIndexes(kind));
        }
        if kind == TableKind::Chunks && statistics.idle_vectors > 0 {
            steps.push(MaintenanceStep::DropVectors);
        }
        if kind == TableKind::Chunks && wants_vectors && statistics.vector_indexes_missing > 0 {
            steps.push(MaintenanceStep::BuildVectorIndex);
        }
        let compacts = table.mergeable_fragments >= tuning.small_fragments
            || table.holey_fragments > 0
            || needs_indexing(kind, table, tuning);
        if compacts {
            steps.push(MaintenanceStep::Compact(kind));
        }
        if compacts || table.versions >= tuning.versions {
            steps.push(MaintenanceStep::Prune(kind));
        }
    }
    MaintenancePlan { steps }
}

/// Returns whether unindexed rows make searches slow.
fn needs_indexing(kind: TableKind, table: &TableStatistics, tuning: &Tuning) -> bool {
    let unindexed = table.unindexed_rows;
    match kind {
        // A row is a whole document, so its bytes count.
        TableKind::Sources => {
            table.bytes / table.rows.max(1) * unindexed >= tuning.unindexed_document_bytes
        }
        TableKind::Chunks | TableKind::Nodes | TableKind::Failures => {
            unindexed >= tuning.unindexed_chunks
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(change: impl FnOnce(&mut ShardStatistics), expected: &[MaintenanceStep]) {
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
        check(|s| s.unswept_documents = 1, &[MaintenanceStep::Sweep]);
        check(|s| s.is_erasure_wanted = true, &[MaintenanceStep::Erase]);
        check(|s| s.sources.versions = 20, &[MaintenanceStep::Prune(Sources)]);
        check(
            |s| (s.failures.mergeable_fragments, s.failures.versions) = (10, 12),
            &[MaintenanceStep::Compact(Failures), MaintenanceStep::Prune(Failures)],
        );
        check(|s| (s.chunks.rows, s.chunks.indexes_missing) = (99, 5), &[]);
        check(
            |s| {
                (s.chunks.rows, s.chunks.indexes_missing) = (1_000, 5);
                s.vector_indexes_missing = 1;
            },
            &[MaintenanceStep::BuildIndexes(Chunks), MaintenanceStep::BuildVectorIndex],
        );
        check(|s| (s.chunks.rows, s.vector_indexes_missing) = (999, 1), &[]);
        check(|s| s.idle_vectors = 1, &[MaintenanceStep::DropVectors]);
        let compact = |kind| [MaintenanceStep::Compact(kind), MaintenanceStep::Prune(kind)];
        check(|s| (s.chunks.rows, s.chunks.unindexed_rows) = (900, 50), &compact(Chunks));
        check(|s| (s.chunks.rows, s.chunks.unindexed_rows) = (900, 49), &[]);
        check(
            |s| (s.sources.rows, s.sources.unindexed_rows, s.sources.bytes) = (900, 10, 900_000),
            &compact(Sources),
        );
        check(
            |s| (s.sources.rows, s.sources.unindexed_rows, s.sources.bytes) = (900, 9, 900_000),
            &[],
        );
        check(|s| s.sources.holey_fragments = 1, &compact(Sources));
    }
}
