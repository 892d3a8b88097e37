//! What a shard is asked and what it tells: the nouns of the seam [`crate::Shard`].

use crate::{
    ChunkId, Document, DocumentId, Error, ErrorKind, Filter, Grouping, Labels, SearchMode, Span,
    Timestamp, Version,
};

/// A search of one shard.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateQuery {
    /// The words.
    pub text: String,
    /// Their embedding, `[dimension]`; needed where the mode uses embeddings.
    pub vector: Option<Vec<f32>>,
    /// Fingerprint of the model that made the embedding ([`crate::EncoderIdentity::fingerprint`]); empty: of the one
    /// that the corpus is searched with.
    pub encoder: String,
    /// Which rankings are wanted.
    pub mode: SearchMode,
    /// What may be found.
    pub filter: Filter,
    /// Whether chunks or documents are ranked.
    pub grouping: Grouping,
    /// Most candidates wanted of each ranking.
    pub limit: usize,
    /// Whether to compare every vector instead of asking the vector index.
    pub exact: bool,
}

/// The rankings of one shard, best first. A ranking that was not asked for is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// By cosine similarity.
    pub dense: Vec<Hit>,
    /// By BM25 (k1 = 1.2, b = 0.75). Where documents are ranked by words alone, the score is that of
    /// the whole document, title and text; otherwise that of its best chunk.
    pub sparse: Vec<Hit>,
    /// The BM25 score that no row can reach, if the text index knows words of the query; the share
    /// of it that a score is can be compared across queries and shards.
    pub attainable: Option<f32>,
}

/// A chunk that was found. Where documents are ranked it stands for its document, which comes once
/// in a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Its document.
    pub document_id: DocumentId,
    /// The live version of the document.
    pub version: Version,
    /// Position among the document's chunks, from 0.
    pub ordinal: u32,
    /// Where it lies in the document's text.
    pub span: Span,
    /// The passage.
    pub text: String,
    /// The document's title; may be empty.
    pub title: String,
    /// When what it tells of happened.
    pub event_time: Option<Timestamp>,
    /// Score of its ranking.
    pub score: f32,
}

/// What became of a document that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its version.
    pub version: Version,
    /// What it is to the documents that were there.
    pub novelty: Novelty,
}

/// What an accepted document is to the documents that were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// There was none of its id.
    New,
    /// It replaced one of its id with other content.
    Replaced,
    /// It was there already, with the same content: nothing was written.
    Unchanged,
}

/// What becomes of a document that is offered while one of its id with other content is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    /// It replaces that one.
    Replace,
    /// It is refused.
    Refuse,
}

impl IfThere {
    /// Whether a document with other content may be replaced.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] with the reason `DOCUMENT_EXISTS`.
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

/// What forgetting a document removed. All zero: there was nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The document.
    pub document_id: DocumentId,
    /// Accepted versions.
    pub versions: u64,
    /// Chunks.
    pub chunks: u64,
    /// Nodes of its trees, with the entities and relations of its segments. Nodes above documents, which
    /// go too, are not counted.
    pub nodes: u64,
    /// Recorded failures.
    pub failures: u64,
    /// Compressed memories that held it. What else they held is read into others.
    pub memories: u64,
    /// Bytes of the versions' texts.
    pub bytes: u64,
}

impl Forgotten {
    /// There was nothing of that id.
    pub fn nothing(document_id: DocumentId) -> Self {
        let (versions, chunks, nodes, failures, memories, bytes) = (0, 0, 0, 0, 0, 0);
        Self { document_id, versions, chunks, nodes, failures, memories, bytes }
    }
}

/// What forgetting documents of a shard did, and what is left of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// What was removed, one for each document that was asked for, in their order.
    pub documents: Vec<Forgotten>,
    /// What the shard's owner found when it looked at what is stored afterwards.
    pub scan: ErasureScan,
    /// Snapshots that hold any of the documents or may hold them, by name.
    pub snapshots: Vec<HoldingSnapshot>,
}

/// A scan of what is stored for documents that were forgotten: what was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureScan {
    /// Tables that were asked for rows of the documents.
    pub tables: u64,
    /// Files that there are. Each was held against what the newest versions of the tables name.
    pub files: u64,
    /// Parts of the documents' texts that were searched for.
    pub texts: u64,
    /// Files that were written in place of those that held the documents, and were searched for those parts.
    pub searched_files: u64,
    /// Their bytes.
    pub searched_bytes: u64,
    /// Such files that were not searched, as there were too many bytes or the storage engine compressed texts in them.
    pub unsearched_files: u64,
    /// What is left of the documents, or may be: the first of it.
    pub left: Vec<Leftover>,
    /// How much of that there is in all.
    pub left_in_all: u64,
}

/// Something that was found of forgotten documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where: a table, or a file by its name in the shard.
    pub place: String,
    /// What.
    pub problem: String,
}

impl ErasureScan {
    /// Most leftovers that are told.
    const MOST_TOLD: usize = 32;

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.left_in_all == 0
    }

    /// Notes something that was found.
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

