//! State of one document, derived from its rows in the tables.
//!
//! Everything here is a pure function of table rows, so a restart does not change the state.

use std::sync::Arc;

use clew_core::{
    Access, DocumentId, DocumentState, DocumentStatus, FailureStatus, Labels, Recipe, Recipes,
    Timestamp, Version,
};

use crate::values::facts::{ChunkFacts, Facts, Growing, NodeFacts, SourceFacts};

/// Recipes of what should be derived from documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Recipes that chunks should be made by.
    pub chunks: Recipes,
    /// Recipe that trees and graphs should be made by. `None` if there should be none.
    pub structure: Option<Recipe>,
}

/// Document of the shard, with the state that follows from its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub id: DocumentId,
    pub facts: Facts,
    /// Index of the live entry of `facts.chunks`.
    live: Option<usize>,
    /// Index of the entry of `facts.chunks` that is being written in parts and still wanted.
    growing: Option<usize>,
    /// Whether the newest version has no searchable chunks.
    is_due: bool,
    /// Whether the chunks of the newest version do not meet the wanted recipes.
    is_outdated: bool,
    /// Index of the visible entry of `facts.nodes`: complete, and of the live version.
    structure: Option<usize>,
    /// Whether the live version lacks a complete tree by the wanted recipe. False while its chunks
    /// are to be made.
    is_structure_due: bool,
    /// Labels of the newest version and of the live one: a caller that lacks one of them sees
    /// neither. So added labels hide the document at once, and removed ones show it once the
    /// version that carries them is gone.
    needs: Labels,
}

impl DocumentRecord {
    /// Derives what is live and what is due. `wanted` says what should be derived.
    pub(crate) fn new(id: DocumentId, mut facts: Facts, wanted: Wanted) -> Self {
        facts.sources.sort_by_key(|source| source.version);
        let has_source =
            |version| facts.sources.iter().any(|source: &SourceFacts| source.version == version);
        let live = (0..facts.chunks.len())
            .filter(|&i| facts.chunks[i].is_whole && has_source(facts.chunks[i].version))
            .max_by_key(|&i| {
                let ChunkFacts { version, recipe, .. } = facts.chunks[i];
                (version, wanted.chunks.are_met_by(recipe), recipe == wanted.chunks.wanted)
            });
        let is_due = facts
            .sources
            .last()
            .is_some_and(|newest| live.is_none_or(|i| facts.chunks[i].version != newest.version));
        let is_outdated =
            !is_due && live.is_some_and(|i| !wanted.chunks.are_met_by(facts.chunks[i].recipe));
        let due = facts.sources.last().filter(|_| is_due || is_outdated);
        let growing = facts.growing.filter(|of| {
            of.recipe == wanted.chunks.wanted && due.is_some_and(|due| due.version == of.version)
        });
        let growing = growing.and_then(|of| {
            let is_of = |it: &ChunkFacts| (it.version, it.recipe) == (of.version, of.recipe);
            facts.chunks.iter().position(is_of)
        });
        let live_version = live.map(|i| facts.chunks[i].version);
        let structure = (0..facts.nodes.len())
            .filter(|&i| {
                let nodes = facts.nodes[i];
                nodes.is_whole() && Some(nodes.version) == live_version
            })
            .filter(|_| wanted.structure.is_some())
            .max_by_key(|&i| Some(facts.nodes[i].recipe) == wanted.structure);
        let has_wanted = structure.is_some_and(|i| Some(facts.nodes[i].recipe) == wanted.structure);
        // In this order: searchable chunks come first.
        let is_structure_due =
            wanted.structure.is_some() && live.is_some() && !is_due && !is_outdated && !has_wanted;
        let of_live = facts.sources.iter().find(|source| Some(source.version) == live_version);
        let of_newest = facts.sources.last().map_or_else(Labels::default, |it| it.labels.clone());
        let needs = of_live.map_or_else(|| of_newest.clone(), |it| of_newest.union(&it.labels));
        Self { id, facts, live, growing, is_due, is_outdated, structure, is_structure_due, needs }
    }

