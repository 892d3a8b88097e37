//! Which rows may be found, as sets of row numbers.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use clew_core::{Access, Filter};
use lance::Dataset;
use lance_select::{RowAddrMask, RowAddrTreeMap};
use roaring::RoaringBitmap;

use crate::catalogue::Catalogue;
use crate::error::{Operation, Result};
use crate::read::resident::fragment::MaskKey;
use crate::read::resident::{Fragments, parts};
use crate::table::engine::scan_fragments;
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::owned::ROW;

/// Rows that may be found.
#[derive(Clone, Debug)]
pub(crate) enum Allowed {
    /// Any row.
    All,
    /// These rows.
    These(Arc<RowAddrMask>),
}

impl Allowed {
    fn these(rows: RowAddrTreeMap) -> Self {
        Self::These(Arc::new(RowAddrMask::from_allowed(rows)))
    }

    /// Allows the rows with these numbers.
    pub(crate) fn rows(rows: impl IntoIterator<Item = u64>) -> Self {
        Self::these(rows.into_iter().collect())
    }

    /// Returns whether a row may be found.
    pub(crate) fn has(&self, row: u64) -> bool {
        match self {
            Self::All => true,
            Self::These(mask) => mask.selected(row),
        }
    }

    /// Returns the number of rows that may be found, of `all`.
    pub(crate) fn count(&self, all: usize) -> usize {
        match self {
            Self::All => all,
            Self::These(mask) => {
                mask.max_len().map_or(all, |rows| usize::try_from(rows).unwrap_or(all))
            }
        }
    }

    /// Returns the places of a fragment whose rows may be found. `None` means any place.
    pub(crate) fn places(&self, fragment: u32) -> Option<RoaringBitmap> {
        match self {
            Self::All => None,
            Self::These(mask) => {
                let rows = mask.allow_list().and_then(|rows| rows.get_fragment_bitmap(fragment));
                Some(rows.cloned().unwrap_or_default())
            }
        }
    }

    /// Returns the mask for the storage engine's indexes.
    pub(crate) fn mask(&self) -> Arc<RowAddrMask> {
        match self {
            Self::All => Arc::new(RowAddrMask::all_rows()),
            Self::These(mask) => Arc::clone(mask),
        }
    }
}

/// Returns the rows that a caller and a filter allow. Rows with labels that no document has any
/// more are not visible anyway, so they may be among them.
pub(crate) async fn allowed(
    kind: TableKind,
    dataset: &Dataset,
    fragments: &Fragments,
    catalogue: &Catalogue,
    access: &Access,
    query: &Filter,
) -> Result<Allowed> {
    let sees_all = catalogue.label_sets(access).all(|(_, is_seen)| is_seen);
    if sees_all && query.is_empty() {
        return Ok(Allowed::All);
    }
    let of_rows = Filter { documents: Vec::new(), ..query.clone() };
    let filtered = match of_rows.is_empty() {
        true => None,
        false => Some(filtered(kind, dataset, fragments, of_rows).await?),
    };
    let mut rows = RowAddrTreeMap::new();
    for fragment in fragments.iter() {
        let mut masks: Vec<Arc<RoaringBitmap>> = Vec::new();
        if !sees_all {
            masks.push(fragment.admitted(|labels| access.admits(labels)));
        }
        if let Some(filtered) = &filtered {
            masks.extend(filtered.get(&fragment.id()).cloned());
        }
        if !query.documents.is_empty() {
            let of = |id| fragment.rows_of(id).map(|(place, ..)| place);
            masks.push(Arc::new(query.documents.iter().flat_map(of).collect()));
        }
        let all = masks.into_iter().map(|mask| RoaringBitmap::clone(&mask));
        if let Some(mask) = all.reduce(|a, b| a & b)
            && !mask.is_empty()
        {
            rows.insert_bitmap(fragment.id(), mask);
        }
    }
    Ok(Allowed::these(rows))
}

/// Returns the rows of each fragment that a filter admits. Asks the storage engine about the
/// fragments that were not asked about before.
async fn filtered(
    kind: TableKind,
    dataset: &Dataset,
    fragments: &Fragments,
    query: Filter,
) -> Result<HashMap<u32, Arc<RoaringBitmap>>> {
    let query = Arc::new(query);
    let key = MaskKey::Filter(Arc::clone(&query));
    let known = fragments.iter().map(|fragment| (fragment.id(), fragment.mask(&key)));
    let (known, missing): (Vec<_>, Vec<_>) = known.partition(|(_, mask)| mask.is_some());
    let mut masks: HashMap<u32, Arc<RoaringBitmap>> =
        known.into_iter().filter_map(|(id, mask)| Some((id, mask?))).collect();
    if missing.is_empty() {
        return Ok(masks);
    }
    let missing: Vec<u32> = missing.into_iter().map(|(id, _)| id).collect();
    let mut found: HashMap<u32, RoaringBitmap> =
        missing.iter().map(|&id| (id, RoaringBitmap::new())).collect();
    let predicate = filter::of_filter(&query);
    let add = |batch: &RecordBatch| {
        for row in Rows::new(kind, batch).values::<UInt64Type>(ROW)? {
            let (fragment, place) = parts(row);
            found.entry(fragment).or_default().insert(place);
        }
        Ok(())
    };
    scan_fragments(kind, Operation::Search, dataset, &missing, &[], predicate, add).await?;
    for (id, mask) in found {
        let mask = Arc::new(mask);
        if let Some(fragment) = fragments.get(id) {
            fragment.keep_mask(key.clone(), Arc::clone(&mask));
        }
        masks.insert(id, mask);
    }
    Ok(masks)
}