/// A snapshot that holds forgotten documents, or may hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingSnapshot {
    /// Its name; empty: which snapshots there are is not known.
    pub name: String,
    /// When it was finished, if it was and that is known.
    pub taken_at: Option<Timestamp>,
    /// How many of the documents it holds for certain.
    pub documents: u64,
    /// Why it is not known whether it holds more; empty if it is known.
    pub problem: String,
}

impl HoldingSnapshot {
    /// Adds what is known of the same snapshots for other documents; both are by name.
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

/// A step on the way from an accepted document to chunks that can be found.
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

    /// Its name in the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chunking => "chunking",
            Self::Embedding => "embedding",
            Self::Storing => "storing",
            Self::Structuring => "structuring",
        }
    }
}

/// Where a document stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentState {
    /// Its newest version can be found.
    Indexed,
    /// Its newest version waits to be indexed; an older one may be found meanwhile.
    Pending,
    /// Indexing its newest version failed and is tried again later.
    Retrying,
    /// Indexing its newest version failed and is not tried again by itself.
    SetAside,
}

/// Why indexing a document failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureStatus {
    /// Where.
    pub stage: Stage,
    /// How many times.
    pub attempts: u32,
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The outward message.
    pub message: String,
    /// When it is tried again; `None`: it is set aside.
    pub next_try: Option<Timestamp>,
}

/// What is told of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentStatus {
    /// The document.
    pub document_id: DocumentId,
    /// Where it stands.
    pub state: DocumentState,
    /// Its newest accepted version.
    pub version: Version,
    /// The version that searches find, if any is.
    pub live_version: Option<Version>,
    /// When the newest version was accepted.
    pub accepted_at: Timestamp,
    /// Bytes of the newest version's text.
    pub bytes: u64,
    /// Chunks of the live version.
    pub chunks: u64,
    /// Tokens of the live version's chunks.
    pub tokens: u64,
    /// Nodes of the live version's tree; 0 until it and the graph are made.
    pub nodes: u64,
    /// Why its newest version is not indexed, or has no tree and graph yet, if that failed.
    pub failure: Option<FailureStatus>,
    /// What a caller must hold to see it: the labels of its newest version, and of the version that searches
    /// find until then.
    pub labels: Labels,
}

/// A page of documents to be listed.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Begin after this document; `None`: at the first.
    pub after: Option<DocumentId>,
    /// Most documents wanted.
    pub limit: usize,
    /// Only documents that stand here; `None`: all.
    pub state: Option<DocumentState>,
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document.
    pub document: Document,
    /// Its version.
    pub version: Version,
    /// When that version was accepted.
    pub accepted_at: Timestamp,
}

/// A promise about what a shard stores, as a predicate over its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// An accepted version of a document is stored once.
    StoredOnce,
    /// The text of a version is the one that was accepted.
    TextWhole,
    /// The chunks that searches find of a document are there once each and cover its whole text.
    ChunksCover,
    /// A chunk is the passage it says it is: its id, text, title and vector fit its document.
    ChunkTrue,
    /// The tree that is shown of a document has each node once: its segments cover the text, and each node
    /// above covers its children.
    TreeTrue,
    /// What the owner keeps in memory is what the tables say.
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

    /// Its name for reports.
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

/// A promise that does not hold for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which promise.
    pub invariant: Invariant,
    /// The document.
    pub document_id: DocumentId,
    /// What was expected and what was found, without text of the document.
    pub detail: String,
}

/// A page of documents to be checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckQuery {
    /// Begin after this document; `None`: at the first, with what concerns the tables as a whole.
    pub after: Option<DocumentId>,
    /// Most documents wanted.
    pub limit: usize,
}

/// What checking a page of documents found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Documents that were looked at.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// What does not hold.
    pub breaches: Vec<Breach>,
    /// The last document that was looked at; `None`: there was none.
    pub last: Option<DocumentId>,
}

/// A page of what a shard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPage {
    /// Rows of some tables.
    pub tables: Vec<ExportedRows>,
    /// Documents in it.
    pub documents: u64,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<String>,
}

/// Rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRows {
    /// Its name.
    pub table: String,
    /// The rows, as a stream of Arrow's interprocess format.
    pub arrow: Vec<u8>,
}

/// Totals of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Documents that are accepted and not forgotten.
    pub accepted: u64,
    /// Documents of which a version can be found.
    pub documents: u64,
    /// Documents whose newest version waits to be indexed, failed ones left out.
    pub pending: u64,
    /// Documents whose newest version failed and is tried again.
    pub retrying: u64,
    /// Documents whose newest version is set aside.
    pub set_aside: u64,
    /// Chunks that can be found.
    pub chunks: u64,
    /// Tokens of those chunks.
    pub tokens: u64,
    /// Bytes of the newest versions' texts.
    pub bytes: u64,
    /// Documents whose tree and graph are made.
    pub structured: u64,
    /// Documents that can be found and whose tree and graph are still to be made, those set aside left out.
    pub unstructured: u64,
    /// Nodes of the trees.
    pub nodes: u64,
}

impl Counts {
    /// Adds what `status` counts for.
    pub fn add(&mut self, status: &DocumentStatus) {
        self.apply(status, u64::checked_add);
    }

    /// Takes away what `status` counted for.
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
