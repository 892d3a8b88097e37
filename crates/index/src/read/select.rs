//! Finds documents by filters, and describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use clew_core::{Access, DescribedDocument, DocumentId, DocumentStatus, Selection, Version};
use lance::dataset::ProjectionRequest;

use crate::boxed;
use crate::catalogue::record::DocumentRecord;
use crate::error::{Error, Operation, Result};
use crate::read::reader::ShardView;
use crate::read::resident::Fragments;
use crate::read::resident::fragment::RowOwner;
use crate::read::resident::masks::Allowed;
use crate::read::table_view::TableView;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::{in_background, run};
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

impl ShardView {
    /// Returns up to `limit` documents that are selected and come after `after`, by id. A document
    /// is judged by the version that searches find, or else by the newest.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn select(
        &self,
        selection: &Selection,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentStatus>> {
        let (selecting, after) = (self.selecting(selection).await?, after.cloned());
        let selected = in_background(move || {
            let mut first = BTreeSet::new();
            for id in selecting.ids(after.as_ref()) {
                let is_beyond = first.len() >= limit && first.last().is_none_or(|last| id >= *last);
                if is_beyond && selecting.are_ids_in_order() {
                    break;
                }
                if !is_beyond && selecting.admits(id) {
                    first.insert(id);
                    if first.len() > limit {
                        first.pop_last();
                    }
                }
            }
            let catalogue = &selecting.snapshot.catalogue;
            let status = |id: &DocumentId| catalogue.get(id)?.status(catalogue.wanted());
            first.into_iter().filter_map(status).collect()
        });
        Ok(selected.await)
    }

    /// Returns the number of documents that are selected.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn count_selected(&self, selection: &Selection) -> Result<u64> {
        let selecting = self.selecting(selection).await?;
        let counted = in_background(move || {
            let admitted = selecting.ids(None).filter(|id| selecting.admits(id));
            // A document is not there twice, but nothing here makes sure of that.
            admitted.collect::<BTreeSet<_>>().len() as u64
        });
        Ok(counted.await)
    }

    async fn selecting(&self, selection: &Selection) -> Result<Selecting> {
        let snapshot = self.snapshot();
        let (table, filter) = (&snapshot.source_rows, &selection.filter);
        let rows = match filter.is_empty() {
            true => None,
            false => {
                let allowed = table.allowed(&snapshot.catalogue, self.access(), filter).await?;
                Some((table.fragments().await?.clone(), allowed))
            }
        };
        let (access, selection) = (self.access().clone(), selection.clone());
        Ok(Selecting { snapshot, access, selection, rows })
    }

    /// Returns titles and attributes of documents, in no particular order, of the version that
    /// searches find, or else of the newest. Leaves out documents that do not exist. A document has
    /// no title as long as searches find no version of it.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn describe(&self, ids: &[DocumentId]) -> Result<Vec<DescribedDocument>> {
        let snapshot = self.snapshot();
        let sources = snapshot.source_rows.fragments().await?;
        let chunks = snapshot.chunk_rows.fragments().await?;
        let (mut rows, mut first_chunks) = (BTreeMap::new(), BTreeMap::new());
        for id in ids {
            let record = snapshot.catalogue.get(id);
            let record = record.filter(|record| record.is_seen_by(self.access()));
            let Some(version) = record.and_then(|record| shown(record)) else { continue };
            let is_it = |owner: &RowOwner| owner.version == version;
            rows.extend(row_of(sources, id, |owner, _| is_it(owner)).map(|row| (row, id)));
            let is_first =
                |owner: &RowOwner, ordinal| ordinal == 0 && snapshot.shows(self.access(), owner);
            first_chunks.extend(row_of(chunks, id, is_first).map(|row| (row, id)));
        }
        let mut described = BTreeMap::new();
        let read = read_rows(&snapshot.source_rows, TableKind::Sources, &rows, column::ATTRIBUTES);
        if let Some(batch) = read.await? {
            let read = Rows::new(TableKind::Sources, &batch);
            for (place, id) in rows.values().enumerate() {
                let attributes = read.attributes(place)?;
                let (document_id, title) = ((*id).clone(), String::new());
                described.insert(*id, DescribedDocument { document_id, title, attributes });
            }
        }
        let read = read_rows(&snapshot.chunk_rows, TableKind::Chunks, &first_chunks, column::TITLE);
        if let Some(batch) = read.await? {
            let titles = Rows::new(TableKind::Chunks, &batch).titles()?;
            for (id, title) in first_chunks.values().zip(titles) {
                if let Some(described) = described.get_mut(*id) {
                    described.title = title;
                }
            }
        }
        Ok(described.into_values().collect())
    }
}

