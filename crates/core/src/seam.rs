//! Main traits between crates: encoders, corpora and shards, retrievers, generators, reasoners,
//! graph builders and clocks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::answer::Cost;
use crate::{
    Accepted, Access, CandidateQuery, Candidates, CheckQuery, Checked, Citation, ClueQuery, Corpus,
    CorpusName, CorpusSettings, Counts, DeletionStep, Document, DocumentId, DocumentStatus,
    DraftedClues, EncoderIdentity, Erasure, Error, Evidence, ExportPage, Extraction,
    ExtractionTask, Generated, GenerationRequest, GeneratorIdentity, GraphQuery, Heard, IfThere,
    ListQuery, Listed, MemoryPoint, MemoryRecord, Partial, Query, ReadingStrategy, Reembedded,
    Restoration, RestoreStep, SegmentId, ShardCopy, ShardIndex, SnapshotDeletion, SnapshotName,
    SnapshotSummary, Span, StoredDocument, Subgraph, Summary, SummaryTask, Timestamp, TreeNode,
    TreeQuery,
};

/// Role of a text for its encoder. Some models embed questions and passages differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// A text to be found.
    Passage,
    /// A text to find with.
    Query,
}

/// Priority of embedding work: interactive work goes before bulk work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// A person waits for the result.
    Interactive,
    /// Ingestion.
    Bulk,
}

/// Embedding of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Unit vector, `[dimension]`.
    pub vector: Vec<f32>,
    /// Number of tokens that were read, special tokens included.
    pub tokens: u32,
    /// Whether the text was longer than the encoder's window, so that its end was not read.
    pub truncated: bool,
}

/// Model that turns texts into vectors.
#[async_trait]
pub trait Encoder: Send + Sync {
    /// Returns the identity of the model. Vectors of different identities are never compared.
    fn identity(&self) -> &EncoderIdentity;

    /// Returns the byte range of each token of `text`, in order, special tokens left out. It takes
    /// about a microsecond per token and blocks, so call it where CPU work belongs.
    fn token_spans(&self, text: &str) -> Vec<Span>;

    /// Embeds `texts`, in order.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] at once if the queue is full,
    /// [`crate::ErrorKind::DeadlineExceeded`], and [`crate::ErrorKind::Unavailable`] if the device
    /// is gone.
    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error>;
}

/// Encoders that can be reached. A corpus uses only the models that its settings name; others may
/// be there.
#[async_trait]
pub trait Encoders: Send + Sync {
    /// Returns the encoder for new corpora.
    fn current(&self) -> Arc<dyn Encoder>;

    /// Returns the models that are known to be there, first the one for new corpora.
    fn offered(&self) -> Vec<EncoderIdentity>;

    /// Returns the encoder of exactly this model.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if there is no
    /// such encoder, and [`crate::ErrorKind::Unavailable`] or
    /// [`crate::ErrorKind::DeadlineExceeded`] if none answers.
    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error>;

    /// Returns the encoder of this model, or the current one if it is not there. For work that any
    /// encoder does about as well.
    async fn of_or_current(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Arc<dyn Encoder> {
        self.of(identity, deadline).await.unwrap_or_else(|_missing| self.current())
    }
}

/// The encoders of a process that has only one.
#[derive(Clone)]
pub struct OneEncoder(pub Arc<dyn Encoder>);

#[async_trait]
impl Encoders for OneEncoder {
    fn current(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.0)
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        vec![self.0.identity().clone()]
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        _deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        match self.0.identity() == identity {
            true => Ok(self.current()),
            false => Err(identity.missing_among(&self.offered())),
        }
    }
}

/// Future that resolves once a document that a shard had room for is committed and synced, or was
/// not accepted.
pub type Accepting = Pin<Box<dyn Future<Output = Result<Accepted, Error>> + Send>>;

/// Shard of a corpus, in this process or on another machine, as far as one caller sees it
/// ([`Access`]). For all of its calls, anything that needs an access label that the caller does not
/// hold does not exist.
///
/// Every call may be repeated: what is done already is not done twice. In addition to the errors
/// named at each call, all calls fail with [`crate::ErrorKind::Unavailable`] while the shard moves
/// or restarts, and with [`crate::ErrorKind::DeadlineExceeded`].
#[async_trait]
pub trait Shard: Send + Sync {
    /// Returns the index of this shard in its corpus.
    fn index(&self) -> ShardIndex;

    /// Waits until the shard has room for the document. The returned future resolves once the
    /// document is committed and synced.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if there was no room in time. The returned future
    /// fails with [`crate::ErrorKind::Denied`] and the reason `LABEL_NOT_HELD` if the document
    /// would replace one that the caller does not see, and with the errors of
    /// [`IfThere::check_replaced`]. After any other error of that future the document may or may
    /// not be accepted. Sending it again is safe.
    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error>;

    /// Forgets documents, down to the bytes in storage, and looks for what is left of them: in a
    /// scan of the stored data, and in the snapshots of the corpus.
    ///
    /// # Errors
    /// Returns the errors of the shard. Another call finishes what was begun.
    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error>;

    /// Returns the candidates of a search.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error>;

