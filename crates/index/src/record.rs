//! What the tables say about one document, and what follows from it.
//!
//! Everything here is a pure function of table rows, so that the state after a restart is the state
//! before it.

use std::sync::Arc;

use clew_core::{
    ContentHash, DocumentId, DocumentState, DocumentStatus, ErrorKind, FailureStatus, Recipe,
    Timestamp, Version,
};

/// A row of `sources`, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    pub version: Version,
    pub content_hash: ContentHash,
    pub accepted_at: Timestamp,
    /// Bytes of the text.
    pub bytes: u64,
}

/// The rows of `chunks` made of one document version by one recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkFacts {
    pub version: Version,
    pub recipe: Recipe,
    pub chunks: u64,
    pub tokens: u64,
    /// Whether each ordinal from 0 is there once. A commit writes all chunks of a document, so this
    /// fails only if two writers wrote the same document; then the rows are swept and made again.
    pub is_whole: bool,
}

/// A row of `failures`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureFacts {
    pub version: Version,
    pub recipe: Recipe,
    pub status: FailureStatus,
}

/// What the tables say about one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub sources: Vec<SourceFacts>,
    pub chunks: Vec<ChunkFacts>,
    pub failure: Option<FailureFacts>,
}

/// A document of the shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub id: DocumentId,
    pub facts: Facts,
    /// Index of the live entry of `facts.chunks`.
    live: Option<usize>,
    /// Whether chunks of the newest version by the wanted recipe are missing.
    is_due: bool,
}

impl DocumentRecord {
    /// Settles what is live and what is due, where `wanted` is the recipe chunks should be made by.
    pub(crate) fn new(id: DocumentId, mut facts: Facts, wanted: Recipe) -> Self {
        facts.sources.sort_by_key(|source| source.version);
        let has_source =
            |version| facts.sources.iter().any(|source: &SourceFacts| source.version == version);
        let live = (0..facts.chunks.len())
            .filter(|&i| facts.chunks[i].is_whole && has_source(facts.chunks[i].version))
            .max_by_key(|&i| (facts.chunks[i].version, facts.chunks[i].recipe == wanted));
        let is_due = facts.sources.last().is_some_and(|newest| {
            live.is_none_or(|i| {
                facts.chunks[i].version != newest.version || facts.chunks[i].recipe != wanted
            })
        });
        Self { id, facts, live, is_due }
    }

    /// The row of the newest accepted version; `None` for a forgotten document of which chunks or
    /// failures are left.
    pub(crate) fn newest(&self) -> Option<&SourceFacts> {
        self.facts.sources.last()
    }

    /// The chunks that searches find.
    pub(crate) fn live(&self) -> Option<&ChunkFacts> {
        self.live.map(|i| &self.facts.chunks[i])
    }

    /// Whether a row of `chunks` with these values is one that searches find.
    pub(crate) fn is_live(&self, version: Version, recipe: Recipe) -> bool {
        self.live().is_some_and(|live| live.version == version && live.recipe == recipe)
    }

    /// The version whose chunks are to be made, if any are.
    pub(crate) fn due(&self) -> Option<&SourceFacts> {
        if self.is_due { self.newest() } else { None }
    }

    /// The failure that holds up what is due.
    pub(crate) fn failure(&self, wanted: Recipe) -> Option<&FailureStatus> {
        let due = self.due()?.version;
        let failure = self.facts.failure.as_ref()?;
        (failure.version == due && failure.recipe == wanted).then_some(&failure.status)
    }

    /// Versions that are neither live nor the newest: their rows of `sources` are to be swept.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = Version> {
        let live = self.live().map(|live| live.version);
        let newest = self.newest().map(|newest| newest.version);
        self.facts
            .sources
            .iter()
            .map(|source| source.version)
            .filter(move |&version| Some(version) != live && Some(version) != newest)
    }

    /// Chunks no search may find: their rows are to be swept.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = &ChunkFacts> {
        let live = self.live;
        let chunks = self.facts.chunks.iter().enumerate();
        chunks.filter(move |&(i, _)| Some(i) != live).map(|(_, facts)| facts)
    }

    /// Whether the failure's row no longer says anything: what it is about is done or gone.
    pub(crate) fn failure_is_outdated(&self, wanted: Recipe) -> bool {
        self.facts.failure.is_some() && self.failure(wanted).is_none()
    }

    /// Whether any row of this document is to be swept.
    pub(crate) fn needs_sweep(&self, wanted: Recipe) -> bool {
        self.superseded().next().is_some()
            || self.orphans().next().is_some()
            || self.failure_is_outdated(wanted)
    }

    /// What is told of the document; `None` if it was forgotten.
    pub(crate) fn status(&self, wanted: Recipe) -> Option<DocumentStatus> {
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
            failure,
        })
    }

    /// Number of tries for what is due that failed.
    pub(crate) fn attempts(&self, wanted: Recipe) -> u32 {
        self.failure(wanted).map_or(0, |failure| failure.attempts)
    }

    /// This record with other facts.
    pub(crate) fn with(self: &Arc<Self>, wanted: Recipe, change: impl FnOnce(&mut Facts)) -> Self {
        let mut facts = self.facts.clone();
        change(&mut facts);
        Self::new(self.id.clone(), facts, wanted)
    }
}

