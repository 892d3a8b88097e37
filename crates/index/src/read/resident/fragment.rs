//! Rows of one fragment of a table, in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clew_core::{DocumentId, Filter, Labels, Recipe, Version};
use clew_vectors::Directions;
use quick_cache::sync::Cache;
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::read::resident::words::Words;
use crate::table::rows::Rows;
use crate::table::rows::owned::OwnedRow;
use crate::values::vector_memory::Reserved;

/// Maximum number of masks that a fragment keeps.
const MASKS: usize = 32;

/// What a mask of a fragment was made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MaskKey {
    /// Sets of labels that a caller holds, of those that the fragment has.
    Labels(Vec<bool>),
    /// Filter without its documents. Masks of several fragments share it.
    Filter(Arc<Filter>),
}

/// Document version that rows of a fragment belong to, with the recipe that made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowOwner {
    pub document_id: DocumentId,
    pub version: Version,
    pub recipe: Recipe,
    /// Labels of the rows, by their place among those of the fragment.
    labels: u32,
    /// Places of the owner's rows in the fragment. Rows of others may lie between them.
    places: Range<u32>,
}

/// Directions of the vectors of a fragment, by row, with the room that they take.
#[derive(Debug)]
pub(crate) struct ResidentDirections {
    pub directions: Directions,
    _room: Reserved,
}

impl ResidentDirections {
    pub(crate) fn new(directions: Directions, room: Reserved) -> Self {
        Self { directions, _room: room }
    }
}

/// Directions of one column, read when they are first needed.
pub(crate) type DirectionsCell = Arc<OnceLock<Arc<ResidentDirections>>>;

/// Rows of one fragment of `chunks` or `sources`.
#[derive(Debug)]
pub(crate) struct Fragment {
    id: u32,
    /// Owner (by its place in `owners`) and ordinal of each row. Rows that were deleted before the
    /// fragment was read have the owner [`NOBODY`].
    rows: Vec<(u32, u32)>,
    owners: Vec<RowOwner>,
    /// Places in `owners`, by document id.
    by_document: Vec<u32>,
    /// Different sets of labels of the rows.
    label_sets: Vec<Labels>,
    /// Words of the rows, read when they are first needed. The commit that adds the fragment and
    /// all searches wait for whoever reads them, which are tasks that stand still only as long as
    /// the storage does.
    pub words: OnceCell<Words>,
    directions: Mutex<HashMap<String, DirectionsCell>>,
    masks: Cache<MaskKey, Arc<RoaringBitmap>>,
}

/// Owner of a row that was deleted.
const NOBODY: u32 = u32::MAX;

impl Fragment {
    /// Returns the fragment's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the number of rows, including deleted ones.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the owner and the ordinal of the row at a place.
    pub(crate) fn row(&self, place: u32) -> Option<(&RowOwner, u32)> {
        let &(owner, ordinal) = self.rows.get(place as usize)?;
        Some((self.owners.get(owner as usize)?, ordinal))
    }

    /// Returns the places of a document's rows, with their owners and ordinals.
    pub(crate) fn rows_of(
        &self,
        document: &DocumentId,
    ) -> impl Iterator<Item = (u32, &RowOwner, u32)> {
        let id_of = move |place: &u32| &self.owners[*place as usize].document_id;
        let start = self.by_document.partition_point(|place| id_of(place) < document);
        let owners = self.by_document[start..].iter();
        let owners = owners.take_while(move |place| id_of(place) == document);
        owners.flat_map(move |&of| {
            let owner = &self.owners[of as usize];
            owner.places.clone().filter_map(move |place| {
                let (found, ordinal) = self.rows[place as usize];
                (found == of).then_some((place, owner, ordinal))
            })
        })
    }

    /// Returns the directions of a column, whether they were read already or not.
    pub(crate) fn directions(&self, column: &str) -> DirectionsCell {
        let mut columns = self.directions.lock().unwrap_or_else(PoisonError::into_inner);
        match columns.get(column) {
            Some(cell) => Arc::clone(cell),
            None => Arc::clone(columns.entry(column.to_owned()).or_default()),
        }
    }

    /// Returns the rows whose labels a caller holds, by whether they hold each set.
    pub(crate) fn admitted(&self, admits: impl Fn(&Labels) -> bool) -> Arc<RoaringBitmap> {
        let admitted: Vec<bool> = self.label_sets.iter().map(admits).collect();
        if let Some(mask) = self.masks.get(&MaskKey::Labels(admitted.clone())) {
            return mask;
        }
        let is_in = |owner: u32| {
            self.owners.get(owner as usize).is_some_and(|owner| admitted[owner.labels as usize])
        };
        let places = self.rows.iter().zip(0..);
        let places = places.filter(|((owner, _), _)| is_in(*owner)).map(|(_, place)| place);
        let mask = Arc::new(RoaringBitmap::from_sorted_iter(places).unwrap_or_default());
        self.masks.insert(MaskKey::Labels(admitted), Arc::clone(&mask));
        mask
    }

    /// Returns the mask of a filter, if it was made already.
    pub(crate) fn mask(&self, key: &MaskKey) -> Option<Arc<RoaringBitmap>> {
        self.masks.get(key)
    }

    /// Keeps the mask of a filter.
    pub(crate) fn keep_mask(&self, key: MaskKey, mask: Arc<RoaringBitmap>) {
        self.masks.insert(key, mask);
    }
}

/// Fragment that is being read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    rows: Vec<(u32, u32)>,
    owners: Vec<RowOwner>,
    label_sets: HashMap<Labels, u32>,
    /// Owner of the row before, which most often is the next row's too.
    last: usize,
}

impl Draft {
    /// Adds the row at a place.
    pub(crate) fn add(&mut self, rows: &Rows<'_>, place: u32, row: &OwnedRow<'_>) -> Result<()> {
        let is_of = |owner: &RowOwner| {
            owner.document_id.as_str() == row.document_id
                && owner.version == row.version
                && owner.recipe == row.recipe
        };
        if !self.owners.get(self.last).is_some_and(is_of) {
            let sets = self.label_sets.len() as u32;
            let labels = *self.label_sets.entry(rows.labels_of(row)?).or_insert(sets);
            self.last = self.owners.len();
            self.owners.push(RowOwner {
                document_id: rows.document_id(row)?,
                version: row.version,
                recipe: row.recipe,
                labels,
                places: place..place + 1,
            });
        }
        let owner = &mut self.owners[self.last];
        owner.places = owner.places.start.min(place)..owner.places.end.max(place + 1);
        let at = place as usize;
        if self.rows.len() <= at {
            self.rows.resize(at + 1, (NOBODY, 0));
        }
        self.rows[at] = (self.last as u32, row.ordinal);
        Ok(())
    }

    /// Ends a fragment of `physical` rows.
    pub(crate) fn finish(mut self, id: u32, physical: usize) -> Fragment {
        if self.rows.len() < physical {
            self.rows.resize(physical, (NOBODY, 0));
        }
        self.rows.shrink_to_fit();
        let mut label_sets: Vec<(Labels, u32)> = self.label_sets.into_iter().collect();
        label_sets.sort_by_key(|(_, place)| *place);
        let label_sets = label_sets.into_iter().map(|(labels, _)| labels).collect();
        let mut by_document: Vec<u32> = (0..self.owners.len() as u32).collect();
        by_document.sort_by_key(|&place| &self.owners[place as usize].document_id);
        Fragment {
            id,
            rows: self.rows,
            owners: self.owners,
            by_document,
            label_sets,
            words: OnceCell::new(),
            directions: Mutex::default(),
            masks: Cache::new(MASKS),
        }
    }
}
