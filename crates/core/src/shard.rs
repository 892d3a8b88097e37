//! Requests and results of the trait [`crate::Shard`].

use std::num::NonZeroU32;

use crate::{
    Attributes, ChunkId, Document, DocumentId, Error, ErrorKind, Filter, Grouping, Labels,
    SearchMode, SourceVersion, Span, Timestamp, Version,
};

/// Search of one shard.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateQuery {
    /// Text to search for.
    pub text: String,
    /// Embedding of the text, `[dimension]`; needed if the mode uses embeddings.
    pub vector: Option<Vec<f32>>,
    /// Fingerprint of the model that made the embedding ([`crate::EncoderIdentity::fingerprint`]).
    /// Empty means the model that the corpus is searched with.
    pub encoder: String,
    /// Search mode, which says which rankings are wanted.
    pub mode: SearchMode,
    /// Filter on what may be found.
    pub filter: Filter,
    /// Unit that is ranked: chunks or documents.
    pub grouping: Grouping,
    /// Maximum number of candidates of each ranking.
    pub limit: usize,
    /// Whether to compare every vector instead of asking the vector index.
    pub exact: bool,
    /// Whether to return what is shown of each chunk.
    pub with_texts: bool,
    /// State of the shard that is ranked.
    pub view: SearchedView,
}

/// Name of a state of a shard that is kept for a while after a search has ranked it. It is a random
/// number: it tells nothing about the shard, and means nothing to another owner of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName(NonZeroU32);

impl ViewName {
    /// Returns the name with this number, or `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// Returns the number of a name, or 0 for none.
    pub fn number(name: Option<Self>) -> u32 {
        name.map_or(0, |Self(number)| number.get())
    }
}

/// State of a shard that a search ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchedView {
    /// The newest.
    #[default]
    Newest,
    /// The newest, which is kept for further pages of results.
    Kept,
    /// The kept one of this name. If the shard does not have it any more, the newest, which is kept
    /// then.
    Named(ViewName),
}

impl SearchedView {
    /// Returns the view for a page of results after a page for which the shard named `name`.
    pub fn after(name: Option<ViewName>) -> Self {
        name.map_or(Self::Kept, Self::Named)
    }
}

/// Rankings of one shard, best first. A ranking that was not requested is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// Ranking by cosine similarity.
    pub dense: Vec<Hit>,
    /// Ranking by BM25 (k1 = 1.2, b = 0.75). If documents are ranked by words alone, the score is
    /// that of the whole document, title and text; otherwise that of its best chunk.
    pub sparse: Vec<Hit>,
    /// BM25 score that no row can reach, if the text index knows words of the query. The share of
    /// it that a score reaches can be compared across queries and shards.
    pub attainable: Option<f32>,
    /// Name of the state that was ranked, if it is kept.
    pub view: Option<ViewName>,
}

/// Chunk that was found. If documents are ranked, it stands for its document, which is in a ranking
/// once.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Id of the chunk.
    pub chunk_id: ChunkId,
    /// Id of the document.
    pub document_id: DocumentId,
    /// Live version of the document.
    pub version: Version,
    /// Position among the document's chunks, from 0.
    pub ordinal: u32,
    /// Score in its ranking.
    pub score: f32,
    /// What is shown of it, if that was asked for.
    pub shown: Option<ChunkText>,
}

/// What is shown of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkText {
    /// Range of the document's text.
    pub span: Span,
    /// Text of the passage.
    pub text: String,
    /// The document's title; may be empty.
    pub title: String,
    /// Time when what it tells of happened.
    pub event_time: Option<Timestamp>,
}

/// Chunk of a version of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkRef {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Position among the document's chunks, from 0.
    pub ordinal: u32,
}

/// Result of sending a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Version of the document.
    pub version: Version,
    /// Relation to the documents that existed.
    pub novelty: Novelty,
}

