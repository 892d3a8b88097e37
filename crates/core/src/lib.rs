//! Domain types and the traits between the crates of Clew.
//!
//! Ids, documents, turns, chunks, queries, evidence and answers are plain values. The other crates
//! call each other through traits:
//!
//! - models: [`Encoder`], [`Encoders`], [`Generator`], [`Reranker`],
//!   [`SpanReader`] and [`MemoryEncoder`]
//! - storage: [`Corpora`], [`Shard`] with its parts [`ShardStore`], [`ShardSearch`] and
//!   [`ShardAdmin`], [`Retriever`], [`Documents`], [`Tree`], [`GraphMemory`] and [`KeptMemory`]
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
mod attribute;
mod chat;
mod chunk;
mod clock;
mod clock_offset;
mod clues;
mod condition;
mod corpus;
mod cost;
mod document;
mod document_range;
mod encoder;
mod encoder_identity;
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
mod memory_point;
mod memory_settings;
mod navigation;
mod partial;
pub mod placement;
mod planning;
mod query;
mod reasoner;
mod recipe;
mod reembedding;
mod reranking;
mod run;
mod seam;
mod settings;
mod shape;
mod shard;
mod signs;
mod snapshot;
mod span;
mod span_reader;
mod task;
mod time;
mod tree;

pub use access::{Access, Label, Labels};
pub use account::{Account, GraphBuilders, Owner, Reasoners};
pub use answer::{Answer, Citation, Outcome, PointFate, PointState, Timing, TraceEvent};
pub use attribute::{
    AttributeName, AttributeValue, Attributes, FiniteNumber, SOURCE_ATTRIBUTE, URL_ATTRIBUTE,
};
pub use chat::kept::{TurnAddress, turn_filter};
pub use chat::key_design::{Expansion, KeyDesign, KeyPart, check_keys};
pub use chat::recalled::{Item, Recall, Recalled};
pub use chat::settings::{
    ChatChoice, ChatSettings, History, KeyMerging, Notes, PassageLayout, ReadingStrategy, TimeUse,
    Value,
};
pub use chat::statement::{Statement, Update};
pub use chat::turn::{SpeakerRole, Turn, TurnId};
pub use chunk::{Chunk, ChunkId};
pub use clock::{Clock, SystemClock};
pub use clock_offset::ClockOffset;
pub use clues::{ClueQuery, Clues, DraftTask, DraftedClues};
pub use condition::{AttributeTest, Condition};
pub use corpus::{Corpus, CorpusEntry, Unusable};
pub use cost::Cost;
pub use document::{ContentHash, Delivery, Document, MediaType, SourceVersion, Version};
pub use document_range::DocumentRange;
pub use encoder::{Embedding, Encoder, Encoders, OneEncoder, Priority, TextKind};
pub use encoder_identity::EncoderIdentity;
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
    COUNTED_BYTES, FormTask, FormedMemory, KeptMemory, ListedMemories, MemoryEncoder,
    MemoryFailure, MemoryModelIdentity, MemoryPart, MemoryRecord, MemoryText, NoMemoryModel,
    SNAPSHOT_BYTES, check_counted, kept_slots, ready_bytes,
};
pub use memory_graph::{
    EntityKey, EntityNode, GraphMemory, GraphQuery, RelationEdge, SegmentId, Subgraph,
};
pub use memory_point::MemoryPoint;
pub use memory_settings::MemorySettings;
pub use navigation::{
    ChildChoice, EntityChoice, LeafReading, Named, Navigator, Reflection, Triage, TriageStep,
};
pub use partial::{Partial, unanswered};
pub use planning::{
    Concerns, Findings, Guide, Memory, MergedPoint, NewPoint, Planner, PointChanges, Rewording,
    UpdatedPoint,
};
pub use query::{Evidence, Filter, Grouping, Query, SearchMode, TimeRange};
pub use reasoner::{Assignment, Reading, Reasoner};
pub use recipe::{Recipe, Recipes};
pub use reembedding::{ReembedPhase, ReembedStep, Reembedded, Reembedding};
pub use reranking::{NoReranker, Reranker, Scored};
pub use run::{
    IngestRun, MOST_RUN_PARTS, PartReport, PartStage, RUN_NOT_FOUND, RunCounts, RunEntry, RunName,
    RunPage, RunPart, RunPlace, RunSpan, RunStage, RunSummary, Unfinished,
};
pub use seam::corpora::Corpora;
pub use seam::generator::{Generator, GraphBuilder};
pub use seam::retriever::{Documents, Retrieved, Retriever, WholeDocument};
pub use seam::shard::{Accepting, Shard, ShardAdmin, ShardSearch, ShardStore};
pub use settings::{Chunking, CorpusSettings};
pub use shape::{CorpusTree, CorpusTreeNode, DocumentShape};
pub use shard::{
    Accepted, Breach, CandidateQuery, Candidates, CheckQuery, Checked, ChunkKind, ChunkListQuery,
    ChunkRef, ChunkText, ConversationQuery, Counts, DescribedDocument, DocumentState,
    DocumentStatus, Erasure, ErasureScan, ExportPage, ExportedRows, FailureStatus, Forgotten, Hit,
    HoldingSnapshot, IfThere, Invariant, Leftover, ListQuery, ListedChunk, ListedChunks, Novelty,
    SearchedView, Selection, Stage, StoredDocument, StoredTurns, ViewName,
};
pub use signs::{EntityVectors, Like, Signs, cosine_of_signs, signs_apart};
pub use snapshot::{
    Copied, DeletionStep, Restoration, RestoreStep, ShardCopy, SnapshotDeletion, SnapshotName,
    SnapshotRetention, SnapshotSummary,
};
pub use span::Span;
pub use span_reader::{FoundSpan, NoReader, PassageRead, PassagesRead, ReadPassage, SpanReader};
pub use task::{MemoryUse, Task};
pub use time::Timestamp;
pub use tree::{
    CorpusTreeKey, StructureSettings, Tree, TreeNode, TreeNodeId, TreeQuery, WantedNodes,
};
