//! What searches know of a table's rows without reading them: whose they are, the words of those
//! that the text index does not cover yet, and the directions of their vectors.
//!
//! The storage engine writes a fragment of rows once. Later it only marks rows in it as deleted,
//! and a row is deleted only after nothing shows it any more. The one column that changes in place
//! ([`crate::table::renumbering`]) is not kept here. So what was learned of a fragment stays right,
//! and all views that have the fragment share it. A commit costs what its own rows cost.

pub(crate) mod fragment;
pub(crate) mod masks;
pub(crate) mod words;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use clew_core::DocumentId;
use lance::Dataset;

use crate::error::{Operation, Result};
use crate::read::resident::fragment::{Draft, Fragment, RowOwner};
use crate::table::engine::scan_fragments;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

/// Fragments of one version of a table, by number. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments(Arc<BTreeMap<u32, Arc<Fragment>>>);

impl Fragments {
    /// Returns the fragments of `dataset`. Reads those that are not among `known`.
    pub(crate) async fn of(kind: TableKind, dataset: &Dataset, known: &Self) -> Result<Self> {
        let ids = || dataset.fragments().iter().map(|fragment| number_of(fragment.id));
        let missing: Vec<u32> = ids().filter(|id| known.get(*id).is_none()).collect();
        if missing.is_empty() && known.0.len() == dataset.fragments().len() {
            return Ok(known.clone());
        }
        let kept = ids().filter_map(|id| Some((id, Arc::clone(known.get(id)?))));
        let kept = Self(Arc::new(kept.collect()));
        match missing.is_empty() {
            true => Ok(kept),
            false => Ok(kept.with(Self::some_of(kind, dataset, &missing).await?)),
        }
    }

    /// Reads some fragments of `dataset`.
    pub(crate) async fn some_of(
        kind: TableKind,
        dataset: &Dataset,
        ids: &[u32],
    ) -> Result<Vec<Arc<Fragment>>> {
        let mut reading = FragmentsReading::default();
        let columns = Rows::columns_of_owned(kind);
        let read = |batch: &RecordBatch| reading.add(kind, batch);
        scan_fragments(kind, Operation::Read, dataset, ids, columns, None, read).await?;
        let read = reading.finish(dataset).into_iter();
        Ok(read.filter(|(id, _)| ids.contains(id)).map(|(_, fragment)| fragment).collect())
    }

    /// Returns these fragments and others.
    pub(crate) fn with(&self, others: Vec<Arc<Fragment>>) -> Self {
        let mut all = BTreeMap::clone(&self.0);
        all.extend(others.into_iter().map(|fragment| (fragment.id(), fragment)));
        Self(Arc::new(all))
    }

    /// Returns a fragment by its number.
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Fragment>> {
        self.0.get(&id)
    }

    /// Returns the fragments in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Fragment>> {
        self.0.values()
    }

    /// Returns the owner and the ordinal of a row.
    pub(crate) fn row(&self, row: u64) -> Option<(&RowOwner, u32)> {
        let (fragment, place) = parts(row);
        self.get(fragment)?.row(place)
    }

    /// Returns the rows of a document, with their owners and ordinals.
    pub(crate) fn rows_of(
        &self,
        document: &DocumentId,
    ) -> impl Iterator<Item = (u64, &RowOwner, u32)> {
        self.iter().flat_map(move |fragment| {
            let rows = fragment.rows_of(document);
            rows.map(|(place, owner, ordinal)| (row_at(fragment.id(), place), owner, ordinal))
        })
    }

    /// Returns the number of rows, including deleted ones that are still in the files.
    pub(crate) fn rows(&self) -> usize {
        self.iter().map(|fragment| fragment.len()).sum()
    }
}

/// Fragments that are being read, in whatever order their rows come.
#[derive(Debug, Default)]
pub(crate) struct FragmentsReading(HashMap<u32, Draft>);

impl FragmentsReading {
    /// Adds rows with the columns of [`Rows::columns_of_owned`] and their numbers.
    pub(crate) fn add(&mut self, kind: TableKind, batch: &RecordBatch) -> Result<()> {
        let rows = Rows::new(kind, batch);
        for row in rows.owned()? {
            let (fragment, place) = parts(row.number);
            self.0.entry(fragment).or_default().add(&rows, place, &row)?;
        }
        Ok(())
    }

    /// Returns the fragments of `dataset` that were read, also those without rows.
    fn finish(mut self, dataset: &Dataset) -> BTreeMap<u32, Arc<Fragment>> {
        let finished = dataset.fragments().iter().map(|stored| {
            let id = number_of(stored.id);
            let draft = self.0.remove(&id).unwrap_or_default();
            (id, Arc::new(draft.finish(id, stored.physical_rows.unwrap_or(0))))
        });
        finished.collect()
    }

    /// Returns all fragments of `dataset`, which were all read.
    pub(crate) fn all(self, dataset: &Dataset) -> Fragments {
        Fragments(Arc::new(self.finish(dataset)))
    }
}

/// Returns the fragment of a row and its place in the fragment.
pub(crate) fn parts(row: u64) -> (u32, u32) {
    ((row >> 32) as u32, row as u32)
}

/// Returns the number of the row at a place in a fragment.
pub(crate) fn row_at(fragment: u32, place: u32) -> u64 {
    u64::from(fragment) << 32 | u64::from(place)
}

/// The engine numbers fragments by 64 bits, and uses 32 of them in row numbers.
fn number_of(id: u64) -> u32 {
    id as u32
}
