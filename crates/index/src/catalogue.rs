//! All documents of a shard, in memory: what searches may find and what waits to be derived.
//!
//! The catalogue is a persistent map. A copy costs nothing, so each view of the shard has its own,
//! and a change costs the logarithm of its size. Whatever is listed in some order is kept in that
//! order, so that no list goes through all documents. A million documents take about 0.6 GB, and
//! 0.4 GB more if they have trees.

mod changes;
pub(crate) mod corpus_tree;
mod due_list;
pub(crate) mod groups;
#[cfg(test)]
mod laws;
pub(crate) mod reading;
pub(crate) mod record;

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use clew_core::{
    Access, CorpusTreeKey, Counts, DocumentId, DocumentStatus, Labels, ListQuery, MemoryPart,
    Reembedded, Timestamp, Version,
};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::catalogue::changes::Changes;
use crate::catalogue::corpus_tree::{Leaf, UpperTree};
use crate::catalogue::due_list::DueList;
use crate::catalogue::groups::{Groups, Totals};
use crate::catalogue::record::{DocumentRecord, Wanted};
use crate::values::due::{DueDocument, Lag};
use crate::values::facts::{Facts, NodeFacts};

/// All documents of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    wanted: Wanted,
    records: RedBlackTreeMapSync<DocumentId, Arc<DocumentRecord>>,
    /// Documents whose chunks are to be made.
    waiting: DueList,
    /// Documents with searchable chunks that do not meet the wanted recipes.
    outdated: DueList,
    /// Number of outdated documents that were set aside.
    outdated_set_aside: u64,
    /// Documents whose tree and graph are to be made.
    without_structure: DueList,
    /// Corpus tree above the documents with a tree.
    upper: UpperTree,
    /// Documents with rows that are to be swept.
    unswept: RedBlackTreeSetSync<DocumentId>,
    /// Documents by labels and states, with totals.
    groups: Groups,
    /// Number of accepted versions that carry each set of labels, without the empty set.
    label_sets: RedBlackTreeMapSync<Labels, u64>,
    /// Latest changes of what is shown of trees and graphs.
    changes: Changes,
    /// Number of changes, so that data derived from an earlier state is known to be old.
    revision: u64,
}

impl Catalogue {
    /// Returns a catalogue without documents. `wanted` says what should be derived from documents,
    /// and a node of a corpus tree has up to `max_children`.
    pub(crate) fn new(wanted: Wanted, max_children: u32) -> Self {
        Self {
            wanted,
            records: RedBlackTreeMapSync::new_sync(),
            waiting: DueList::new(),
            outdated: DueList::new(),
            outdated_set_aside: 0,
            without_structure: DueList::new(),
            upper: UpperTree::above(max_children, []),
            unswept: RedBlackTreeSetSync::new_sync(),
            groups: Groups::new(),
            label_sets: RedBlackTreeMapSync::new_sync(),
            changes: Changes::from(0),
            revision: 0,
        }
    }

    /// Returns a catalogue of the documents and the nodes of a corpus tree that have rows. It has a
    /// higher revision than the catalogue `before`, in whose place it comes.
    pub(crate) fn read(
        wanted: Wanted,
        max_children: u32,
        before: Option<&Self>,
        documents: impl IntoIterator<Item = (DocumentId, Facts)>,
        rows: impl IntoIterator<Item = CorpusTreeKey>,
    ) -> Self {
        let mut catalogue = Self::new(wanted, max_children);
        for (id, facts) in documents {
            catalogue.put_in(DocumentRecord::new(id, facts, wanted));
        }
        let leaves = catalogue.structured().filter_map(|it| Some((it.id.clone(), leaf(it)?)));
        catalogue.upper = UpperTree::above(max_children, leaves);
        for key in rows {
            catalogue.upper.add_row(key);
        }
        catalogue.revision = before.map_or(0, |before| before.revision + 1);
        catalogue.changes = Changes::from(catalogue.revision);
        catalogue
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
        let before = self.records.get(id).and_then(|record| leaf(record));
        let after = leaf(&record);
        self.take_out(id);
        if record.facts != Facts::default() {
            self.put_in(record);
        }
        if before != after {
            self.changes.add(self.revision, id);
            self.upper.change(id, before.as_ref(), after);
        }
    }

