//! Domain types and the traits between the crates of Clew.
//!
//! Ids, documents, chunks, queries, evidence and answers are plain values. The other crates call
//! each other through traits:
//!
//! - models: [`Encoder`], [`Encoders`], [`Generator`], [`Reranker`] and [`MemoryEncoder`]
//! - storage: [`Corpora`], [`Shard`], [`Retriever`], [`Documents`], [`Tree`], [`GraphMemory`] and
//!   [`KeptMemory`]
//! - judgement: [`Reasoner`], [`Navigator`], [`Planner`], [`Listener`], [`Guide`], [`Memory`] and
//!   [`GraphBuilder`]
//! - accounts: [`Reasoners`] and [`GraphBuilders`], which give each question its own reasoner and
//!   graph builder that work on its [`Account`]
//! - time: [`Clock`]
//!
//! The crate does no input or output and knows no storage engine, tensor library or network. Only
//! [`SystemClock`] reads a clock.

mod access;
mod account;
pub mod answer;
mod chat;
mod chunk;
mod clock_offset;
mod corpus;
mod document;
mod error;
pub mod fusion;
mod generation;
mod graph;
mod id;
mod judging;
mod ledger;
mod limits;
mod listening;
mod memorising;
mod memory_graph;
mod navigation;
mod partial;
pub mod placement;
mod planning;
mod query;
mod reembedding;
mod reranking;
mod seam;
mod settings;
mod shape;
mod shard;
mod signs;
mod snapshot;
mod span;
mod time;
mod tree;

pub use access::{Access, Label, Labels};
pub use account::{Account, GraphBuilders, Owner, Reasoners};
pub use answer::{
    Answer, Citation, Cost, Outcome, Place, PointFate, PointState, Timing, TraceEvent,
};
pub use chat::{
    ChatChoice, ChatSettings, History, Layout, Merging, Notes, ReadingStrategy, TimeUse, Value,
};
pub use chunk::{Chunk, ChunkId};
pub use clock_offset::ClockOffset;
pub use corpus::{Corpus, Listed, Unusable};
pub use document::{AttributeName, Attributes, ContentHash, Document, MediaType, Version};
pub use error::{BUDGET_SPENT, Error, ErrorKind, Violation, Violations};
pub use generation::{
    ChatMessage, ChatRole, Finish, Generated, GenerationRequest, GeneratorIdentity, Heard,
    ReplyFormat, Sampling, Usage,
};
pub use graph::{
    Entity, EntityKind, Extraction, ExtractionTask, Quote, Relation, Summary, SummaryLevel,
    SummaryTask,
};
pub use id::{CorpusName, DocumentId, ShardIndex, TenantName};
pub use judging::{GradingRule, JudgeTask, Judging, Verdict};
pub use ledger::{Budget, Call, Ledger, Loan, Spent};
pub use limits::Limits;
pub use listening::Listener;
pub use memorising::{
    COUNTED_BYTES, ClueQuery, DraftTask, DraftedClues, FormTask, FormedMemory, KeptMemory,
    MemoryEncoder, MemoryModelIdentity, MemoryPart, MemoryRecord, MemorySettings, MemoryText,
    NoMemoryModel, SNAPSHOT_BYTES, check_counted, kept_slots,
};
pub use memory_graph::{
    EntityKey, EntityNode, GraphMemory, GraphQuery, RelationEdge, SegmentId, Subgraph,
};
pub use navigation::{
    ChildChoice, EntityChoice, LeafReading, Named, Navigator, Reflection, Triage, TriageStep,
};
pub use partial::{Partial, unanswered};
pub use planning::{
    Clues, Concerns, Findings, Guide, Memory, MemoryPoint, MergedPoint, NewPoint, Planner,
    PointChanges, Rewording, UpdatedPoint,
};
pub use query::{Evidence, Filter, Grouping, Query, SearchMode, TimeRange};
pub use reembedding::{Phase, ReembedStep, Reembedded, Reembedding};
pub use reranking::{NoReranker, Reranker, Scored};
pub use seam::{
    Accepting, Assignment, Clock, Corpora, Documents, Embedding, Encoder, Encoders, Generator,
    GraphBuilder, MemoryUse, OneEncoder, Priority, Reading, Reasoner, Retrieved, Retriever, Shard,
    SystemClock, Task, TextKind, WholeDocument,
};
pub use settings::{Chunking, CorpusSettings, EncoderIdentity, Recipe, Recipes};
pub use shape::{DocumentShape, UpperNode, UpperTree};
pub use shard::{
    Accepted, Breach, CandidateQuery, Candidates, CheckQuery, Checked, Counts, DocumentState,
    DocumentStatus, Erasure, ErasureScan, ExportPage, ExportedRows, FailureStatus, Forgotten, Hit,
    HoldingSnapshot, IfThere, Invariant, Leftover, ListQuery, Novelty, Stage, StoredDocument,
};
pub use signs::{EntityVectors, Like, Signs, cosine_of_signs, signs_apart};
pub use snapshot::{
    Copied, DeletionStep, Restoration, RestoreStep, ShardCopy, SnapshotDeletion, SnapshotName,
    SnapshotRetention, SnapshotSummary,
};
pub use span::Span;
pub use time::Timestamp;
pub use tree::{NodeId, StructureSettings, Tree, TreeNode, TreeQuery, UpperKey};