/// The name a kind of failure is stored by.
pub(crate) fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid_input",
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::WrongState => "wrong_state",
        ErrorKind::LostRace => "lost_race",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::DeadlineExceeded => "deadline_exceeded",
        ErrorKind::DataLoss => "data_loss",
        ErrorKind::Internal => "internal",
    }
}

/// The kind stored by that name.
pub(crate) fn kind_of_name(name: &str) -> Option<ErrorKind> {
    use ErrorKind::*;
    [
        InvalidInput,
        NotFound,
        AlreadyExists,
        WrongState,
        LostRace,
        Exhausted,
        Unavailable,
        DeadlineExceeded,
        DataLoss,
        Internal,
    ]
    .into_iter()
    .find(|&kind| kind_name(kind) == name)
}

#[cfg(test)]
mod tests {
    use clew_core::Stage;

    use super::*;

    const WANTED: Recipe = Recipe(7);
    const OLD: Recipe = Recipe(6);

    fn source(version: u64) -> SourceFacts {
        SourceFacts {
            version: Version(version),
            content_hash: ContentHash([0; 32]),
            accepted_at: Timestamp::from_micros(0),
            bytes: 1,
        }
    }

    fn chunks(version: u64, recipe: Recipe) -> ChunkFacts {
        ChunkFacts { version: Version(version), recipe, chunks: 1, tokens: 1, is_whole: true }
    }

    fn record(sources: &[u64], chunks: &[ChunkFacts]) -> DocumentRecord {
        let facts = Facts {
            sources: sources.iter().map(|&version| source(version)).collect(),
            chunks: chunks.to_vec(),
            failure: None,
        };
        DocumentRecord::new("a".parse().unwrap(), facts, WANTED)
    }

    #[test]
    fn the_live_version_is_the_highest_with_chunks_and_a_source() {
        // (versions in sources, chunks, live version, due version)
        let cases = [
            (vec![1], vec![], None, Some(1)),
            (vec![1], vec![chunks(1, WANTED)], Some(1), None),
            (vec![1], vec![chunks(1, OLD)], Some(1), Some(1)),
            (vec![1, 2], vec![chunks(1, WANTED)], Some(1), Some(2)),
            (vec![1, 2], vec![chunks(1, WANTED), chunks(2, WANTED)], Some(2), None),
            (vec![1, 2], vec![chunks(2, OLD), chunks(2, WANTED)], Some(2), None),
            // A late writer: its version is gone from sources.
            (vec![2], vec![chunks(1, WANTED)], None, Some(2)),
            (vec![1], vec![chunks(1, WANTED), chunks(2, WANTED)], Some(1), None),
            (vec![], vec![chunks(1, WANTED)], None, None),
        ];
        for (sources, chunks, live, due) in cases {
            let record = record(&sources, &chunks);
            assert_eq!(record.live().map(|l| l.version.0), live, "{sources:?} {chunks:?}");
            assert_eq!(record.due().map(|d| d.version.0), due, "{sources:?} {chunks:?}");
        }
    }

    #[test]
    fn what_is_neither_live_nor_newest_is_swept() {
        let record = record(&[1, 2, 3, 4], &[chunks(1, WANTED), chunks(2, WANTED)]);
        assert_eq!(record.superseded().collect::<Vec<_>>(), [Version(1), Version(3)]);
        assert_eq!(record.orphans().map(|o| o.version).collect::<Vec<_>>(), [Version(1)]);
        assert!(record.needs_sweep(WANTED));
    }

    #[test]
    fn chunks_written_twice_do_not_count() {
        let twice = ChunkFacts { is_whole: false, ..chunks(1, WANTED) };
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
        for (version, recipe, counts) in [(2, WANTED, true), (1, WANTED, false), (2, OLD, false)] {
            facts.failure =
                Some(FailureFacts { version: Version(version), recipe, status: status.clone() });
            let record = DocumentRecord::new("a".parse().unwrap(), facts.clone(), WANTED);
            assert_eq!(record.attempts(WANTED), if counts { 3 } else { 0 });
            assert_eq!(record.failure_is_outdated(WANTED), !counts);
        }
    }

    #[test]
    fn every_kind_of_failure_has_a_name_that_leads_back() {
        for name in ["exhausted", "internal", "data_loss"] {
            assert_eq!(kind_of_name(name).map(kind_name), Some(name));
        }
        assert_eq!(kind_of_name("other"), None);
    }
}