/// Selection on a view of the shard.
struct Selecting {
    snapshot: Arc<Snapshot>,
    access: Access,
    selection: Selection,
    /// Rows of `sources` that the filter admits. `None` if it restricts nothing.
    rows: Option<(Fragments, Allowed)>,
}

impl Selecting {
    /// Returns whether [`Self::ids`] returns the ids in their order.
    fn are_ids_in_order(&self) -> bool {
        self.rows.is_none()
    }

    /// Returns the ids of documents that the filter admits and that come after `after`.
    fn ids<'a>(
        &'a self,
        after: Option<&'a DocumentId>,
    ) -> Box<dyn Iterator<Item = &'a DocumentId> + 'a> {
        let prefix = self.selection.prefix.as_ref();
        let has_prefix = move |id: &DocumentId| {
            prefix.is_none_or(|prefix| id.as_str().starts_with(prefix.as_str()))
        };
        let Some((fragments, allowed)) = &self.rows else {
            let from = match (prefix, after) {
                (Some(prefix), after) if after.is_none_or(|after| after < prefix) => {
                    Bound::Included(prefix)
                }
                (_, Some(after)) => Bound::Excluded(after),
                (_, None) => Bound::Unbounded,
            };
            let records = self.snapshot.catalogue.records_from(from);
            return Box::new(records.map(|record| &record.id).take_while(move |id| has_prefix(id)));
        };
        let is_wanted = move |owner: &RowOwner| {
            let id = &owner.document_id;
            after.is_none_or(|after| id > after) && has_prefix(id)
        };
        let owners = fragments.iter().flat_map(move |fragment| {
            let places: Box<dyn Iterator<Item = u32>> = match allowed.places(fragment.id()) {
                Some(places) => Box::new(places.into_iter()),
                None => Box::new(0..u32::try_from(fragment.len()).unwrap_or(u32::MAX)),
            };
            places.filter_map(move |place| fragment.row(place)).map(|(owner, _)| owner)
        });
        // Other versions than the one that is shown may be admitted as well.
        let is_shown = move |owner: &&RowOwner| {
            let record = self.snapshot.catalogue.get(&owner.document_id);
            record.and_then(|record| shown(record)) == Some(owner.version)
        };
        let owners = owners.filter(move |owner| is_wanted(owner)).filter(is_shown);
        Box::new(owners.map(|owner| &owner.document_id))
    }

    /// Returns whether there is the document, the caller sees it, and its state is wanted.
    fn admits(&self, id: &DocumentId) -> bool {
        let catalogue = &self.snapshot.catalogue;
        let Some(record) = catalogue.get(id).filter(|record| record.is_seen_by(&self.access))
        else {
            return false;
        };
        let status = record.status(catalogue.wanted());
        let wanted = self.selection.state;
        status.is_some_and(|status| wanted.is_none_or(|wanted| status.state == wanted))
    }
}

/// Returns the version of a document that searches find, or else the newest one.
fn shown(record: &DocumentRecord) -> Option<Version> {
    let live = record.live().map(|live| live.version);
    live.or_else(|| record.newest().map(|newest| newest.version))
}

fn row_of(
    fragments: &Fragments,
    id: &DocumentId,
    is_it: impl Fn(&RowOwner, u32) -> bool,
) -> Option<u64> {
    let mut rows = fragments.rows_of(id);
    rows.find(|(_, owner, ordinal)| is_it(owner, *ordinal)).map(|(row, ..)| row)
}

/// Reads a column of some rows, in the order of their numbers.
async fn read_rows(
    table: &TableView,
    kind: TableKind,
    rows: &BTreeMap<u64, &DocumentId>,
    column: &str,
) -> Result<Option<RecordBatch>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let (dataset, rows) = (table.dataset(), rows.keys().copied().collect::<Vec<u64>>());
    let read = async {
        let column = ProjectionRequest::from_columns([column], dataset.schema());
        Ok(dataset.take_builder(&rows, column)?.execute().await?)
    };
    let batch = run(kind, Operation::Read, read).await?;
    match batch.num_rows() == rows.len() {
        true => Ok(Some(batch)),
        false => Err(Error::Corrupt {
            what: format!("table `{kind}`"),
            source: "a row cannot be read".into(),
        }),
    }
}
