//! All documents of a shard, in memory: what searches may find and what waits to be derived.
//!
//! The catalogue is a persistent map. A copy costs nothing, so each view of the shard has its own,
//! and a change costs the logarithm of its size. A million documents take about half a gigabyte.

pub(crate) mod corpus_tree;
pub(crate) mod reading;
pub(crate) mod record;

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use clew_core::{
    Access, CorpusTree, CorpusTreeKey, Counts, DocumentId, DocumentStatus, Labels, ListQuery,
    MemoryPart, Reembedded, Timestamp, Version,
};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::catalogue::record::{DocumentRecord, Wanted};
use crate::values::due::{DueDocument, Lag};
use crate::values::facts::Facts;

/// All documents of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    wanted: Wanted,
    records: RedBlackTreeMapSync<DocumentId, Arc<DocumentRecord>>,
    /// Documents whose chunks are to be made, oldest version first, without those set aside.
    waiting: RedBlackTreeSetSync<(Version, DocumentId)>,
    /// Documents with searchable chunks that do not meet the wanted recipes, oldest version first,
    /// without those set aside.
    outdated: RedBlackTreeSetSync<(Version, DocumentId)>,
    /// Number of outdated documents that were set aside.
    outdated_set_aside: u64,
    /// Documents whose tree and graph are to be made, oldest version first, without those set
    /// aside.
    without_structure: RedBlackTreeSetSync<(Version, DocumentId)>,
    /// Nodes of the corpus tree that have a row.
    upper: RedBlackTreeSetSync<CorpusTreeKey>,
    /// Documents with rows that are to be swept.
    unswept: RedBlackTreeSetSync<DocumentId>,
    /// Totals of documents, by the labels that they require.
    counts: RedBlackTreeMapSync<Labels, Counts>,
    /// Number of accepted versions that carry each set of labels, without the empty set.
    label_sets: RedBlackTreeMapSync<Labels, u64>,
    /// Number of changes, so that data derived from an earlier state is known to be old.
    revision: u64,
}

