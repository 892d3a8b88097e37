//! The steps of judgement by which a question is turned into what to look for: clues out of what is known
//! at large (MemoRAG, sections 2.3 and 2.4), other wordings (HyDE, RQ-RAG), and the working memory of points
//! that says what it lacks (HGMem, sections 3.2 to 3.5).

use std::time::Instant;

use async_trait::async_trait;

use crate::{ClueQuery, Cost, Error, Evidence, Listener, Named, Navigator, Partial};

/// What to search for (MemoRAG, section 2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// Questions that say more exactly what is asked.
    pub queries: Vec<String>,
    /// What the answer may be made of, in words that the corpus may use. They need not be true.
    pub clues: Vec<String>,
    /// What a task without a question has to cover.
    pub key_points: Vec<String>,
    /// What memories answer by themselves, where they were asked to. Without evidence it is no answer.
    pub answers: Vec<String>,
}

/// How a question is put in other words (RQ-RAG: rewrite, decompose, disambiguate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewording {
    /// The same question as a search understands it best.
    Rewrite,
    /// The questions whose answers together answer it.
    Decompose,
    /// The questions that it may mean.
    Disambiguate,
}

/// A point of a working memory: a hyperedge over entities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoint {
    /// The entities that it is about.
    pub entities: Vec<String>,
    /// What it says of them.
    pub text: String,
}

/// What a working memory lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// Nothing: it resolves the question.
    Resolved,
    /// More about points: their indices, and what about each. Local investigation.
    Local(Vec<(usize, String)>),
    /// What no point is about. Global exploration.
    Global(Vec<String>),
}

/// What was found for a working memory to take in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The queries that were asked, oldest first.
    pub asked: Vec<String>,
    /// Relations between the entities that were found: head, words, tail; best first.
    pub relations: Vec<[String; 3]>,
    /// The passages that were found, best first.
    pub passages: Vec<Evidence>,
}

/// How a working memory changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointChanges {
    /// Points that say something else now; each at most once.
    pub updated: Vec<UpdatedPoint>,
    /// Points to insert.
    pub inserted: Vec<NewPoint>,
}

/// A point that says something else. Its entities stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatedPoint {
    /// Its index.
    pub point: usize,
    /// What it says now.
    pub text: String,
}

/// A point to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPoint {
    /// What it is about; not empty.
    pub entities: Vec<String>,
    /// What it says.
    pub text: String,
}

/// A point made of others; it is about all their entities (HGMem, equation 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPoint {
    /// Indices of the points that it is made of: two or more, ascending.
    pub points: Vec<usize>,
    /// What it says.
    pub text: String,
}

/// Says what to look for, with prompts to a language model, or extractively.
///
/// A model's reply that cannot be read is asked for again; after three in a row a step fails with the reason
/// `UNREADABLE_REPLY`.
#[async_trait]
pub trait Planner: Send + Sync {
    /// At most `most` queries and as many clues for a question, out of `outline`, what is known of the corpus
    /// at large (MemoRAG). `near` is what a search for the question found, best first.
    ///
    /// # Errors
    /// Those of the model or encoder behind it.
    async fn clues(
        &self,
        question: &str,
        outline: &str,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<(Clues, Cost), Error>;

    /// At most `most` points that a task without a question, such as a summary, has to cover (MemoRAG).
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn key_points(
        &self,
        task: &str,
        outline: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// A passage that could answer the question, as a document might have it: to be searched with, for what
    /// is like it, and never to be believed ("Precise Zero-Shot Dense Retrieval without Relevance Labels",
    /// HyDE, section 3). `near` is what a search for the question found, best first.
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn imagine(
        &self,
        question: &str,
        near: &[Evidence],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// At most `most` other wordings of the question, best first; none if there is nothing to say otherwise.
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn reword(
        &self,
        question: &str,
        how: Rewording,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Whether a working memory resolves the question, and at most `most` concerns if not (HGMem).
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn concerns(
        &self,
        question: &str,
        points: &[MemoryPoint],
        most: usize,
        deadline: Instant,
    ) -> Result<(Concerns, Cost), Error>;

    /// The query that settles a concern, other than those `asked` before (HGMem).
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn subquery(
        &self,
        question: &str,
        points: &[MemoryPoint],
        concern: &str,
        asked: &[String],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// What changes in a working memory by what was found (HGMem, update and insertion).
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn take_in(
        &self,
        question: &str,
        points: &[MemoryPoint],
        findings: &Findings,
        deadline: Instant,
    ) -> Result<(PointChanges, Cost), Error>;

    /// Points that belong together, and what they say as one (HGMem, merging).
    ///
    /// # Errors
    /// As [`Self::clues`].
    async fn merge(
        &self,
        question: &str,
        points: &[MemoryPoint],
        deadline: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error>;
}

/// What is known of a corpus at large by whoever has seen all of it, such as a model that keeps it compressed
/// (MemoRAG, section 2.2). It drafts what to search for; what it says is no answer without evidence.
#[async_trait]
pub trait Memory: Send + Sync {
    /// At most `most` queries and clues that help to answer a question, or key points that a summary of it has
    /// to cover, and answers where they are asked for; out of documents that the query's filter admits. `near` is what
    /// a search for the question found, best first. Shards whose parts are not among them are named.
    ///
    /// # Errors
    /// Those of the model or tree behind it.
    async fn clues(
        &self,
        query: &ClueQuery,
        near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<Partial<(Clues, Cost)>, Error>;
}

/// Performs all steps of judgement between what is said or asked and its evidence.
pub trait Guide: Navigator + Planner + Listener {}

impl<G: Navigator + Planner + Listener> Guide for G {}
