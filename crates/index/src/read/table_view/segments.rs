//! What the indexes of a table have in common: their segments, and rows as they take them.

use std::sync::Arc;

use async_trait::async_trait;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_index::prefilter::PreFilter;
use lance_select::RowAddrMask;
use lance_table::format::IndexMetadata;
use roaring::RoaringBitmap;

use crate::read::resident::masks::Allowed;

/// Returns the segments of an index, in the order in which they were built, and the fragments that
/// they cover. There are none if the index does not exist.
pub(super) async fn segments_of(
    dataset: &Dataset,
    index: &str,
) -> lance_core::Result<(Vec<IndexMetadata>, RoaringBitmap)> {
    let segments = dataset.load_indices_by_name(index).await?;
    let mut covered = RoaringBitmap::new();
    for segment in &segments {
        covered |= segment.fragment_bitmap.as_ref().unwrap_or(dataset.fragment_bitmap());
    }
    Ok((segments, covered))
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