    /// Returns the documents of these ids with their states, in no particular order. Each is the
    /// version that searches find, or else the newest. Documents that do not exist are left out.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::DataLoss`] if a text cannot be read back.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error>;

    /// Returns the document of an id as [`Shard::documents`] does, if it exists.
    ///
    /// # Errors
    /// Returns the errors of [`Shard::documents`].
    async fn document(
        &self,
        id: &DocumentId,
        deadline: Instant,
    ) -> Result<Option<(StoredDocument, DocumentStatus)>, Error> {
        Ok(self.documents(std::slice::from_ref(id), deadline).await?.pop())
    }

    /// Returns a page of documents, ordered by id.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error>;

    /// Returns the totals of the shard.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn counts(&self, deadline: Instant) -> Result<Counts, Error>;

    /// Checks a page of documents, ordered by id, against every [`crate::Invariant`]. A page holds
    /// fewer documents than requested if their texts are long.
    ///
    /// # Errors
    /// Returns the errors of the shard, and [`crate::ErrorKind::DataLoss`] if a row cannot be read
    /// at all.
    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error>;

    /// Returns nodes of the tree; none if the corpus has no tree.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error>;

    /// Returns the part of this shard's graph around what `query` names; an empty part if the
    /// corpus has no graph.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error>;

    /// Returns the texts of segments, in no particular order. Segments that no longer exist are
    /// left out.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error>;

    /// Returns the compressed memories that the shard stores.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn memories(&self, deadline: Instant) -> Result<Vec<MemoryRecord>, Error>;

    /// Drafts clues from the shard's compressed memories; none if it has no memories.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run, and the errors of
    /// [`crate::MemoryEncoder::draft`].
    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error>;

    /// Returns the progress of the shard with the vectors that the corpus wants.
    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error>;

    /// Does the maintenance that the tables need, now.
    ///
    /// # Errors
    /// Returns the errors of the tables.
    async fn maintain(&self, deadline: Instant) -> Result<(), Error>;

    /// Returns a page of everything that the shard holds and shows. `after` is empty for the first
    /// page, and otherwise [`ExportPage::next`] of the previous page. Each document is in one page
    /// as a whole.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for any other `after`.
    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error>;

    /// Continues, for some seconds, to copy one state of the shard to a snapshot of its corpus: the
    /// newest state at the time of each call. Call it again until the copy is complete; writes go
    /// on meanwhile.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a complete snapshot of that name,
    /// [`crate::ErrorKind::WrongState`] if no place for snapshots is configured, and
    /// [`crate::ErrorKind::Exhausted`] while another call copies this shard.
    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error>;
}

/// Corpora that can be reached, each as far as a caller sees it. All later calls to a returned
/// [`Corpus`] and its shards are made on behalf of that caller.
#[async_trait]
pub trait Corpora: Send + Sync {
    /// Creates a corpus.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if the settings cannot work,
    /// [`crate::ErrorKind::AlreadyExists`] if there is a corpus of that name, and the errors of the
    /// storage.
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// Returns the corpus of that name.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is none.
    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// Returns up to `limit` corpora whose names come after `after`, ordered by name, including
    /// those that cannot be used.
    ///
    /// # Errors
    /// Returns the errors of the storage.
    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        deadline: Instant,
    ) -> Result<Vec<Listed>, Error>;

    /// Changes settings from `from` to `to`, of the same corpus. No caller sees anything between
    /// the two. Nothing is changed if the settings are `to` already.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::LostRace`] if the settings are neither,
    /// [`crate::ErrorKind::NotFound`] if there is no such corpus, and the errors of the storage.
    async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error>;

    /// Deletes a corpus with everything in it and returns how many documents it held.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if there is no such corpus, and the errors of the
    /// storage, after which the deletion is finished later.
    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error>;

    /// Marks a snapshot of a corpus as complete once all shards are copied. `digests` are the
    /// digests that [`Shard::copy_to_snapshot`] returned, ordered by shard index. Only a complete
    /// snapshot can be restored.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a complete snapshot of that name,
    /// [`crate::ErrorKind::DataLoss`] if what was copied no longer exists, and the errors of the
    /// storage.
    async fn finish_snapshot(
        &self,
        corpus: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error>;

    /// Returns the complete snapshots of a corpus, ordered by name, even if the corpus no longer
    /// exists.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] if no place for snapshots is configured, and the
    /// errors of the storage.
    async fn snapshots(
        &self,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error>;

    /// Continues, for some seconds, to delete a snapshot of a corpus. Call it again until it is
    /// done.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::NotFound`] if nothing of the snapshot exists,
    /// [`crate::ErrorKind::WrongState`] with the reason `SNAPSHOT_IN_USE` while it is being taken
    /// or restored from, and [`crate::ErrorKind::WrongState`] if no place for snapshots is
    /// configured. Also returns the errors of the storage. The next call, or [`Self::snapshots`],
    /// then continues the deletion.
    async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error>;

    /// Continues, for some seconds, to restore a corpus. Call it again until it is done. Until then
    /// the corpus does not exist.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a corpus of that name,
    /// [`crate::ErrorKind::NotFound`] if there is no such snapshot,
    /// [`crate::ErrorKind::WrongState`] if it is not complete, or was made with another encoder or
    /// by a newer release, and [`crate::ErrorKind::DataLoss`] if it is damaged.
    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error>;
}

/// Result of a search over all shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// Best items, best first.
    pub evidence: Vec<Evidence>,
    /// Shards that did not answer.
    pub shards_missing: Vec<ShardIndex>,
    /// Cost of the search.
    pub cost: Cost,
}

