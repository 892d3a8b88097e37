//! Latest changes of what is shown of documents' trees and graphs.

use std::ops::Bound;

use clew_core::DocumentId;
use rpds::RedBlackTreeMapSync;

/// Number of changes that are kept. Who has seen fewer of them looks at all documents.
const KEPT: usize = 4_096;

/// Latest changes, by the revisions of the catalogue that they led to.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    documents: RedBlackTreeMapSync<u64, DocumentId>,
    /// Revision from which on every change is kept.
    since: u64,
}

impl Changes {
    /// Starts at a revision, without changes.
    pub(crate) fn from(revision: u64) -> Self {
        Self { documents: RedBlackTreeMapSync::new_sync(), since: revision }
    }

    /// Adds the change that led to a revision, which is higher than all before.
    pub(crate) fn add(&mut self, revision: u64, id: &DocumentId) {
        self.documents.insert_mut(revision, id.clone());
        if self.documents.size() > KEPT
            && let Some((&oldest, _)) = self.documents.first()
        {
            self.documents.remove_mut(&oldest);
            self.since = oldest;
        }
    }

    /// Returns the documents that changed after a revision; `None` if that is not known any more.
    pub(crate) fn after(&self, revision: u64) -> Option<impl Iterator<Item = &DocumentId>> {
        let later = (Bound::Excluded(revision), Bound::Unbounded);
        (revision >= self.since).then(|| self.documents.range(later).map(|(_, id)| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_known_as_long_as_none_of_them_is_dropped() {
        let id = |number: u64| -> DocumentId { format!("{number}").parse().unwrap() };
        let mut changes = Changes::from(10);
        let after = |changes: &Changes, revision| {
            changes.after(revision).map(|changed| changed.cloned().collect::<Vec<_>>())
        };
        assert_eq!(after(&changes, 10), Some(Vec::new()));
        assert_eq!(after(&changes, 9), None);
        for revision in 11..=10 + KEPT as u64 {
            changes.add(revision, &id(revision));
        }
        assert_eq!(after(&changes, 10).map(|changed| changed.len()), Some(KEPT));
        let next = 11 + KEPT as u64;
        changes.add(next, &id(next));
        assert_eq!(after(&changes, 10), None);
        assert_eq!(after(&changes, 11).map(|changed| changed.len()), Some(KEPT));
        assert_eq!(after(&changes, next - 1), Some(vec![id(next)]));
    }
}
