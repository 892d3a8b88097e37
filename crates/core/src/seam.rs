//! The traits between crates: each has at least two real implementations.

use std::time::Instant;

use async_trait::async_trait;

use crate::answer::Cost;
use crate::{Citation, EncoderIdentity, Error, Evidence, Query, ShardIndex, Span, Timestamp};

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
    /// Judges whether `evidence` supports an answer to `question`, and composes it.
    ///
    /// # Errors
    /// Those of the encoder or model behind it.
    async fn read(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reading, Error>;
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
