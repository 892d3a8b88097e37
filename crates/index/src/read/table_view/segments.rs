//! What the indexes of a table have in common: their segments, and rows as they take them.

use std::sync::Arc;

use async_trait::async_trait;
use lance::Dataset;
use lance_index::prefilter::PreFilter;
use lance_select::RowAddrMask;
use lance_table::format::IndexMetadata;
use roaring::RoaringBitmap;

use crate::read::resident::masks::Allowed;
use crate::table::indexes::segments_of;

/// Returns the segments of an index, in the order in which they were built, and the fragments that
/// they cover. There are none if the index does not exist.
pub(super) async fn segments_and_coverage(
    dataset: &Dataset,
    index: &str,
) -> lance_core::Result<(Vec<IndexMetadata>, RoaringBitmap)> {
    let segments = segments_of(dataset, index).await?;
    let covered = segments.iter().fold(RoaringBitmap::new(), |all, (_, covered)| all | covered);
    Ok((segments.into_iter().map(|(segment, _)| segment).collect(), covered))
}

/// Returns the allowed rows as the storage engine's indexes take them.
pub(super) fn masked(allowed: &Allowed) -> Arc<dyn PreFilter> {
    Arc::new(Masked(allowed.mask()))
}

struct Masked(Arc<RowAddrMask>);

#[async_trait]
impl PreFilter for Masked {
    async fn wait_for_ready(&self) -> lance_core::Result<()> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_select_all()
    }

    fn mask(&self) -> Arc<RowAddrMask> {
        Arc::clone(&self.0)
    }

    fn filter_row_ids<'a>(&self, row_ids: Box<dyn Iterator<Item = &'a u64> + 'a>) -> Vec<u64> {
        self.0.selected_indices(row_ids)
    }
}
