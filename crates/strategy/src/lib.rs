//! Ways of answering a question, one file each, pure over the seams.
//!
//! A strategy sees [`Seams`], never a table, a model or a network. To add one, write a file beside
//! [`direct`](crate::Direct) and name it in [`STRATEGIES`].

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
pub use catalogue::{Listed, Needs, STRATEGIES, find};
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

/// A question as it is put to a strategy.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question, or what to summarise.
    pub text: String,
    /// What is wanted.
    pub task: Task,
    /// When it is asked, if that is known.
    pub asked_at: Option<Timestamp>,
    /// Most passages read; `None` for the strategy's default.
    pub k: Option<usize>,
    /// Most tokens of the passages that are read, as the corpus' encoder counts them; at least one passage is
    /// read. A walk of a tree reads as it goes, and ends when it has read as many.
    pub evidence_tokens: Option<usize>,
    /// What may be found.
    pub filter: Filter,
    /// What memories of the corpus do for an answer, in strategies that ask them.
    pub memory_use: MemoryUse,
    /// How conversations are recalled, and how what is found is read.
    pub chat: ChatSettings,
    /// The time that it asks about, if somebody has inferred it already.
    pub range: Option<TimeRange>,
    /// When the answer must be there.
    pub deadline: Instant,
}

impl Question {
    /// A question about everything, without limits of its own.
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

/// What a strategy works with.
#[derive(Clone, Copy)]
pub struct Seams<'a> {
    /// Finds evidence.
    pub retriever: &'a dyn Retriever,
    /// Reads whole documents.
    pub documents: &'a dyn Documents,
    /// Judges and composes.
    pub reasoner: &'a dyn Reasoner,
    /// The corpus' tree of summaries.
    pub tree: &'a dyn Tree,
    /// Its graph of entities.
    pub graph: &'a dyn GraphMemory,
    /// Decides where to go in them.
    pub navigator: &'a dyn Navigator,
    /// Says what to look for.
    pub planner: &'a dyn Planner,
    /// What is known of the corpus at large.
    pub memory: &'a dyn Memory,
    /// The corpus' encoder, to compare texts by meaning.
    pub encoder: &'a dyn Encoder,
    /// Reads entities and relations out of passages while a question waits.
    pub graph_builder: &'a dyn GraphBuilder,
}

/// Where a strategy shows its work while it goes on.
pub trait Progress: Send + Sync {
    /// A step was taken.
    fn trace(&self, event: TraceEvent);

    /// The next piece of the answer's text is there.
    fn text(&self, delta: &str);
}

/// A way of answering.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// The name by which callers choose it.
    fn name(&self) -> &'static str;

    /// Answers `question`.
    ///
    /// # Errors
    /// Those of the seams. That nothing supports an answer is an outcome, not an error.
    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn Progress,
    ) -> Result<Answer, Error>;
}