impl Catalogue {
    /// Returns a catalogue without documents. `wanted` says what should be derived from documents.
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            records: RedBlackTreeMapSync::new_sync(),
            waiting: RedBlackTreeSetSync::new_sync(),
            outdated: RedBlackTreeSetSync::new_sync(),
            outdated_set_aside: 0,
            without_structure: RedBlackTreeSetSync::new_sync(),
            upper: RedBlackTreeSetSync::new_sync(),
            unswept: RedBlackTreeSetSync::new_sync(),
            counts: RedBlackTreeMapSync::new_sync(),
            label_sets: RedBlackTreeMapSync::new_sync(),
            revision: 0,
        }
    }

    /// Returns what should be derived.
    pub(crate) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Returns the record of a document.
    pub(crate) fn get(&self, id: &DocumentId) -> Option<&Arc<DocumentRecord>> {
        self.records.get(id)
    }

    /// Returns whether each part is of the version of its document that searches find.
    pub(crate) fn finds_all(&self, parts: &[MemoryPart]) -> bool {
        parts.iter().all(|part| {
            let live = self.get(&part.document_id).and_then(|record| record.live());
            live.is_some_and(|live| live.version == part.version)
        })
    }

    /// Changes the facts of a document, known or not.
    pub(crate) fn change(&mut self, id: &DocumentId, change: impl FnOnce(&mut Facts)) {
        let record = match self.records.get(id) {
            Some(record) => record.with(self.wanted, change),
            None => {
                let mut facts = Facts::default();
                change(&mut facts);
                DocumentRecord::new(id.clone(), facts, self.wanted)
            }
        };
        self.revision += 1;
        self.take_out(id);
        if record.facts != Facts::default() {
            self.put_in(record);
        }
    }

    fn put_in(&mut self, record: DocumentRecord) {
        let mut counts = self.counts.get(record.needs()).copied().unwrap_or_default();
        if let Some(status) = record.status(self.wanted) {
            counts.add(&status);
        }
        if let Some(version) = due_version(&record, self.wanted) {
            self.waiting.insert_mut((version, record.id.clone()));
        }
        match outdated_version(&record, self.wanted) {
            Some((version, false)) => self.outdated.insert_mut((version, record.id.clone())),
            Some((_, true)) => self.outdated_set_aside += 1,
            None => {}
        }
        if let Some(version) = structure_due_version(&record, self.wanted) {
            counts.unstructured += 1;
            self.without_structure.insert_mut((version, record.id.clone()));
        }
        self.counts.insert_mut(record.needs().clone(), counts);
        for labels in label_sets(&record) {
            let versions = self.label_sets.get(labels).copied().unwrap_or(0);
            self.label_sets.insert_mut(labels.clone(), versions + 1);
        }
        if record.needs_sweep(self.wanted) {
            self.unswept.insert_mut(record.id.clone());
        }
        self.records.insert_mut(record.id.clone(), Arc::new(record));
    }

    fn take_out(&mut self, id: &DocumentId) {
        let Some(record) = self.records.get(id).cloned() else { return };
        let mut counts = self.counts.get(record.needs()).copied().unwrap_or_default();
        if let Some(status) = record.status(self.wanted) {
            counts.subtract(&status);
        }
        if let Some(version) = due_version(&record, self.wanted) {
            self.waiting.remove_mut(&(version, id.clone()));
        }
        match outdated_version(&record, self.wanted) {
            Some((version, false)) => {
                self.outdated.remove_mut(&(version, id.clone()));
            }
            Some((_, true)) => self.outdated_set_aside = self.outdated_set_aside.saturating_sub(1),
            None => {}
        }
        if let Some(version) = structure_due_version(&record, self.wanted) {
            counts.unstructured = counts.unstructured.saturating_sub(1);
            self.without_structure.remove_mut(&(version, id.clone()));
        }
        if counts == Counts::default() {
            self.counts.remove_mut(record.needs());
        } else {
            self.counts.insert_mut(record.needs().clone(), counts);
        }
        for labels in label_sets(&record) {
            let versions = self.label_sets.get(labels).copied().unwrap_or(0);
            if versions > 1 {
                self.label_sets.insert_mut(labels.clone(), versions - 1);
            } else {
                self.label_sets.remove_mut(labels);
            }
        }
        self.unswept.remove_mut(id);
        self.records.remove_mut(id);
    }

    /// Returns the totals of what a caller sees.
    pub(crate) fn counts(&self, access: &Access) -> Counts {
        let mut total = Counts::default();
        for (_, counts) in self.counts.iter().filter(|(needed, _)| access.admits(needed)) {
            total += *counts;
        }
        total
    }

    /// Returns every non-empty set of labels that an accepted version carries, with whether the
    /// caller may see documents that carry it.
    pub(crate) fn label_sets<'a>(
        &'a self,
        access: &'a Access,
    ) -> impl Iterator<Item = (&'a Labels, bool)> {
        self.label_sets.keys().map(|labels| (labels, access.admits(labels)))
    }

    /// Returns whether there is such a document and a caller may know of it.
    pub(crate) fn sees(&self, access: &Access, id: &DocumentId) -> bool {
        self.get(id).is_some_and(|record| record.is_seen_by(access))
    }

    /// Returns how far reembedding has come.
    pub(crate) fn reembedded(&self) -> Reembedded {
        Reembedded {
            recipe: self.wanted.chunks.wanted,
            documents: self.counts(&Access::all()).documents,
            outdated: self.outdated.size() as u64 + self.outdated_set_aside,
            set_aside: self.outdated_set_aside,
        }
    }

    /// Returns the same documents in a catalogue that wants something else of them.
    pub(crate) fn wanting(&self, wanted: Wanted) -> Self {
        let mut other = Self::new(wanted);
        other.upper = self.upper.clone();
        other.revision = self.revision + 1;
        for record in self.records.values() {
            let facts = record.facts.clone();
            other.put_in(DocumentRecord::new(record.id.clone(), facts, wanted));
        }
        other
    }

    /// Returns how much is still to be derived.
    pub(crate) fn lag(&self) -> Lag {
        // The lowest version was accepted at most a little later than the oldest, and finding it
        // takes one look-up.
        let oldest = self.waiting.first().and_then(|(_, id)| self.records.get(id)?.newest());
        Lag {
            oldest_accepted: oldest.map(|source| source.accepted_at),
            waiting: self.waiting.size() as u64,
            outdated: self.outdated.size() as u64,
            without_structure: self.without_structure.size() as u64,
        }
    }

    /// Returns the documents with rows that are to be swept.
    pub(crate) fn unswept(&self) -> impl Iterator<Item = &Arc<DocumentRecord>> {
        self.unswept.iter().filter_map(|id| self.records.get(id))
    }

    /// Returns up to `limit` documents whose chunks are to be made now, oldest first, without
    /// `busy` ones.
    pub(crate) fn due(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.ready(&self.waiting, now, limit, busy)
    }

    /// Returns up to `limit` documents whose chunks are to be made again now, oldest first, without
    /// `busy` ones.
    pub(crate) fn outdated(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.ready(&self.outdated, now, limit, busy)
    }

    /// Returns up to `limit` documents whose tree and graph are to be made now, oldest first,
    /// without `busy` ones.
    pub(crate) fn structure_due(
        &self,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        self.ready(&self.without_structure, now, limit, busy)
    }

    fn ready(
        &self,
        waiting: &RedBlackTreeSetSync<(Version, DocumentId)>,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        let ready = |record: &&Arc<DocumentRecord>| {
            let failure = record.failure(self.wanted);
            failure.is_none_or(|failure| failure.next_try.is_some_and(|time| time <= now))
        };
        waiting
            .iter()
            .filter(|(_, id)| !busy.contains(id))
            .filter_map(|(_, id)| self.records.get(id))
            .filter(ready)
            .filter_map(|record| {
                record.chunks_due().or(record.structure_due()).map(|due| DueDocument {
                    document_id: record.id.clone(),
                    version: due.version,
                    bytes: due.bytes,
                    attempts: record.attempts(self.wanted),
                })
            })
            .take(limit)
            .collect()
    }

    /// Returns the documents that have a tree, by id, each with its record and its key among the
    /// children of a corpus tree node.
    pub(crate) fn structured(&self) -> impl Iterator<Item = (&Arc<DocumentRecord>, CorpusTreeKey)> {
        self.records.values().filter_map(|record| {
            let structure = record.structure()?;
            let (version, recipe) = (structure.version, structure.recipe.0);
            Some((record, CorpusTreeKey::of_document(&record.id, version, recipe)))
        })
    }

    /// Returns the corpus tree that should be above the documents that have a tree.
    pub(crate) fn upper_tree(&self, max_children: u32) -> CorpusTree {
        let documents: Vec<_> =
            self.structured().map(|(record, key)| (record.id.clone(), key)).collect();
        CorpusTree::new(&documents, max_children)
    }

    /// Returns the nodes of the corpus tree that have a row.
    pub(crate) fn upper(&self) -> &RedBlackTreeSetSync<CorpusTreeKey> {
        &self.upper
    }

    /// Adds nodes of the corpus tree whose rows were written.
    pub(crate) fn add_upper(&mut self, keys: impl IntoIterator<Item = CorpusTreeKey>) {
        self.revision += 1;
        for key in keys {
            self.upper.insert_mut(key);
        }
    }

    /// Removes nodes of the corpus tree whose rows were deleted.
    pub(crate) fn remove_upper<'a>(&mut self, keys: impl IntoIterator<Item = &'a CorpusTreeKey>) {
        self.revision += 1;
        for key in keys {
            self.upper.remove_mut(key);
        }
    }

    /// Returns the number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns when the next document that failed becomes due again.
    pub(crate) fn next_try(&self) -> Option<Timestamp> {
        let waiting = self.waiting.iter().chain(self.outdated.iter());
        let waiting = waiting.chain(self.without_structure.iter());
        let records = waiting.filter_map(|(_, id)| self.records.get(id));
        records.filter_map(|record| record.failure(self.wanted)?.next_try).min()
    }

    /// Returns the records of the documents after `after`, by id, including forgotten ones of which
    /// rows are left.
    pub(crate) fn after(
        &self,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = &Arc<DocumentRecord>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.records.range::<DocumentId, _>((from, Bound::Unbounded)).map(|(_, record)| record)
    }

    /// Returns a page of the documents that a caller sees, by id.
    pub(crate) fn list(&self, query: &ListQuery, access: &Access) -> Vec<DocumentStatus> {
        self.after(query.after.as_ref())
            .filter(|record| record.is_seen_by(access))
            .filter_map(|record| record.status(self.wanted))
            .filter(|status| query.state.is_none_or(|state| state == status.state))
            .take(query.limit)
            .collect()
    }
}