    /// Returns the row of the newest accepted version. Returns `None` for a forgotten document of
    /// which rows of other tables are left.
    pub(crate) fn newest(&self) -> Option<&SourceFacts> {
        self.facts.sources.last()
    }

    /// Returns the labels that a caller must hold to see anything of the document.
    pub(crate) fn needs(&self) -> &Labels {
        &self.needs
    }

    /// Returns whether a caller may know of the document. The rows that are left of a forgotten
    /// document have no labels any more, so only a caller with full access sees it.
    pub(crate) fn is_seen_by(&self, access: &Access) -> bool {
        access.is_all() || (self.newest().is_some() && access.admits(&self.needs))
    }

    /// Returns the chunks that searches find.
    pub(crate) fn live(&self) -> Option<&ChunkFacts> {
        self.live.map(|i| &self.facts.chunks[i])
    }

    /// Returns whether searches find a row of `chunks` with these values.
    pub(crate) fn is_live(&self, version: Version, recipe: Recipe) -> bool {
        self.live().is_some_and(|live| live.version == version && live.recipe == recipe)
    }

    /// Returns the version whose chunks are to be made, if any.
    pub(crate) fn due(&self) -> Option<&SourceFacts> {
        if self.is_due { self.newest() } else { None }
    }

    /// Returns the version whose searchable chunks do not meet the wanted recipes and are to be
    /// made again.
    pub(crate) fn outdated(&self) -> Option<&SourceFacts> {
        self.facts.sources.last().filter(|_| self.is_outdated)
    }

    /// Returns the version whose chunks are to be made, for the first time or again.
    pub(crate) fn chunks_due(&self) -> Option<&SourceFacts> {
        self.due().or(self.outdated())
    }

    /// Returns whether no tree of the document is still to be made.
    fn has_shown_all(&self) -> bool {
        !(self.is_structure_due || self.is_due || self.is_outdated)
    }

    /// Returns the visible nodes: those of the complete tree of the live version.
    pub(crate) fn structure(&self) -> Option<&NodeFacts> {
        self.structure.map(|i| &self.facts.nodes[i])
    }

    /// Returns the live version if its tree and graph are to be made.
    pub(crate) fn structure_due(&self) -> Option<&SourceFacts> {
        let live = self.live().filter(|_| self.is_structure_due)?.version;
        self.facts.sources.iter().find(|source| source.version == live)
    }

    /// Returns how many nodes exist of the tree that is to be made.
    pub(crate) fn nodes_made(&self, version: Version, wanted: Wanted) -> u64 {
        let made = self.facts.nodes.iter();
        made.filter(|nodes| nodes.version == version && Some(nodes.recipe) == wanted.structure)
            .map(|nodes| nodes.rows)
            .sum()
    }

    /// Returns the failure of the work that is due.
    pub(crate) fn failure(&self, wanted: Wanted) -> Option<&FailureStatus> {
        let failure = self.facts.failure.as_ref()?;
        let of_chunks = self.chunks_due().map(|due| (due.version, Some(wanted.chunks.wanted)));
        let of_structure = self.structure_due().map(|due| (due.version, wanted.structure));
        let held_up = of_chunks.or(of_structure)?;
        (held_up == (failure.version, Some(failure.recipe))).then_some(&failure.status)
    }

    /// Returns when the work that is due is tried again, if it failed.
    pub(crate) fn next_try(&self, wanted: Wanted) -> Option<Timestamp> {
        self.failure(wanted)?.next_try
    }

    /// Returns whether the work that is due failed and is not tried again.
    pub(crate) fn is_set_aside(&self, wanted: Wanted) -> bool {
        self.failure(wanted).is_some_and(|failure| failure.next_try.is_none())
    }

    /// Returns whether the tree and graph are to be made and are not set aside.
    pub(crate) fn is_without_structure(&self, wanted: Wanted) -> bool {
        self.structure_due().is_some() && !self.is_set_aside(wanted)
    }