/// Relation of an accepted document to those that existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// There was no document with its id.
    New,
    /// It replaced a document with its id and other content.
    Replaced,
    /// A document with its id and content existed, or one with its id and a higher source version.
    /// Nothing changed, except that a document of the same content has the higher of the two source
    /// versions.
    Unchanged,
}

/// Treatment of a document that is sent while one with its id and other content exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    /// It replaces the existing one.
    Replace,
    /// It is refused.
    Refuse,
}

impl IfThere {
    /// Checks that a document with other content may be replaced.
    ///
    /// # Errors
    /// Returns [`ErrorKind::AlreadyExists`] with the reason `DOCUMENT_EXISTS` if it may not.
    pub fn check_replaced(self) -> Result<(), Error> {
        match self {
            Self::Replace => Ok(()),
            Self::Refuse => Err(Error::new(
                ErrorKind::AlreadyExists,
                "DOCUMENT_EXISTS",
                "a document of this id is there with other content; choose another id, or have it replaced",
            )),
        }
    }
}

/// Numbers of things that forgetting a document removed. All are zero if there was nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Number of accepted versions.
    pub versions: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of nodes of its trees, with the entities and relations of its segments. Nodes above
    /// documents are removed too, but not counted.
    pub nodes: u64,
    /// Number of recorded failures.
    pub failures: u64,
    /// Number of compressed memories that held it. Their other contents are read into new memories.
    pub memories: u64,
    /// Bytes of the versions' texts.
    pub bytes: u64,
}

impl Forgotten {
    /// Creates the result for an id of which there was nothing.
    pub fn nothing(document_id: DocumentId) -> Self {
        let (versions, chunks, nodes, failures, memories, bytes) = (0, 0, 0, 0, 0, 0);
        Self { document_id, versions, chunks, nodes, failures, memories, bytes }
    }
}

/// Result of forgetting documents of a shard: what was removed and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// Removed things, one entry for each document of the request, in the same order.
    pub documents: Vec<Forgotten>,
    /// Scan of the stored data that the shard's owner made afterwards.
    pub scan: ErasureScan,
    /// Snapshots that hold any of the documents or may hold them, ordered by name.
    pub snapshots: Vec<HoldingSnapshot>,
}

/// Scan of stored data for forgotten documents: what was searched and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureScan {
    /// Number of tables that were searched for rows of the documents.
    pub tables: u64,
    /// Number of files that exist. Each was checked against what the newest versions of the tables
    /// name.
    pub files: u64,
    /// Number of parts of the documents' texts that were searched for.
    pub texts: u64,
    /// Number of files that were written in place of those that held the documents, and were
    /// searched for those parts.
    pub searched_files: u64,
    /// Size of the searched files, in bytes.
    pub searched_bytes: u64,
    /// Number of such files that were not searched because they had too many bytes, or because the
    /// storage engine compressed texts in them.
    pub unsearched_files: u64,
    /// The first leftovers of the documents, certain or possible.
    pub left: Vec<Leftover>,
    /// Number of leftovers in all.
    pub left_in_all: u64,
}

/// Leftover of forgotten documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Table that holds it, or file by its name in the shard.
    pub place: String,
    /// Description of what was found.
    pub problem: String,
}

impl ErasureScan {
    /// Maximum number of leftovers that are listed.
    const MOST_TOLD: usize = 32;

    /// Returns whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.left_in_all == 0
    }

    /// Adds a leftover.
    pub fn leave(&mut self, place: &str, problem: String) {
        self.left_in_all += 1;
        if self.left.len() < Self::MOST_TOLD {
            self.left.push(Leftover { place: place.to_owned(), problem });
        }
    }

    /// Adds a scan of another shard, or for other documents.
    pub fn add(&mut self, other: Self) {
        let Self { tables, files, texts, searched_files, searched_bytes, .. } = other;
        self.tables += tables;
        self.files += files;
        self.texts += texts;
        self.searched_files += searched_files;
        self.searched_bytes += searched_bytes;
        self.unsearched_files += other.unsearched_files;
        self.left_in_all += other.left_in_all;
        self.left.extend(other.left);
        self.left.truncate(Self::MOST_TOLD);
    }
}

