//! Implementation of the core's planner: each step is an act.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Clues, Concerns, Cost, Error, Evidence, Findings, MemoryPoint, MergedPoint, Named, Planner,
    PointChanges, Rewording,
};

use super::reader::{ranked, shown};
use super::{
    Act, AskSubquery, ImaginePassage, ListKeyPoints, MergePoints, Passage, Prompted, ProposeClues,
    RaiseConcerns, Reword, UpdatePoints,
};

impl Prompted {
    /// Performs an act, and returns its result with the cost.
    pub(super) async fn alone<A: Act>(
        &self,
        act: &A,
        deadline: Instant,
    ) -> Result<(A::Output, Cost), Error> {
        let ledger = self.ledger();
        let done = self.perform(act, deadline, &ledger).await?;
        Ok((done, ledger.cost()))
    }

    pub(super) async fn named<A: Act<Output = Vec<String>>>(
        &self,
        act: &A,
        deadline: Instant,
    ) -> Result<Named, Error> {
        let (texts, cost) = self.alone(act, deadline).await?;
        Ok(Named { texts, cost })
    }
}

/// Each call is charged to the account. If there is nothing to ask about, the model is not called.
#[async_trait]
impl Planner for Prompted {
    /// Performs [`ProposeClues`] without the passages near the question: clues are to come from an
    /// overview of the corpus, not from one search's view of it.
    async fn clues(
        &self,
        question: &str,
        outline: &str,
        _near: &[Evidence],
        most: usize,
        deadline: Instant,
    ) -> Result<(Clues, Cost), Error> {
        let (question, memory) = (question.to_owned(), outline.to_owned());
        self.alone(&ProposeClues { question, memory, most: most.max(1) }, deadline).await
    }

    async fn key_points(
        &self,
        task: &str,
        outline: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error> {
        let (task, memory) = (task.to_owned(), outline.to_owned());
        self.named(&ListKeyPoints { task, memory, most: most.max(1) }, deadline).await
    }

    async fn imagine(
        &self,
        question: &str,
        near: &[Evidence],
        deadline: Instant,
    ) -> Result<Named, Error> {
        let near = ranked(near).into_iter().map(shown).collect();
        let act = ImaginePassage { question: question.to_owned(), near };
        let (passage, cost) = self.alone(&act, deadline).await?;
        Ok(Named { texts: vec![passage], cost })
    }

    async fn reword(
        &self,
        question: &str,
        how: Rewording,
        most: usize,
        deadline: Instant,
    ) -> Result<Named, Error> {
        let act = Reword { question: question.to_owned(), how, most: most.max(1) };
        self.named(&act, deadline).await
    }

    /// Performs [`RaiseConcerns`]. A memory without points resolves nothing, so the question itself
    /// is returned as the concern.
    async fn concerns(
        &self,
        question: &str,
        points: &[MemoryPoint],
        most: usize,
        deadline: Instant,
    ) -> Result<(Concerns, Cost), Error> {
        if points.is_empty() {
            return Ok((Concerns::Global(vec![question.to_owned()]), Cost::default()));
        }
        let (question, points) = (question.to_owned(), points.to_vec());
        self.alone(&RaiseConcerns { question, points, most: most.max(1) }, deadline).await
    }

    async fn subquery(
        &self,
        question: &str,
        points: &[MemoryPoint],
        concern: &str,
        asked: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        let act = AskSubquery {
            question: question.to_owned(),
            points: points.to_vec(),
            concern: concern.to_owned(),
            asked: asked.to_vec(),
        };
        let (query, cost) = self.alone(&act, deadline).await?;
        Ok(Named { texts: vec![query], cost })
    }

    async fn take_in(
        &self,
        question: &str,
        points: &[MemoryPoint],
        findings: &Findings,
        deadline: Instant,
    ) -> Result<(PointChanges, Cost), Error> {
        if findings.relations.is_empty() && findings.passages.is_empty() {
            return Ok(Default::default());
        }
        let known = findings.relations.iter().map(|[head, words, tail]| Passage {
            title: head.clone(),
            text: format!("{head} {words} {tail}"),
            ..Passage::default()
        });
        let act = UpdatePoints {
            question: question.to_owned(),
            points: points.to_vec(),
            asked: findings.asked.clone(),
            known: known.collect(),
            found: findings.passages.iter().map(shown).collect(),
        };
        self.alone(&act, deadline).await
    }

    async fn merge(
        &self,
        question: &str,
        points: &[MemoryPoint],
        deadline: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error> {
        if points.len() < 2 {
            return Ok(Default::default());
        }
        let act = MergePoints { question: question.to_owned(), points: points.to_vec() };
        self.alone(&act, deadline).await
    }
}
