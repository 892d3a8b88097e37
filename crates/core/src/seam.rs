//! The traits between crates: each has at least two real implementations.

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

/// What a text is to its encoder; some models embed questions and passages differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// A text to be found.
    Passage,
    /// A text to find with.
    Query,
}

/// Who waits: a person's question goes before bulk work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Someone waits for the answer.
    Interactive,
    /// Ingestion.
    Bulk,
}

/// A text's embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Unit vector, `[dimension]`.
    pub vector: Vec<f32>,
    /// Tokens that were read, special tokens included.
    pub tokens: u32,
    /// Whether the text was longer than the encoder's window, so that its end was not read.
    pub truncated: bool,
}

/// Turns texts into vectors.
#[async_trait]
pub trait Encoder: Send + Sync {
    /// Which model this is; vectors of different identities are never compared.
    fn identity(&self) -> &EncoderIdentity;

    /// The byte range of each token of `text`, in order, special tokens left out. It costs about a
    /// microsecond a token and blocks, so call it where work of the processor belongs.
    fn token_spans(&self, text: &str) -> Vec<Span>;

    /// Embeds `texts`, in order.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Exhausted`] when the queue is full, at once;
    /// [`crate::ErrorKind::DeadlineExceeded`]; [`crate::ErrorKind::Unavailable`] when the device
    /// is gone.
    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error>;
}

/// The encoders that can be reached. A corpus keeps to the models that its settings name, and others may be there.
#[async_trait]
pub trait Encoders: Send + Sync {
    /// The one that new corpora are made with.
    fn current(&self) -> Arc<dyn Encoder>;

    /// The models that are known to be there; first that of new corpora.
    fn offered(&self) -> Vec<EncoderIdentity>;

    /// The encoder of exactly that model.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if there is none such;
    /// [`crate::ErrorKind::Unavailable`] and [`crate::ErrorKind::DeadlineExceeded`] if none answers.
    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error>;

    /// The encoder of that model, or where it is not there the current one, for what any can do about as well.
    async fn of_or_current(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Arc<dyn Encoder> {
        self.of(identity, deadline).await.unwrap_or_else(|_missing| self.current())
    }
}

/// The encoders of a process that has one.
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

/// Resolves once a document that a shard had room for is committed and synced, or was not accepted.
pub type Accepting = Pin<Box<dyn Future<Output = Result<Accepted, Error>> + Send>>;

/// One shard of a corpus, in this process or on another machine, as far as one caller sees it ([`Access`]): what needs
/// an access label that the caller does not hold is not there for any of its calls.
///
/// Every call may be repeated: what was done already is not done twice. Besides the errors named at
/// each call all of them fail with [`crate::ErrorKind::Unavailable`] while the shard moves or
/// restarts, and with [`crate::ErrorKind::DeadlineExceeded`].
#[async_trait]
pub trait Shard: Send + Sync {
    /// Which shard of its corpus this is.
    fn index(&self) -> ShardIndex;

    /// Waits until the shard has room for the document. What this returns resolves once the
    /// document is committed and synced.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Exhausted`] if there was no room in time; from the returned future
    /// [`crate::ErrorKind::Denied`] with the reason `LABEL_NOT_HELD` if it would replace a document that the
    /// caller does not see; those of [`IfThere::check_replaced`]. Another error of the returned
    /// future does not say that nothing was accepted: offering the document again is safe.
    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error>;

    /// Forgets documents, down to the bytes in storage, and looks for what is left of them: by a scan of what is
    /// stored, and in the snapshots of the corpus.
    ///
    /// # Errors
    /// Asking again finishes what was begun.
    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error>;

    /// The candidates of a search.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Exhausted`] when too many searches run.
    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error>;

    /// The documents of these ids with their states, in no particular order: the version that searches
    /// find, or else the newest. Those that are not there are left out.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DataLoss`] if a text cannot be read back.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error>;

    /// The document of an id, if it is there, as [`Shard::documents`] tells it.
    ///
    /// # Errors
    /// As [`Shard::documents`].
    async fn document(
        &self,
        id: &DocumentId,
        deadline: Instant,
    ) -> Result<Option<(StoredDocument, DocumentStatus)>, Error> {
        Ok(self.documents(std::slice::from_ref(id), deadline).await?.pop())
    }

    /// A page of documents, by id.
    ///
    /// # Errors
    /// Those of the shard.
    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error>;

    /// Totals.
    ///
    /// # Errors
    /// Those of the shard.
    async fn counts(&self, deadline: Instant) -> Result<Counts, Error>;