/// Snapshot that holds forgotten documents, or may hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingSnapshot {
    /// Name of the snapshot; empty if it is not known which snapshots exist.
    pub name: String,
    /// Time when it was completed, if it was and the time is known.
    pub taken_at: Option<Timestamp>,
    /// Number of the documents that it certainly holds.
    pub documents: u64,
    /// Reason why it is not known whether it holds more; empty if that is known.
    pub problem: String,
}

impl HoldingSnapshot {
    /// Merges what is known of the same snapshots for other documents. Both lists are ordered by
    /// name.
    pub fn unite(known: &mut Vec<Self>, others: Vec<Self>) {
        for other in others {
            match known.binary_search_by(|one| one.name.cmp(&other.name)) {
                Err(place) => known.insert(place, other),
                Ok(place) => {
                    let one = &mut known[place];
                    one.taken_at = one.taken_at.or(other.taken_at);
                    one.documents += other.documents;
                    if one.problem.is_empty() {
                        one.problem = other.problem;
                    }
                }
            }
        }
    }
}

/// Step from an accepted document to chunks that can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Cutting the text into chunks.
    Chunking,
    /// Embedding the chunks.
    Embedding,
    /// Writing the chunks.
    Storing,
    /// Making the tree and graph of a document that can be found already.
    Structuring,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 4] = [Self::Chunking, Self::Embedding, Self::Storing, Self::Structuring];

    /// Returns the name in the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chunking => "chunking",
            Self::Embedding => "embedding",
            Self::Storing => "storing",
            Self::Structuring => "structuring",
        }
    }
}

/// State of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentState {
    /// Its newest version can be found.
    Indexed,
    /// Its newest version waits to be indexed; an older one may be found meanwhile.
    Pending,
    /// Indexing its newest version failed and will be tried again.
    Retrying,
    /// Indexing its newest version failed and will not be tried again by itself.
    SetAside,
}

/// Failure to index a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureStatus {
    /// Stage that failed.
    pub stage: Stage,
    /// Number of attempts.
    pub attempts: u32,
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Message for callers.
    pub message: String,
    /// Time of the next attempt; `None` if the document is set aside.
    pub next_try: Option<Timestamp>,
}

/// Status of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentStatus {
    /// Id of the document.
    pub document_id: DocumentId,
    /// State of the document.
    pub state: DocumentState,
    /// Its newest accepted version.
    pub version: Version,
    /// Version that searches find, if any.
    pub live_version: Option<Version>,
    /// Time when the newest version was accepted.
    pub accepted_at: Timestamp,
    /// Size of the newest version's text, in bytes.
    pub bytes: u64,
    /// Number of chunks of the live version.
    pub chunks: u64,
    /// Number of tokens of the live version's chunks.
    pub tokens: u64,
    /// Number of nodes of the live version's tree; 0 until the tree and the graph are made.
    pub nodes: u64,
    /// Failure because of which its newest version is not indexed, or has no tree and graph yet, if
    /// there was one.
    pub failure: Option<FailureStatus>,
    /// Labels that a caller must hold to see it: those of its newest version and, until that is
    /// indexed, those of the version that searches find.
    pub labels: Labels,
    /// Number by which the source orders its states, of the newest version, if it came with one.
    pub source_version: Option<SourceVersion>,
}

/// Request for a page of documents.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Document after which the page begins; `None` for the first page.
    pub after: Option<DocumentId>,
    /// Maximum number of documents.
    pub limit: usize,
    /// State of the documents; `None` for all states.
    pub state: Option<DocumentState>,
}

