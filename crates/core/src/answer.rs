//! Answers that show their work: what was found, what was judged, what it cost.

use std::time::Duration;

use crate::{DocumentId, SearchMode, ShardIndex, Span, Version};

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is supported by its citations.
    Answered,
    /// Nothing that was found supports an answer.
    NotInMemory,
    /// Answered, but these shards could not be asked.
    AnsweredWithShardsMissing(Vec<ShardIndex>),
}

/// Where a part of an answer comes from: a quoted byte range of a stored document.
#[derive(Clone, Debug, PartialEq)]
pub struct Citation {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Its title; may be empty.
    pub title: String,
    /// Byte range of the document's text.
    pub span: Span,
    /// The text of that range.
    pub quote: String,
}

/// One step of answering.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// Shards were searched.
    Searched {
        /// The words searched for.
        query: String,
        /// How.
        mode: SearchMode,
        /// Items found.
        hits: usize,
        /// The best item's cosine similarity, where embeddings were compared.
        best_dense_score: Option<f32>,
        /// How long it took.
        took: Duration,
    },
    /// It was judged whether what was found supports an answer.
    Judged {
        /// Support, 0 to 1.
        confidence: f32,
        /// Least support at which a question counts as answered.
        threshold: f32,
        /// What the judgement rests on, for a person.
        rationale: String,
    },
    /// The answer was composed from passages.
    Read {
        /// Passages looked at.
        passages: usize,
        /// Sentences compared with the question.
        sentences: usize,
        /// How long it took.
        took: Duration,
    },
}

/// What answering cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens that were embedded.
    pub embedded_tokens: u64,
    /// Calls of a language model.
    pub model_calls: u64,
    /// Tokens sent to language models.
    pub prompt_tokens: u64,
    /// Tokens received from language models.
    pub completion_tokens: u64,
    /// Shards that were asked.
    pub shards_searched: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.embedded_tokens += other.embedded_tokens;
        self.model_calls += other.model_calls;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.shards_searched += other.shards_searched;
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer's text; empty if the outcome is [`Outcome::NotInMemory`].
    pub text: String,
    /// Where its parts come from, in the order of the text.
    pub citations: Vec<Citation>,
    /// What it cost.
    pub cost: Cost,
}