/// Returns the non-empty sets of labels that the document's versions carry, once for each version.
fn label_sets(record: &DocumentRecord) -> impl Iterator<Item = &Labels> {
    record.facts.sources.iter().map(|source| &source.labels).filter(|labels| !labels.is_empty())
}

/// Returns the version whose chunks are to be made, unless it is set aside.
fn due_version(record: &DocumentRecord, wanted: Wanted) -> Option<Version> {
    record.due().filter(|_| !is_set_aside(record, wanted)).map(|due| due.version)
}

/// Returns the version whose searchable chunks do not meet the wanted recipes, and whether it is
/// set aside.
fn outdated_version(record: &DocumentRecord, wanted: Wanted) -> Option<(Version, bool)> {
    record.outdated().map(|outdated| (outdated.version, is_set_aside(record, wanted)))
}

/// Returns the version whose tree and graph are to be made, unless they are set aside.
fn structure_due_version(record: &DocumentRecord, wanted: Wanted) -> Option<Version> {
    record.structure_due().filter(|_| !is_set_aside(record, wanted)).map(|due| due.version)
}

fn is_set_aside(record: &DocumentRecord, wanted: Wanted) -> bool {
    record.failure(wanted).is_some_and(|failure| failure.next_try.is_none())
}

#[cfg(test)]
mod tests {
    use clew_core::{ContentHash, DocumentState, ErrorKind, FailureStatus, Recipe, Recipes, Stage};