/// Request for a page of the chunks of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkListQuery {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Ordinal at which the page begins.
    pub from: u32,
    /// Maximum number of chunks.
    pub limit: usize,
    /// Whether the texts of the chunks are wanted.
    pub with_texts: bool,
}

/// Page of the chunks of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedChunks {
    /// Version of the document that searches find, if any. The chunks are of this version.
    pub version: Option<Version>,
    /// Number of all its chunks.
    pub chunk_count: u64,
    /// The chunks, by ordinal.
    pub chunks: Vec<ListedChunk>,
}

/// Chunk in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChunk {
    /// Position among the document's chunks, from 0.
    pub ordinal: u32,
    /// Kind of the chunk.
    pub kind: ChunkKind,
    /// Range of the document's text.
    pub span: Span,
    /// Number of tokens that were embedded.
    pub tokens: u32,
    /// Text of that range; empty unless texts were wanted.
    pub text: String,
    /// Text that was embedded and text-indexed; empty unless texts were wanted.
    pub key_text: String,
}

/// Kind of a chunk: what of its document it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// A passage of the text.
    Passage,
    /// A statement of a user, besides the passages of the turn.
    Statement,
    /// One of the keys by which a corpus finds turns, or a part of one.
    Key,
}

/// Request for a page of the users, or of the sessions of a user, of whom a shard holds turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationQuery {
    /// User whose sessions are wanted; `None` if users are wanted.
    pub user: Option<String>,
    /// Beginning of the wanted names.
    pub prefix: String,
    /// Name after which the page begins; empty for the first page.
    pub after: String,
    /// Maximum number of names.
    pub limit: usize,
}

/// Turns of a user or of a session, in a shard or in all shards of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurns {
    /// Name of the user or session.
    pub name: String,
    /// Number of turns.
    pub turns: u64,
    /// Time when the first of them was accepted.
    pub first_accepted_at: Timestamp,
    /// Time when the last of them was accepted.
    pub last_accepted_at: Timestamp,
}

impl StoredTurns {
    /// Adds turns of the same user or session.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.first_accepted_at = self.first_accepted_at.min(other.first_accepted_at);
        self.last_accepted_at = self.last_accepted_at.max(other.last_accepted_at);
    }
}

/// Selection of documents: those that pass all of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Filter, on the version of a document that searches find, or else on the newest.
    pub filter: Filter,
    /// Beginning of the ids of the documents; `None` for any ids.
    pub prefix: Option<DocumentId>,
    /// State of the documents; `None` for all states.
    pub state: Option<DocumentState>,
}

impl Selection {
    /// Returns whether it selects every document, whatever its state.
    pub fn is_everything(&self) -> bool {
        self.filter.is_empty() && self.prefix.is_none()
    }
}

/// Title and attributes of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedDocument {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Its title. Empty if it has none, or if searches find no version of it.
    pub title: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document.
    pub document: Document,
    /// Its version.
    pub version: Version,
    /// Time when that version was accepted.
    pub accepted_at: Timestamp,
}

/// Promise about what a shard stores, as a predicate over its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// An accepted version of a document is stored once.
    StoredOnce,
    /// The text of a version is the one that was accepted.
    TextWhole,
    /// The chunks of a document that searches find exist exactly once and cover its whole text.
    ChunksCover,
    /// A chunk is the passage that it claims to be: its id, text, title and vector fit its
    /// document.
    ChunkTrue,
    /// The tree of a document that is shown has each node exactly once. Its segments cover the
    /// text, and each node above covers its children.
    TreeTrue,
    /// The state that the owner keeps in memory is the state in the tables.
    StateTrue,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Self; 6] = [
        Self::StoredOnce,
        Self::TextWhole,
        Self::ChunksCover,
        Self::ChunkTrue,
        Self::TreeTrue,
        Self::StateTrue,
    ];

    /// Returns the name for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StoredOnce => "stored_once",
            Self::TextWhole => "text_whole",
            Self::ChunksCover => "chunks_cover",
            Self::ChunkTrue => "chunk_true",
            Self::TreeTrue => "tree_true",
            Self::StateTrue => "state_true",
        }
    }
}