    /// Returns the versions that are neither live nor the newest. Their rows of `sources` are to be
    /// swept.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = Version> {
        let live = self.live().map(|live| live.version);
        let newest = self.newest().map(|newest| newest.version);
        self.facts
            .sources
            .iter()
            .map(|source| source.version)
            .filter(move |&version| Some(version) != live && Some(version) != newest)
    }

    /// Returns the chunks that no search may find, now or once all of them are written. Their rows
    /// are to be swept.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = &ChunkFacts> {
        let kept = [self.live, self.growing];
        let chunks = self.facts.chunks.iter().enumerate();
        chunks.filter(move |&(i, _)| !kept.contains(&Some(i))).map(|(_, facts)| facts)
    }

    /// Returns how far the chunks that are due are written, if they are written in parts.
    pub(crate) fn growing(&self) -> Option<Growing> {
        self.facts.growing.filter(|_| self.growing.is_some())
    }

    /// Returns the nodes that are neither visible nor of use for a tree that is to be made. Their
    /// rows are to be swept.
    pub(crate) fn orphan_nodes(&self, wanted: Wanted) -> impl Iterator<Item = &NodeFacts> {
        let is_set_aside = self.is_set_aside(wanted);
        // Nodes that an earlier version has in common with this one are not made again.
        let is_making = !is_set_aside && !self.has_shown_all() && self.live.is_some();
        let structure = self.structure;
        let nodes = self.facts.nodes.iter().enumerate();
        nodes
            .filter(move |&(i, nodes)| {
                let is_of_use = is_making && Some(nodes.recipe) == wanted.structure;
                Some(i) != structure && (!is_of_use || nodes.rows > nodes.nodes)
            })
            .map(|(_, nodes)| nodes)
    }

    /// Returns whether the failure's row is obsolete: the work that it is about is done or gone.
    pub(crate) fn failure_is_outdated(&self, wanted: Wanted) -> bool {
        self.facts.failure.is_some() && self.failure(wanted).is_none()
    }

    /// Returns whether any row of this document is to be swept.
    pub(crate) fn needs_sweep(&self, wanted: Wanted) -> bool {
        self.superseded().next().is_some()
            || self.orphans().next().is_some()
            || self.orphan_nodes(wanted).next().is_some()
            || self.failure_is_outdated(wanted)
    }

    /// Returns the status that callers see, or `None` if the document was forgotten.
    pub(crate) fn status(&self, wanted: Wanted) -> Option<DocumentStatus> {
        let newest = self.newest()?;
        let failure = self.failure(wanted).cloned();
        let state = match &failure {
            _ if self.due().is_none() => DocumentState::Indexed,
            None => DocumentState::Pending,
            Some(failure) if failure.next_try.is_some() => DocumentState::Retrying,
            Some(_) => DocumentState::SetAside,
        };
        let live = self.live();
        Some(DocumentStatus {
            document_id: self.id.clone(),
            state,
            version: newest.version,
            live_version: live.map(|live| live.version),
            accepted_at: newest.accepted_at,
            bytes: newest.bytes,
            chunks: live.map_or(0, |live| live.chunks),
            tokens: live.map_or(0, |live| live.tokens),
            nodes: self.structure().map_or(0, |structure| structure.nodes),
            failure,
            labels: self.needs.clone(),
            source_version: newest.source_version,
        })
    }

    /// Returns how many attempts of the work that is due have failed.
    pub(crate) fn attempts(&self, wanted: Wanted) -> u32 {
        self.failure(wanted).map_or(0, |failure| failure.attempts)
    }

    /// Returns this record with changed facts.
    pub(crate) fn with(self: &Arc<Self>, wanted: Wanted, change: impl FnOnce(&mut Facts)) -> Self {
        let mut facts = self.facts.clone();
        change(&mut facts);
        Self::new(self.id.clone(), facts, wanted)
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{ContentHash, ErrorKind, Stage};

    use super::*;
    use crate::values::facts::FailureFacts;

    const NEW: Recipe = Recipe(7);
    const OLD: Recipe = Recipe(6);
    const SAME: Recipe = Recipe(5);
    const STRUCTURE: Recipe = Recipe(9);
    const WANTED: Wanted =
        Wanted { chunks: Recipes { wanted: NEW, as_good: Some(SAME) }, structure: Some(STRUCTURE) };

    fn source(version: u64) -> SourceFacts {
        SourceFacts {
            version: Version(version),
            content_hash: ContentHash([0; 32]),
            accepted_at: Timestamp::from_micros(0),
            bytes: 1,
            labels: Labels::default(),
            source_version: None,
        }
    }

    fn chunks(version: u64, recipe: Recipe) -> ChunkFacts {
        ChunkFacts { version: Version(version), recipe, chunks: 1, tokens: 1, is_whole: true }
    }

    fn record(sources: &[u64], chunks: &[ChunkFacts]) -> DocumentRecord {
        let facts = Facts {
            sources: sources.iter().map(|&version| source(version)).collect(),
            chunks: chunks.to_vec(),
            growing: None,
            nodes: Vec::new(),
            failure: None,
        };
        DocumentRecord::new("a".parse().unwrap(), facts, WANTED)
    }

    #[test]
    fn the_live_version_is_the_highest_with_chunks_and_a_source() {
        // (versions in sources, chunks, live version, due version)
        let cases = [
            (vec![1], vec![], None, Some(1)),
            (vec![1], vec![chunks(1, NEW)], Some(1), None),
            (vec![1], vec![chunks(1, OLD)], Some(1), None),
            (vec![1, 2], vec![chunks(1, OLD)], Some(1), Some(2)),
            (vec![1, 2], vec![chunks(1, NEW)], Some(1), Some(2)),
            (vec![1, 2], vec![chunks(1, NEW), chunks(2, NEW)], Some(2), None),
            (vec![1, 2], vec![chunks(2, OLD), chunks(2, NEW)], Some(2), None),
            // A late writer: its version is gone from sources.
            (vec![2], vec![chunks(1, NEW)], None, Some(2)),
            (vec![1], vec![chunks(1, NEW), chunks(2, NEW)], Some(1), None),
            (vec![], vec![chunks(1, NEW)], None, None),
        ];
        for (sources, chunks, live, due) in cases {
            let record = record(&sources, &chunks);
            assert_eq!(record.live().map(|l| l.version.0), live, "{sources:?} {chunks:?}");
            assert_eq!(record.due().map(|d| d.version.0), due, "{sources:?} {chunks:?}");
        }
    }

    #[test]
    fn chunks_that_lack_something_are_found_until_others_take_their_place() {
        // (chunks, recipe of the live ones, is outdated, recipes of those to be swept)
        let cases = [
            (vec![OLD], OLD, true, vec![]),
            (vec![SAME], SAME, false, vec![]),
            (vec![OLD, SAME], SAME, false, vec![OLD]),
            (vec![NEW, OLD, SAME], NEW, false, vec![OLD, SAME]),
        ];
        for (recipes, live, is_outdated, swept) in cases {
            let made: Vec<ChunkFacts> = recipes.iter().map(|&recipe| chunks(1, recipe)).collect();
            let record = record(&[1], &made);
            assert_eq!(record.live().map(|it| it.recipe), Some(live), "{recipes:?}");
            assert_eq!(record.outdated().is_some(), is_outdated, "{recipes:?}");
            assert_eq!(record.orphans().map(|it| it.recipe).collect::<Vec<_>>(), swept);
            assert_eq!(record.status(WANTED).unwrap().state, DocumentState::Indexed);
            // The tree waits until the chunks meet the wanted recipes.
            assert_eq!(record.structure_due().is_some(), !is_outdated);
        }
    }

    #[test]
    fn what_is_neither_live_nor_newest_is_swept() {
        let record = record(&[1, 2, 3, 4], &[chunks(1, NEW), chunks(2, NEW)]);
        assert_eq!(record.superseded().collect::<Vec<_>>(), [Version(1), Version(3)]);
        assert_eq!(record.orphans().map(|o| o.version).collect::<Vec<_>>(), [Version(1)]);
        assert!(record.needs_sweep(WANTED));
    }

    #[test]
    fn chunks_written_twice_do_not_count() {
        let twice = ChunkFacts { is_whole: false, ..chunks(1, NEW) };
        let record = record(&[1], &[twice]);
        assert_eq!((record.live(), record.orphans().count()), (None, 1));
        assert_eq!(record.due().map(|due| due.version), Some(Version(1)));
    }

    #[test]
    fn a_failure_counts_only_for_the_version_and_recipe_it_is_of() {
        let mut facts = record(&[2], &[]).facts;
        let status = FailureStatus {
            stage: Stage::Embedding,
            attempts: 3,
            kind: ErrorKind::Unavailable,
            message: String::new(),
            next_try: None,
        };
        for (version, recipe, counts) in [(2, NEW, true), (1, NEW, false), (2, OLD, false)] {
            facts.failure =
                Some(FailureFacts { version: Version(version), recipe, status: status.clone() });
            let record = DocumentRecord::new("a".parse().unwrap(), facts.clone(), WANTED);
            assert_eq!(record.attempts(WANTED), if counts { 3 } else { 0 });
            assert_eq!(record.failure_is_outdated(WANTED), !counts);
        }
    }

    fn nodes(version: u64, recipe: Recipe, rows: u64) -> NodeFacts {
        NodeFacts { version: Version(version), recipe, rows, nodes: 3 }
    }

    fn with_nodes(sources: &[u64], chunks: &[ChunkFacts], nodes: &[NodeFacts]) -> DocumentRecord {
        let mut facts = record(sources, chunks).facts;
        facts.nodes = nodes.to_vec();
        DocumentRecord::new("a".parse().unwrap(), facts, WANTED)
    }

    #[test]
    fn a_tree_is_due_once_its_version_is_live_and_shown_once_it_is_whole() {
        let live = [chunks(2, NEW)];
        // (nodes, is shown, is due, versions of nodes to be swept)
        let cases = [
            (vec![], false, true, vec![]),
            (vec![nodes(2, STRUCTURE, 2)], false, true, vec![]),
            (vec![nodes(2, STRUCTURE, 3)], true, false, vec![]),
            // An earlier version's nodes may be used again until the tree is whole.
            (vec![nodes(1, STRUCTURE, 3)], false, true, vec![]),
            (vec![nodes(1, STRUCTURE, 3), nodes(2, STRUCTURE, 3)], true, false, vec![1]),
            // Another recipe's tree is shown until the wanted one is whole.
            (vec![nodes(2, OLD, 3)], true, true, vec![]),
            (vec![nodes(2, OLD, 3), nodes(2, STRUCTURE, 3)], true, false, vec![2]),
            // Two writers: made again.
            (vec![nodes(2, STRUCTURE, 4)], false, true, vec![2]),
        ];
        for (made, is_shown, is_due, swept) in cases {
            let record = with_nodes(&[2], &live, &made);
            assert_eq!(record.structure().is_some(), is_shown, "{made:?}");
            assert_eq!(record.structure_due().is_some(), is_due, "{made:?}");
            let orphans: Vec<u64> = record.orphan_nodes(WANTED).map(|n| n.version.0).collect();
            assert_eq!(orphans, swept, "{made:?}");
        }
        let waits = with_nodes(&[1, 2], &[chunks(1, NEW)], &[nodes(1, STRUCTURE, 3)]);
        assert!(waits.structure().is_some() && waits.structure_due().is_none());
        let forgotten = with_nodes(&[], &[], &[nodes(1, STRUCTURE, 3)]);
        assert!(forgotten.structure().is_none());
        assert_eq!(forgotten.orphan_nodes(WANTED).count(), 1);
    }

    #[test]
    fn a_tree_that_cannot_be_made_holds_up_nothing_else() {
        let mut facts = with_nodes(&[1], &[chunks(1, NEW)], &[nodes(1, STRUCTURE, 1)]).facts;
        let status = FailureStatus {
            stage: Stage::Structuring,
            attempts: 8,
            kind: ErrorKind::Internal,
            message: String::new(),
            next_try: None,
        };
        facts.failure = Some(FailureFacts { version: Version(1), recipe: STRUCTURE, status });
        let record = DocumentRecord::new("a".parse().unwrap(), facts, WANTED);
        let told = record.status(WANTED).unwrap();
        assert_eq!((told.state, told.nodes), (DocumentState::Indexed, 0));
        assert!(told.failure.is_some() && !record.failure_is_outdated(WANTED));
        // Set aside: the rows of the incomplete tree are swept.
        assert_eq!(record.orphan_nodes(WANTED).count(), 1);
    }
}
