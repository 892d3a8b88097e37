//! Trait of whoever reads evidence and answers.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Citation, Cost, Error, Evidence, MemoryPoint, ReadingStrategy, Task, Timestamp};

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
