//! Indexes of a table: builds them and keeps them up to date.

use lancedb::index::IndexConfig;
use lancedb::table::{OptimizeAction, OptimizeOptions};

use crate::error::{Operation, Result};
use crate::table::Stored;
use crate::table::schema::IndexWanted;
use crate::table::vectors::vectors_in;

/// Number of segments of an index from which they are merged: a search queries each of them.
const MAX_SEGMENTS: u32 = 8;

impl Stored {
    /// Builds the text index if it does not exist.
    pub(crate) async fn ensure_text_index(&self) -> Result<()> {
        if let Some(wanted) = self.kind.text_index()
            && !self.has_index(&wanted).await?
        {
            self.build_index(&wanted).await?;
        }
        Ok(())
    }

    /// Returns whether the table has an index.
    pub(crate) async fn has_index(&self, wanted: &IndexWanted) -> Result<bool> {
        Ok(self.indexes().await?.iter().any(|index| index.name == wanted.name()))
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

    /// Returns the indexes that the table has.
    pub(super) async fn indexes(&self) -> Result<Vec<IndexConfig>> {
        self.run(Operation::Read, self.table.list_indices()).await
    }
}
