//! Steps of judgement that turn a question into texts to search for: clues from general knowledge
//! of the corpus (MemoRAG, sections 2.3 and 2.4), other wordings (HyDE, RQ-RAG), and a working
//! memory of points that says what it lacks (HGMem, sections 3.2 to 3.5).

use std::time::Instant;

use async_trait::async_trait;

use crate::{
    ClueQuery, Clues, Cost, Error, Evidence, Listener, MemoryPoint, Named, Navigator, Partial,
};

/// Way of rewording a question (RQ-RAG: rewrite, decompose, disambiguate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewording {
    /// The same question, worded as a search understands it best.
    Rewrite,
    /// Questions whose answers together answer it.
    Decompose,
    /// Questions that it may mean.
    Disambiguate,
}

/// Concerns about a working memory: what it lacks to resolve the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// None: it resolves the question.
    Resolved,
    /// Indices of points about which more is needed, each with what is needed. Local investigation.
    Local(Vec<(usize, String)>),
    /// Subjects that no point covers. Global exploration.
    Global(Vec<String>),
}

/// Findings for a working memory to take in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The queries that were asked, oldest first.
    pub asked: Vec<String>,
    /// Relations between the entities that were found, each as head, words and tail; best first.
    pub relations: Vec<[String; 3]>,
    /// Passages that were found, best first.
    pub passages: Vec<Evidence>,
}

/// Changes of a working memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointChanges {
    /// Points with a new statement, each at most once.
    pub updated: Vec<UpdatedPoint>,
    /// Points to insert.
    pub inserted: Vec<NewPoint>,
}

/// Point with a new statement. Its entities stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatedPoint {
    /// Index of the point.
    pub point: usize,
    /// New statement.
    pub text: String,
}

/// Point to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPoint {
    /// Entities that it is about; not empty.
    pub entities: Vec<String>,
    /// Statement about them.
    pub text: String,
}

/// Point merged from others; it is about all their entities (HGMem, equation 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPoint {
    /// Indices of the points that were merged: two or more, ascending.
    pub points: Vec<usize>,
    /// Statement of the merged point.
    pub text: String,
}

/// Planner of searches, by prompts to a language model or extractively.
///
/// A model's reply that cannot be parsed is requested again. After three in a row the step fails
/// with the reason `UNREADABLE_REPLY`.
#[async_trait]
pub trait Planner: Send + Sync {
    /// Drafts at most `most` queries and as many clues for a question from `outline`, general
    /// knowledge of the corpus (MemoRAG). `near` holds what a search for the question found, best
    /// first.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn clues(
        &self,
        question: &str,
        outline: &str,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<(Clues, Cost), Error>;

    /// Drafts at most `most` points that a task without a question, such as a summary, has to cover
    /// (MemoRAG).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn key_points(
        &self,
        task: &str,
        outline: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Drafts a passage that could answer the question, in the style of a document. It is only used
    /// to search for similar passages and must never be believed ("Precise Zero-Shot Dense
    /// Retrieval without Relevance Labels", HyDE, section 3). `near` holds what a search for the
    /// question found, best first.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn imagine(
        &self,
        question: &str,
        near: &[Evidence],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Drafts at most `most` other wordings of the question, best first; none if there is no other.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn reword(
        &self,
        question: &str,
        how: Rewording,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Judges whether a working memory resolves the question, and returns at most `most` concerns
    /// if it does not (HGMem).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn concerns(
        &self,
        question: &str,
        points: &[MemoryPoint],
        most: usize,
        deadline: Instant,
    ) -> Result<(Concerns, Cost), Error>;

    /// Drafts a query that settles a concern, other than those `asked` before (HGMem).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn subquery(
        &self,
        question: &str,
        points: &[MemoryPoint],
        concern: &str,
        asked: &[String],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Decides how a working memory changes with what was found (HGMem, update and insertion).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn take_in(
        &self,
        question: &str,
        points: &[MemoryPoint],
        findings: &Findings,
        deadline: Instant,
    ) -> Result<(PointChanges, Cost), Error>;

    /// Finds points that belong together and states what they say as one (HGMem, merging).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn merge(
        &self,
        question: &str,
        points: &[MemoryPoint],
        deadline: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error>;
}

/// General knowledge of a corpus by something that has seen all of it, such as a model that keeps
/// it compressed (MemoRAG, section 2.2). It drafts what to search for. What it says is no answer
/// without evidence.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Drafts at most `most` queries and clues for a question, or key points for a summary, and
    /// answers if they are wanted. It uses only documents that the query's filter admits. `near`
    /// holds what a search for the question found, best first. The result names the shards that
    /// should have contributed and did not.
    ///
    /// # Errors
    /// Returns the errors of the model or tree behind it.
    async fn clues(
        &self,
        query: &ClueQuery,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<Partial<(Clues, Cost)>, Error>;
}

/// Judge for all steps between what is said or asked and its evidence.
pub trait Guide: Navigator + Planner + Listener {}

impl<G: Navigator + Planner + Listener> Guide for G {}