    fn put_in(&mut self, record: DocumentRecord) {
        let (record, wanted) = (Arc::new(record), self.wanted);
        self.groups.add(&record, wanted);
        for (list, version) in self.lists(&record) {
            list.add(version, &record.id, record.next_try(wanted));
        }
        self.outdated_set_aside += outdated_set_aside(&record, wanted);
        for labels in label_sets(&record) {
            let versions = self.label_sets.get(labels).copied().unwrap_or(0);
            self.label_sets.insert_mut(labels.clone(), versions + 1);
        }
        if record.needs_sweep(wanted) {
            self.unswept.insert_mut(record.id.clone());
        }
        self.records.insert_mut(record.id.clone(), record);
    }

    fn take_out(&mut self, id: &DocumentId) {
        let Some(record) = self.records.get(id).cloned() else { return };
        let wanted = self.wanted;
        self.groups.remove(&record, wanted);
        for (list, version) in self.lists(&record) {
            list.remove(version, id, record.next_try(wanted));
        }
        let set_aside = outdated_set_aside(&record, wanted);
        self.outdated_set_aside = self.outdated_set_aside.saturating_sub(set_aside);
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

    /// Returns the lists that a document is in, each with the version that is due.
    fn lists(&mut self, record: &DocumentRecord) -> impl Iterator<Item = (&mut DueList, Version)> {
        let due = match record.is_set_aside(self.wanted) {
            true => [None; 3],
            false => [record.due(), record.outdated(), record.structure_due()],
        };
        let versions = due.map(|due| due.map(|source| source.version));
        let lists = [&mut self.waiting, &mut self.outdated, &mut self.without_structure];
        lists.into_iter().zip(versions).filter_map(|(list, version)| Some((list, version?)))
    }

    /// Returns the totals of what a caller sees.
    pub(crate) fn counts(&self, access: &Access) -> Counts {
        self.groups.counts(access)
    }

    /// Returns the totals, by the labels that documents require.
    pub(crate) fn totals(&self) -> Totals {
        self.groups.totals()
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
            outdated: self.outdated.len() + self.outdated_set_aside,
            set_aside: self.outdated_set_aside,
        }
    }

    /// Returns the same documents in a catalogue that wants something else of them.
    pub(crate) fn wanting(&self, wanted: Wanted, max_children: u32) -> Self {
        if (wanted, max_children.max(2)) == (self.wanted, self.upper.max_children()) {
            return self.clone();
        }
        let documents = self.records.values();
        let documents = documents.map(|record| (record.id.clone(), record.facts.clone()));
        let rows = self.upper.rows().iter().copied();
        Self::read(wanted, max_children, Some(self), documents, rows)
    }

