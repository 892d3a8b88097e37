//! Documents by the labels that they require and by their states, for totals and lists.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Bound;
use std::sync::Arc;

use clew_core::{Access, Counts, DocumentId, DocumentState, DocumentStatus, Labels, ListQuery};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::catalogue::record::{DocumentRecord, Wanted};

/// States of documents, in the order of [`Group::ids`].
const STATES: [DocumentState; 4] = [
    DocumentState::Pending,
    DocumentState::Retrying,
    DocumentState::SetAside,
    DocumentState::Indexed,
];

/// Documents that were not forgotten, in groups of those that require the same labels. A caller
/// sees a group as a whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Groups(RedBlackTreeMapSync<Labels, Group>);

#[derive(Clone, Debug, Default)]
struct Group {
    counts: Counts,
    /// Documents in each of [`STATES`].
    documents: [RedBlackTreeSetSync<ById>; STATES.len()],
}

/// Record that is ordered by its document's id.
#[derive(Clone, Debug)]
struct ById(Arc<DocumentRecord>);

impl Groups {
    pub(crate) fn new() -> Self {
        Self(RedBlackTreeMapSync::new_sync())
    }

    /// Adds a document, unless it was forgotten.
    pub(crate) fn add(&mut self, record: &Arc<DocumentRecord>, wanted: Wanted) {
        let Some(status) = record.status(wanted) else { return };
        let mut group = self.0.get(record.needs()).cloned().unwrap_or_default();
        group.counts.add(&status);
        group.counts.unstructured += u64::from(record.is_without_structure(wanted));
        group.documents[place(status.state)].insert_mut(ById(Arc::clone(record)));
        self.0.insert_mut(record.needs().clone(), group);
    }

    /// Removes a document that was added.
    pub(crate) fn remove(&mut self, record: &DocumentRecord, wanted: Wanted) {
        let Some(status) = record.status(wanted) else { return };
        let Some(mut group) = self.0.get(record.needs()).cloned() else { return };
        group.counts.subtract(&status);
        let unstructured = u64::from(record.is_without_structure(wanted));
        group.counts.unstructured = group.counts.unstructured.saturating_sub(unstructured);
        group.documents[place(status.state)].remove_mut(&record.id);
        if group.documents.iter().all(RedBlackTreeSetSync::is_empty) {
            self.0.remove_mut(record.needs());
        } else {
            self.0.insert_mut(record.needs().clone(), group);
        }
    }

    /// Returns the totals of what a caller sees.
    pub(crate) fn counts(&self, access: &Access) -> Counts {
        sum(self.0.iter().map(|(needed, group)| (needed, &group.counts)), access)
    }

    /// Returns the totals of each group.
    pub(crate) fn totals(&self) -> Totals {
        Totals(self.0.iter().map(|(needed, group)| (needed.clone(), group.counts)).collect())
    }

    /// Returns a page of the documents that a caller sees, by id. Takes as long as there are
    /// groups, and documents in the page.
    pub(crate) fn list(
        &self,
        wanted: Wanted,
        query: &ListQuery,
        access: &Access,
    ) -> Vec<DocumentStatus> {
        let from = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let seen = self.0.iter().filter(|(needed, _)| access.admits(needed));
        let sets = seen.flat_map(|(_, group)| STATES.into_iter().zip(&group.documents));
        let sets = sets.filter(|(state, _)| query.state.is_none_or(|wanted| wanted == *state));
        let mut rests: Vec<_> =
            sets.map(|(_, set)| set.range::<DocumentId, _>((from, Bound::Unbounded))).collect();
        // The next document of each set; the least comes first.
        let mut next: BinaryHeap<Reverse<(&ById, usize)>> = BinaryHeap::with_capacity(rests.len());
        for (place, rest) in rests.iter_mut().enumerate() {
            next.extend(rest.next().map(|first| Reverse((first, place))));
        }
        let mut page = Vec::new();
        while page.len() < query.limit
            && let Some(Reverse((ById(record), place))) = next.pop()
        {
            page.extend(record.status(wanted));
            next.extend(rests[place].next().map(|following| Reverse((following, place))));
        }
        page
    }

    /// Returns whether there is no document.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Totals of the documents that require the same labels, for as long as nothing is written. They
/// hold no documents.
#[derive(Clone, Debug, Default)]
pub struct Totals(Vec<(Labels, Counts)>);

impl Totals {
    /// Returns the totals of what a caller sees.
    pub fn counts(&self, access: &Access) -> Counts {
        sum(self.0.iter().map(|(needed, counts)| (needed, counts)), access)
    }
}

fn sum<'a>(groups: impl Iterator<Item = (&'a Labels, &'a Counts)>, access: &Access) -> Counts {
    let mut total = Counts::default();
    for (_, counts) in groups.filter(|(needed, _)| access.admits(needed)) {
        total += *counts;
    }
    total
}

fn place(state: DocumentState) -> usize {
    match state {
        DocumentState::Pending => 0,
        DocumentState::Retrying => 1,
        DocumentState::SetAside => 2,
        DocumentState::Indexed => 3,
    }
}

impl Borrow<DocumentId> for ById {
    fn borrow(&self) -> &DocumentId {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl PartialOrd for ById {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ById {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_place() {
        for (at, state) in STATES.into_iter().enumerate() {
            assert_eq!(place(state), at);
        }
    }
}
