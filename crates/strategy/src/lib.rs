//! Strategies: ways of answering a question, one file each, that depend only on traits.
//!
//! ```text
//! question ─► strategy ─► search, tree, graph, memory ─► evidence ─► reader ─► answer
//!                ▲   │                                      │
//!                │   └─► trace, as it works                 │
//!                └──────────── what is still missing ◄──────┘
//! ```
//!
//! A strategy sees [`Seams`], never a table, a model or a network. To add one, write a file beside
//! [`direct`](crate::Direct) and list it in [`STRATEGIES`].

mod admitted;
mod baseline;
#[cfg(test)]
mod case_studies;
mod catalogue;
mod chat;
mod direct;
mod hgmem;
mod linked;
mod memwalker;
mod pool;
mod qrmem;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree_memory;
mod work;

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Answer, ChatSettings, Documents, Encoder, Error, Filter, GraphBuilder, GraphMemory, Memory,
    MemoryUse, Navigator, Planner, Reasoner, Retriever, Task, TimeRange, Timestamp, TraceEvent,
    Tree,
};

pub use baseline::{
    FullContext, GraphWalk, Hyde, Iterative, MemoRag, Naive, RecurrentSummary, Rewrite, Route,
    SummaryLevels,
};
pub use catalogue::{RequiredData, STRATEGIES, StrategyEntry, find};
pub use chat::Chat;
pub use direct::Direct;
pub use hgmem::HgMem;
pub use linked::{COSINE_SHARE, HUB_SEGMENTS, LINK_WEIGHT, Linked, MOST_SOURCES, NAMED_BONUS};
pub use memwalker::{
    BEAM_WIDTH, MAX_EXPANDED, MAX_GROUPED, MAX_SHOWN, MAX_STEPS, MEMORY_BYTES, MemWalker,
};
pub use qrmem::{
    EDGE_THRESHOLD, MAX_DESCRIPTIONS, MAX_EXPANSIONS, MAX_FULL, MAX_FUSED, MAX_READ,
    MAX_READ_BYTES, MAX_TRIALS, QrmemEntity, QrmemExpand, QrmemReflect, SEGMENTS_PER_ENTITY,
    WINDOW_BYTES,
};
pub use tree_memory::TreeMemory;

/// Question as a strategy gets it.
#[derive(Clone, Debug)]
pub struct Question {
    /// Text of the question, or a description of what to summarise.
    pub text: String,
    /// Task: an answer or a summary.
    pub task: Task,
    /// Time at which it is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Maximum number of passages to read; `None` for the strategy's default.
    pub k: Option<usize>,
    /// Maximum number of tokens of the passages to read, as the corpus' encoder counts them. At
    /// least one passage is read. A tree walk reads as it goes and ends when it has read that many
    /// tokens.
    pub evidence_tokens: Option<usize>,
    /// Filter for the documents that may be found.
    pub filter: Filter,
    /// Use of a corpus' memories for an answer, in strategies that ask memories.
    pub memory_use: MemoryUse,
    /// Settings for recalling conversations and for reading what is found.
    pub chat: ChatSettings,
    /// Time range that the question asks about, if already inferred.
    pub range: Option<TimeRange>,
    /// Instant by which the answer must be there.
    pub deadline: Instant,
}

impl Question {
    /// Creates a question about the whole corpus without limits of its own.
    pub fn new(text: impl Into<String>, deadline: Instant) -> Self {
        Self {
            text: text.into(),
            task: Task::default(),
            asked_at: None,
            k: None,
            evidence_tokens: None,
            filter: Filter::default(),
            memory_use: MemoryUse::default(),
            chat: ChatSettings::default(),
            range: None,
            deadline,
        }
    }
}

/// Traits through which a strategy works.
#[derive(Clone, Copy)]
pub struct Seams<'a> {
    /// Finds evidence.
    pub retriever: &'a dyn Retriever,
    /// Reads whole documents.
    pub documents: &'a dyn Documents,
    /// Judges evidence and writes answers.
    pub reasoner: &'a dyn Reasoner,
    /// Tree of summaries of the corpus.
    pub tree: &'a dyn Tree,
    /// Graph of entities of the corpus.
    pub graph: &'a dyn GraphMemory,
    /// Decides where to go in the tree and the graph.
    pub navigator: &'a dyn Navigator,
    /// Plans what to look for.
    pub planner: &'a dyn Planner,
    /// General knowledge of the corpus.
    pub memory: &'a dyn Memory,
    /// Encoder of the corpus, for comparing texts by meaning.
    pub encoder: &'a dyn Encoder,
    /// Extracts entities and relations from passages while a question waits.
    pub graph_builder: &'a dyn GraphBuilder,
}

/// Observer of a strategy at work.
pub trait AnswerObserver: Send + Sync {
    /// Reports a step.
    fn trace(&self, event: TraceEvent);

    /// Reports the next piece of the answer's text.
    fn text(&self, delta: &str);
}

/// Way of answering questions.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// Returns the name by which callers choose the strategy.
    fn name(&self) -> &'static str;

    /// Answers `question`.
    ///
    /// # Errors
    /// Returns the errors of the traits that it uses. If nothing supports an answer, that is an
    /// outcome, not an error.
    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error>;
}