    /// Checks a page of documents, by id, against every [`crate::Invariant`]. A page holds fewer than
    /// were asked for where their texts are long.
    ///
    /// # Errors
    /// Those of the shard; [`crate::ErrorKind::DataLoss`] if a row cannot be read at all.
    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error>;

    /// Nodes of the tree; of a corpus without tree, none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Exhausted`] when too many searches run.
    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error>;

    /// The part of this shard's graph around what `query` names; of a corpus without graph, an empty one.
    ///
    /// # Errors
    /// As [`Self::tree`].
    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error>;

    /// The texts of segments; those that are there no more are left out. In no particular order.
    ///
    /// # Errors
    /// As [`Self::tree`].
    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error>;

    /// The compressed memories that it keeps.
    ///
    /// # Errors
    /// Those of the shard.
    async fn memories(&self, deadline: Instant) -> Result<Vec<MemoryRecord>, Error>;

    /// What its compressed memories draft; of a shard without, nothing.
    ///
    /// # Errors
    /// As [`Self::tree`]; those of [`crate::MemoryEncoder::draft`].
    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error>;

    /// How far the shard is with the vectors that the corpus wants.
    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error>;

    /// Does what maintenance the tables want, now.
    ///
    /// # Errors
    /// Those of the tables.
    async fn maintain(&self, deadline: Instant) -> Result<(), Error>;

    /// A page of all that the shard holds and shows: `after` is empty for the first, then what the page
    /// before told. A document is in one page, whole.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] for another `after`.
    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error>;

    /// Goes on, for some seconds, copying one state of the shard to a snapshot of its corpus: the newest
    /// one whenever this is called. To be called again until it is whole; writes go on meanwhile.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] if there is a whole snapshot of that name;
    /// [`crate::ErrorKind::WrongState`] if no place for snapshots is configured;
    /// [`crate::ErrorKind::Exhausted`] while another call copies this shard.
    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error>;
}

/// The corpora that can be reached, each as far as a caller sees it: all that is asked of a [`Corpus`] and its
/// shards from then on is asked by that caller.
#[async_trait]
pub trait Corpora: Send + Sync {
    /// Makes a corpus.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`]; [`crate::ErrorKind::AlreadyExists`]; those of the storage.
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// The corpus of that name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error>;

    /// Up to `limit` corpora whose names come after `after`, by name, those among them that cannot be used.
    ///
    /// # Errors
    /// Those of the storage.
    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        deadline: Instant,
    ) -> Result<Vec<Listed>, Error>;

    /// Changes settings `from` to `to`, of the same corpus: no caller sees anything between the two. Nothing is changed
    /// if they are `to` already.
    ///
    /// # Errors
    /// [`crate::ErrorKind::LostRace`] if they are neither; [`crate::ErrorKind::NotFound`]; those of the storage.
    async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error>;

    /// Deletes a corpus with everything in it; answers how many documents it held.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`]; those of the storage, after which the deletion is finished
    /// later.
    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error>;

    /// Makes a snapshot of a corpus whole whose shards are all copied: `digests` are what
    /// [`Shard::copy_to_snapshot`] told of each, by index. Only then it can be restored.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] if there is a whole snapshot of that name;
    /// [`crate::ErrorKind::DataLoss`] if what was copied is not there any more; those of the storage.
    async fn finish_snapshot(
        &self,
        corpus: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error>;

    /// The whole snapshots of a corpus, by name, also of one that is gone.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] if no place for snapshots is configured; those of the storage.
    async fn snapshots(
        &self,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error>;

    /// Goes on, for some seconds, deleting a snapshot of a corpus. To be called again until it is done.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] if there is nothing of it; [`crate::ErrorKind::WrongState`] with the reason
    /// `SNAPSHOT_IN_USE` while it is being taken or restored from, and if no place for snapshots is configured;
    /// those of the storage, after which the next call, or [`Self::snapshots`], goes on.
    async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error>;

    /// Goes on, for some seconds, restoring a corpus. To be called again until it is done; before that
    /// there is no such corpus.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] if there is a corpus of that name;
    /// [`crate::ErrorKind::NotFound`] if there is no such snapshot;
    /// [`crate::ErrorKind::WrongState`] if it is not whole, was made with another encoder or by a newer
    /// release; [`crate::ErrorKind::DataLoss`] if it is damaged.
    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error>;
}

/// What a search over all shards found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The best items, best first.
    pub evidence: Vec<Evidence>,
    /// Shards that did not answer.
    pub shards_missing: Vec<ShardIndex>,
    /// What it cost.
    pub cost: Cost,
}

/// Finds evidence in one corpus.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// The best evidence for `query`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] for a bad query; [`crate::ErrorKind::Unavailable`] when
    /// no shard answered; [`crate::ErrorKind::DeadlineExceeded`].
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error>;
}

