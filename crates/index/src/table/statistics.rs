//! Figures about a table.

use crate::error::{Operation, Result};
use crate::storage::durable::MANIFESTS;
use crate::table::Stored;
use crate::table::schema::IndexWanted;

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

impl Stored {
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
}
