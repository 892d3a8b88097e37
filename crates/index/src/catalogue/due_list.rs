//! Documents on which some work is due, in the order in which it is to be done.

use std::collections::HashSet;

use clew_core::{DocumentId, Timestamp, Version};
use rpds::RedBlackTreeSetSync;

/// Documents on which some work is due, without those set aside. Those that failed wait for their
/// next attempt apart from the others, so that looking for work passes over none of them.
#[derive(Clone, Debug)]
pub(crate) struct DueList {
    /// Documents that did not fail, oldest version first.
    fresh: RedBlackTreeSetSync<(Version, DocumentId)>,
    /// Documents that failed, oldest version first.
    failed: RedBlackTreeSetSync<(Version, DocumentId)>,
    /// The same documents, by the times of their next attempts.
    retries: RedBlackTreeSetSync<(Timestamp, Version, DocumentId)>,
}

impl DueList {
    pub(crate) fn new() -> Self {
        Self {
            fresh: RedBlackTreeSetSync::new_sync(),
            failed: RedBlackTreeSetSync::new_sync(),
            retries: RedBlackTreeSetSync::new_sync(),
        }
    }

    /// Adds a document; `next_try` is the time of its next attempt if it failed.
    pub(crate) fn add(&mut self, version: Version, id: &DocumentId, next_try: Option<Timestamp>) {
        match next_try {
            None => self.fresh.insert_mut((version, id.clone())),
            Some(time) => {
                self.failed.insert_mut((version, id.clone()));
                self.retries.insert_mut((time, version, id.clone()));
            }
        }
    }

    /// Removes a document that was added with these values.
    pub(crate) fn remove(
        &mut self,
        version: Version,
        id: &DocumentId,
        next_try: Option<Timestamp>,
    ) {
        match next_try {
            None => {
                self.fresh.remove_mut(&(version, id.clone()));
            }
            Some(time) => {
                self.failed.remove_mut(&(version, id.clone()));
                self.retries.remove_mut(&(time, version, id.clone()));
            }
        }
    }

    /// Returns up to `limit` documents that can be worked on now, oldest version first, without
    /// `busy` ones. If more failed documents than that wait for an attempt, those come whose time
    /// came first. Takes as long as there are documents in `busy` and within the limit.
    pub(crate) fn ready(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<&DocumentId> {
        let fresh = self.fresh.iter().map(|(version, id)| (version, id));
        let again = self.retries.iter().take_while(|(time, ..)| *time <= now);
        let again = again.map(|(_, version, id)| (version, id));
        let is_free = |(_, id): &(&Version, &DocumentId)| !busy.contains(*id);
        let mut ready: Vec<_> = fresh.filter(is_free).take(limit).collect();
        ready.extend(again.filter(is_free).take(limit));
        ready.sort_unstable();
        ready.truncate(limit);
        ready.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the time of the earliest next attempt.
    pub(crate) fn next_try(&self) -> Option<Timestamp> {
        self.retries.first().map(|(time, ..)| *time)
    }

    /// Returns the document with the oldest version.
    pub(crate) fn oldest(&self) -> Option<&DocumentId> {
        let oldest = [self.fresh.first(), self.failed.first()].into_iter().flatten().min();
        oldest.map(|(_, id)| id)
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> u64 {
        (self.fresh.size() + self.failed.size()) as u64
    }
}