/// A document with its text as one passage.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeDocument {
    /// The document.
    pub document: Document,
    /// All of its text.
    pub passage: Evidence,
}

/// Reads whole documents of one corpus. Each answer names the shards that should have been asked and did not answer;
/// that none did is an error.
#[async_trait]
pub trait Documents: Send + Sync {
    /// The documents of these ids, in no particular order. Those that are not there are left out.
    ///
    /// # Errors
    /// Those of the shards.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error>;

    /// Up to `limit` ids that begin with `prefix` and come after `after`, by id.
    ///
    /// # Errors
    /// As [`Self::documents`].
    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error>;
}

/// A language model, in this process or elsewhere.
#[async_trait]
pub trait Generator: Send + Sync {
    /// Which model this is.
    fn identity(&self) -> &GeneratorIdentity;

    /// How many tokens a text has; where the model's tokenizer is not at hand, at least about.
    fn count_tokens(&self, text: &str) -> u32;

    /// Has the model reply, and tells `heard` of the text as it comes. Dropping what this returns ends
    /// the work.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] for a request that no model can answer, or that is longer than
    /// the model's window; [`crate::ErrorKind::Exhausted`] when the queue is full, at once;
    /// [`crate::ErrorKind::DeadlineExceeded`]; [`crate::ErrorKind::Unavailable`] if the model cannot be
    /// reached or fails.
    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error>;
}

/// What is wanted of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// The answer to a question.
    #[default]
    Answer,
    /// A summary: what it is to be about is told, and may be everything.
    Summarise,
}

/// What compressed memories of a corpus do for an answer (MemoRAG). Where none may be asked, and for a summary, all are as
/// [`Self::Clues`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// They draft what to search for, and what is found is read: what the paper's figures are of.
    #[default]
    Clues,
    /// They also answer from memory: that is searched for as well, and the reader is told what the answer may be.
    Hint,
    /// Their own answer is told, as far as what is cited says it, too; else that of the reader.
    Answer,
}

/// What a reader is to make of what was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assignment<'a> {
    /// What is wanted.
    pub task: Task,
    /// The question, or what to summarise.
    pub question: &'a str,
    /// When it is asked, if that is known.
    pub asked_at: Option<Timestamp>,
    /// What was worked out on the way, if anything: it helps to understand, and is never cited.
    pub points: &'a [MemoryPoint],
    /// What was found, in the order of reading; how well each of it fits, its score tells.
    pub evidence: &'a [Evidence],
    /// How a language model reads it.
    pub reading: ReadingStrategy,
}

impl<'a> Assignment<'a> {
    /// To answer a question out of evidence.
    pub fn new(question: &'a str, evidence: &'a [Evidence]) -> Self {
        Self { question, evidence, ..Self::default() }
    }
}

/// What a reader made of evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Support for an answer, 0 to 1.
    pub confidence: f32,
    /// Least support at which the question counts as answered.
    pub threshold: f32,
    /// What the judgement rests on, for a person.
    pub rationale: String,
    /// The composed answer; empty when the support is below the threshold.
    pub text: String,
    /// Where its parts come from, in the order of the text.
    pub citations: Vec<Citation>,
    /// Sentences compared with the question.
    pub sentences: usize,
    /// What it cost.
    pub cost: Cost,
}

/// Performs the steps that need judgement: with prompts to a language model, or extractively.
#[async_trait]
pub trait Reasoner: Send + Sync {
    /// Judges whether the evidence supports what is wanted, and composes it.
    ///
    /// # Errors
    /// Those of the encoder or model behind it.
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error>;
}

/// Reads out of texts what trees and graphs are built of: with prompts to a language model, or
/// extractively. It computes and returns; what is kept is decided by who asks.
///
/// Calls may be repeated. A call is answered whole or not at all, so a caller chooses the size of what
/// it may have to ask again.
#[async_trait]
pub trait GraphBuilder: Send + Sync {
    /// A summary for each task, in order.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] for a task beyond the limits;
    /// [`crate::ErrorKind::Exhausted`] when the queue is full, at once;
    /// [`crate::ErrorKind::DeadlineExceeded`]; those of the model behind it.
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error>;

    /// The entities, relations and key phrases of each task's passage, in order.
    ///
    /// # Errors
    /// As [`Self::summarise`].
    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error>;
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}