/// Breach of a promise for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Promise that does not hold.
    pub invariant: Invariant,
    /// Id of the document.
    pub document_id: DocumentId,
    /// Description of what was expected and what was found, without text of the document.
    pub detail: String,
}

/// Request to check a page of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckQuery {
    /// Document after which the page begins. `None` begins at the first and includes checks of the
    /// tables as a whole.
    pub after: Option<DocumentId>,
    /// Maximum number of documents.
    pub limit: usize,
}

/// Result of checking a page of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of documents that were checked.
    pub documents: u64,
    /// Number of their chunks.
    pub chunks: u64,
    /// Promises that do not hold.
    pub breaches: Vec<Breach>,
    /// Last document that was checked; `None` if there was none.
    pub last: Option<DocumentId>,
}

/// Page of what a shard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPage {
    /// Rows of some tables.
    pub tables: Vec<ExportedRows>,
    /// Number of documents in the page.
    pub documents: u64,
    /// Position where the next page begins; `None` if this was the last page.
    pub next: Option<String>,
}

/// Rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRows {
    /// Name of the table.
    pub table: String,
    /// The rows, as a stream in Arrow's interprocess format.
    pub arrow: Vec<u8>,
}

/// Totals of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of documents that are accepted and not forgotten.
    pub accepted: u64,
    /// Number of documents of which a version can be found.
    pub documents: u64,
    /// Number of documents whose newest version waits to be indexed, without failed ones.
    pub pending: u64,
    /// Number of documents whose newest version failed and will be tried again.
    pub retrying: u64,
    /// Number of documents whose newest version is set aside.
    pub set_aside: u64,
    /// Number of chunks that can be found.
    pub chunks: u64,
    /// Number of tokens of those chunks.
    pub tokens: u64,
    /// Size of the newest versions' texts, in bytes.
    pub bytes: u64,
    /// Number of documents with a tree and graph.
    pub structured: u64,
    /// Number of documents that can be found and whose tree and graph are still to be made, without
    /// those set aside.
    pub unstructured: u64,
    /// Number of nodes of the trees.
    pub nodes: u64,
}

impl Counts {
    /// Adds what a document with this status contributes. `unstructured` is not changed, because
    /// the status does not tell it.
    pub fn add(&mut self, status: &DocumentStatus) {
        self.apply(status, u64::checked_add);
    }

    /// Subtracts what a document with this status contributed. `unstructured` is not changed.
    pub fn subtract(&mut self, status: &DocumentStatus) {
        self.apply(status, u64::checked_sub);
    }

    fn apply(&mut self, status: &DocumentStatus, change: fn(u64, u64) -> Option<u64>) {
        let change = |total: &mut u64, by| *total = change(*total, by).unwrap_or(*total);
        change(&mut self.accepted, 1);
        change(&mut self.documents, u64::from(status.live_version.is_some()));
        change(&mut self.chunks, status.chunks);
        change(&mut self.tokens, status.tokens);
        change(&mut self.bytes, status.bytes);
        change(&mut self.structured, u64::from(status.nodes > 0));
        change(&mut self.nodes, status.nodes);
        match status.state {
            DocumentState::Indexed => {}
            DocumentState::Pending => change(&mut self.pending, 1),
            DocumentState::Retrying => change(&mut self.retrying, 1),
            DocumentState::SetAside => change(&mut self.set_aside, 1),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.documents += other.documents;
        self.pending += other.pending;
        self.retrying += other.retrying;
        self.set_aside += other.set_aside;
        self.chunks += other.chunks;
        self.tokens += other.tokens;
        self.bytes += other.bytes;
        self.structured += other.structured;
        self.unstructured += other.unstructured;
        self.nodes += other.nodes;
    }
}