/// Search over one corpus.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Returns the best evidence for `query`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for a bad query,
    /// [`crate::ErrorKind::Unavailable`] if no shard answered, and
    /// [`crate::ErrorKind::DeadlineExceeded`].
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error>;
}

/// Document with its text as one passage.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeDocument {
    /// The document.
    pub document: Document,
    /// The whole text.
    pub passage: Evidence,
}

/// Access to whole documents of one corpus. Each result names the shards that should have been
/// asked and did not answer. If none answered, the call fails.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Returns the documents of these ids, in no particular order. Documents that do not exist are
    /// left out.
    ///
    /// # Errors
    /// Returns the errors of the shards.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error>;

    /// Returns up to `limit` ids that begin with `prefix` and come after `after`, in order.
    ///
    /// # Errors
    /// Returns the errors of the shards.
    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error>;
}

/// Language model, in this process or elsewhere.
#[async_trait]
pub trait Generator: Send + Sync {
    /// Returns the identity of the model.
    fn identity(&self) -> &GeneratorIdentity;

    /// Returns the number of tokens of a text; an estimate if the model's tokenizer is not
    /// available.
    fn count_tokens(&self, text: &str) -> u32;

    /// Has the model reply, and passes the text to `heard` as it comes. Dropping the returned
    /// future ends the work.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if no model can answer the request, or if it is
    /// longer than the model's window, [`crate::ErrorKind::Exhausted`] at once if the queue is
    /// full, [`crate::ErrorKind::DeadlineExceeded`], and [`crate::ErrorKind::Unavailable`] if the
    /// model cannot be reached or fails.
    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error>;
}

/// Kind of result that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Answer to a question.
    #[default]
    Answer,
    /// Summary of a subject, which may be everything.
    Summarise,
}

/// Use of the compressed memories of a corpus for an answer (MemoRAG). If there are none that may
/// be asked, and for a summary, every use works like [`Self::Clues`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// They draft what to search for, and what is found is read. The paper's figures are for this
    /// use.
    #[default]
    Clues,
    /// They also answer from memory. That answer is searched for as well, and the reader gets it as
    /// a hint.
    Hint,
    /// Their own answer is returned if the cited text says most of it, too; otherwise that of the
    /// reader.
    Answer,
}

/// Task of a reader: what to make of the evidence.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assignment<'a> {
    /// Kind of result that is wanted.
    pub task: Task,
    /// Question, or subject of the summary.
    pub question: &'a str,
    /// Time when it is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Points worked out on the way, if any. They help to understand and are never cited.
    pub points: &'a [MemoryPoint],
    /// Evidence, in reading order. The score of each item tells how well it fits.
    pub evidence: &'a [Evidence],
    /// Settings for a language model that reads it.
    pub reading: ReadingStrategy,
}

impl<'a> Assignment<'a> {
    /// Creates the task of answering a question from evidence.
    pub fn new(question: &'a str, evidence: &'a [Evidence]) -> Self {
        Self { question, evidence, ..Self::default() }
    }
}

/// Result of reading evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Support for an answer, 0 to 1.
    pub confidence: f32,
    /// Minimum support at which the question counts as answered.
    pub threshold: f32,
    /// Explanation of the judgement, for people.
    pub rationale: String,
    /// Composed answer; empty if the support is below the threshold.
    pub text: String,
    /// Origins of its parts, in the order of the text.
    pub citations: Vec<Citation>,
    /// Number of sentences compared with the question.
    pub sentences: usize,
    /// Cost of reading.
    pub cost: Cost,
}

/// Reader of evidence, by prompts to a language model or extractively.
#[async_trait]
pub trait Reasoner: Send + Sync {
    /// Judges whether the evidence supports what is wanted, and composes it.
    ///
    /// # Errors
    /// Returns the errors of the encoder or model behind it.
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error>;
}

/// Builder of summaries and extractions for trees and graphs, by prompts to a language model or
/// extractively. It computes and returns; the caller decides what to store.
///
/// Calls may be repeated. A call returns all of its results or none, so a caller chooses how much
/// it may have to ask again.
#[async_trait]
pub trait GraphBuilder: Send + Sync {
    /// Returns a summary for each task, in order.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if a task is beyond the limits,
    /// [`crate::ErrorKind::Exhausted`] at once if the queue is full,
    /// [`crate::ErrorKind::DeadlineExceeded`], and the errors of the model behind it.
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error>;

    /// Returns the entities, relations and key phrases of each task's passage, in order.
    ///
    /// # Errors
    /// Returns the errors of [`Self::summarise`].
    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error>;
}

/// Source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}