    use super::*;
    use crate::values::facts::{ChunkFacts, FailureFacts, SourceFacts};

    const WANTED: Wanted =
        Wanted { chunks: Recipes { wanted: Recipe(1), as_good: None }, structure: None };

    fn id(name: &str) -> DocumentId {
        name.parse().unwrap()
    }

    fn accept(catalogue: &mut Catalogue, name: &str, version: u64) {
        catalogue.change(&id(name), |facts| {
            facts.sources.push(SourceFacts {
                version: Version(version),
                content_hash: ContentHash([0; 32]),
                accepted_at: Timestamp::from_micros(0),
                bytes: 10,
                labels: Labels::default(),
            });
        });
    }

    fn fail(catalogue: &mut Catalogue, name: &str, version: u64, next_try: Option<i64>) {
        let status = FailureStatus {
            stage: Stage::Embedding,
            attempts: 1,
            kind: ErrorKind::Internal,
            message: "no".to_owned(),
            next_try: next_try.map(Timestamp::from_micros),
        };
        catalogue.change(&id(name), |facts| {
            facts.failure = Some(FailureFacts {
                version: Version(version),
                recipe: WANTED.chunks.wanted,
                status,
            });
        });
    }

    fn due(catalogue: &Catalogue, now: i64) -> Vec<String> {
        let due = catalogue.due(Timestamp::from_micros(now), 10, &HashSet::new());
        due.into_iter().map(|due| due.document_id.to_string()).collect()
    }

    #[test]
    fn what_is_due_comes_oldest_first_and_failures_wait_their_time() {
        let mut catalogue = Catalogue::new(WANTED);
        accept(&mut catalogue, "b", 1);
        accept(&mut catalogue, "a", 2);
        accept(&mut catalogue, "c", 3);
        assert_eq!(due(&catalogue, 0), ["b", "a", "c"]);
        fail(&mut catalogue, "b", 1, Some(50));
        fail(&mut catalogue, "c", 3, None);
        assert_eq!(due(&catalogue, 49), ["a"]);
        assert_eq!(due(&catalogue, 50), ["b", "a"]);
        assert_eq!(catalogue.next_try(), Some(Timestamp::from_micros(50)));
        let busy = HashSet::from([id("b")]);
        assert_eq!(catalogue.due(Timestamp::from_micros(50), 10, &busy).len(), 1);

        // A new version of the document that was set aside is due.
        accept(&mut catalogue, "c", 4);
        assert_eq!(due(&catalogue, 0), ["a", "c"]);
    }

    #[test]
    fn counts_follow_every_change_and_end_at_zero() {
        let mut catalogue = Catalogue::new(WANTED);
        accept(&mut catalogue, "a", 1);
        accept(&mut catalogue, "b", 1);
        fail(&mut catalogue, "b", 1, None);
        let chunks = ChunkFacts {
            version: Version(1),
            recipe: WANTED.chunks.wanted,
            chunks: 3,
            tokens: 9,
            is_whole: true,
        };
        catalogue.change(&id("a"), |facts| facts.chunks.push(chunks));
        let expected = Counts {
            accepted: 2,
            documents: 1,
            set_aside: 1,
            chunks: 3,
            tokens: 9,
            bytes: 20,
            ..Counts::default()
        };
        assert_eq!(catalogue.counts(&Access::all()), expected);
        for name in ["a", "b"] {
            catalogue.change(&id(name), |facts| *facts = Facts::default());
        }
        assert_eq!(catalogue.counts(&Access::all()), Counts::default());
        assert!(catalogue.counts.is_empty());
        assert!(catalogue.get(&id("a")).is_none() && due(&catalogue, 0).is_empty());
    }

    #[test]
    fn pages_follow_each_other_by_id() {
        let mut catalogue = Catalogue::new(WANTED);
        for name in ["c", "a", "b", "d"] {
            accept(&mut catalogue, name, 1);
        }
        fail(&mut catalogue, "b", 1, None);
        let page = |after: Option<&str>, state| -> Vec<String> {
            let query = ListQuery { after: after.map(id), limit: 2, state };
            catalogue
                .list(&query, &Access::all())
                .into_iter()
                .map(|s| s.document_id.to_string())
                .collect()
        };
        assert_eq!(page(None, None), ["a", "b"]);
        assert_eq!(page(Some("b"), None), ["c", "d"]);
        assert_eq!(page(None, Some(DocumentState::SetAside)), ["b"]);
        assert!(page(Some("d"), None).is_empty());
    }
}