    /// Returns how much is still to be derived.
    pub(crate) fn lag(&self) -> Lag {
        // The lowest version was accepted at most a little later than the oldest, and finding it
        // takes one look-up.
        let oldest = self.waiting.oldest().and_then(|id| self.records.get(id)?.newest());
        Lag {
            oldest_accepted: oldest.map(|source| source.accepted_at),
            waiting: self.waiting.len(),
            outdated: self.outdated.len(),
            without_structure: self.without_structure.len(),
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
        list: &DueList,
        now: Timestamp,
        limit: usize,
        busy: &HashSet<DocumentId>,
    ) -> Vec<DueDocument> {
        let ready = list.ready(now, limit, busy).into_iter();
        ready
            .filter_map(|id| self.records.get(id))
            .filter_map(|record| {
                record.chunks_due().or(record.structure_due()).map(|due| DueDocument {
                    document_id: record.id.clone(),
                    version: due.version,
                    bytes: due.bytes,
                    attempts: record.attempts(self.wanted),
                })
            })
            .collect()
    }

    /// Returns the documents that have a tree, by id.
    pub(crate) fn structured(&self) -> impl Iterator<Item = &Arc<DocumentRecord>> {
        self.records.values().filter(|record| record.structure().is_some())
    }

    /// Returns the documents of which something else is shown of the tree and graph than at a
    /// revision; `None` if that is not known any more.
    pub(crate) fn structure_changes(
        &self,
        revision: u64,
    ) -> Option<impl Iterator<Item = &DocumentId>> {
        self.changes.after(revision)
    }

    /// Returns the corpus tree above the documents that have a tree.
    pub(crate) fn upper(&self) -> &UpperTree {
        &self.upper
    }

    /// Adds nodes of the corpus tree whose rows were written.
    pub(crate) fn add_upper(&mut self, keys: impl IntoIterator<Item = CorpusTreeKey>) {
        self.revision += 1;
        for key in keys {
            self.upper.add_row(key);
        }
    }

    /// Removes nodes of the corpus tree whose rows were deleted.
    pub(crate) fn remove_upper<'a>(&mut self, keys: impl IntoIterator<Item = &'a CorpusTreeKey>) {
        self.revision += 1;
        for key in keys {
            self.upper.remove_row(key);
        }
    }

    /// Returns the number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns when the next document that failed becomes due again.
    pub(crate) fn next_try(&self) -> Option<Timestamp> {
        let lists = [&self.waiting, &self.outdated, &self.without_structure];
        lists.into_iter().filter_map(DueList::next_try).min()
    }

    /// Returns the records of the documents after `after`, by id, including forgotten ones of which
    /// rows are left.
    pub(crate) fn after(
        &self,
        after: Option<&DocumentId>,
    ) -> impl Iterator<Item = &Arc<DocumentRecord>> {
        self.records_from(after.map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Returns records from a bound on, by id.
    pub(crate) fn records_from(
        &self,
        from: Bound<&DocumentId>,
    ) -> impl Iterator<Item = &Arc<DocumentRecord>> {
        self.records.range::<DocumentId, _>((from, Bound::Unbounded)).map(|(_, record)| record)
    }

    /// Returns a page of the documents that a caller sees, by id.
    pub(crate) fn list(&self, query: &ListQuery, access: &Access) -> Vec<DocumentStatus> {
        self.groups.list(self.wanted, query, access)
    }
}

/// Returns the non-empty sets of labels that the document's versions carry, once for each version.
fn label_sets(record: &DocumentRecord) -> impl Iterator<Item = &Labels> {
    record.facts.sources.iter().map(|source| &source.labels).filter(|labels| !labels.is_empty())
}

/// Returns what the corpus tree knows of a document that has a tree.
fn leaf(record: &DocumentRecord) -> Option<Leaf> {
    let NodeFacts { version, recipe, .. } = record.structure()?;
    let mut sources = record.facts.sources.iter();
    let source = sources.find(|source| source.version == *version);
    Some(Leaf {
        key: CorpusTreeKey::of_document(&record.id, *version, recipe.0),
        bytes: source.map_or(0, |source| source.bytes),
        labels: record.needs().clone(),
    })
}

/// Returns 1 for a document whose chunks do not meet the wanted recipes and that was set aside.
fn outdated_set_aside(record: &DocumentRecord, wanted: Wanted) -> u64 {
    u64::from(record.outdated().is_some() && record.is_set_aside(wanted))
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
                source_version: None,
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
        let mut catalogue = Catalogue::new(WANTED, 4);
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
        let mut catalogue = Catalogue::new(WANTED, 4);
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
        assert!(catalogue.groups.is_empty());
        assert!(catalogue.get(&id("a")).is_none() && due(&catalogue, 0).is_empty());
    }

    #[test]
    fn pages_follow_each_other_by_id() {
        let mut catalogue = Catalogue::new(WANTED, 4);
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
