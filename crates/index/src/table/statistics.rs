//! Figures about a table.

use crate::error::{Operation, Result};
use crate::storage::durable::MANIFESTS;
use crate::table::Stored;
use crate::table::named_files::version_of;
use crate::table::schema::{IndexKind, IndexWanted};
use crate::table::tiers::{self, FragmentSize};

/// Figures that say how much maintenance a table needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows that are deleted but still in the files.
    pub deleted_rows: u64,
    /// Number of fragments.
    pub fragments: u64,
    /// Number of small fragments that merging would make one.
    pub mergeable_fragments: u64,
    /// Number of fragments that are rewritten because many of their rows are deleted.
    pub holey_fragments: u64,
    /// Number of stored versions, the current one included.
    pub versions: u64,
    /// Number of missing scalar indexes. Text and vector indexes are not counted.
    pub indexes_missing: u64,
    /// Number of rows that an index does not cover, other than a vector index.
    pub unindexed_rows: u64,
    /// Bytes of data and index files of the current version.
    pub bytes: u64,
}

impl Stored {
    /// Returns how much maintenance the table needs.
    pub(crate) async fn statistics(&self) -> Result<TableStatistics> {
        let sizes = self.sizes().await?;
        let indexes = self.indexes().await?;
        let covered = self.covered(&besides_vectors(&indexes)).await?;
        let sum = |of: fn(&FragmentSize) -> u64| sizes.iter().map(of).sum::<u64>();
        let fresh = sizes.iter().filter(|size| !covered.contains(size.id));
        Ok(TableStatistics {
            rows: sum(FragmentSize::live),
            deleted_rows: sum(|size| size.deleted),
            fragments: sizes.len() as u64,
            mergeable_fragments: tiers::mergeable(&sizes) as u64,
            holey_fragments: sizes.iter().filter(|size| size.is_holey()).count() as u64,
            versions: self.versions().await?,
            indexes_missing: self.missing_indexes().await?.len() as u64,
            unindexed_rows: fresh.map(FragmentSize::live).sum(),
            bytes: sum(|size| size.bytes) + self.index_bytes().await?,
        })
    }

    /// Returns the number of stored versions. They are listed once and after each removal. Between
    /// these, only this owner's commits add some.
    async fn versions(&self) -> Result<u64> {
        let newest = self.dataset(Operation::Read).await?.version_id();
        let mut oldest = self.fence.oldest();
        if oldest == 0 {
            // By file name: the engine's list reads every manifest.
            let names = self.place.join(MANIFESTS).names("count the table's versions").await?;
            let stored = names.iter().filter_map(|name| version_of(&format!("{MANIFESTS}/{name}")));
            oldest = stored.min().unwrap_or(newest);
            self.fence.note_oldest(oldest);
        }
        Ok(newest.saturating_sub(oldest) + 1)
    }

    /// Forgets which versions are stored, because old ones were removed.
    pub(crate) fn lost_versions(&self) {
        self.fence.note_oldest(0);
    }
}

/// Returns those of the indexes that decide whether a fragment counts as indexed. A vector index
/// leaves out small fragments, whose vectors are compared one by one.
pub(crate) fn besides_vectors(indexes: &[IndexWanted]) -> Vec<IndexWanted> {
    indexes.iter().filter(|index| index.kind != IndexKind::Vectors).cloned().collect()
}
