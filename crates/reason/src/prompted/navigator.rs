//! Implementation of the core's navigator: each step is an act, and quotes are located here.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ChildChoice, Cost, EntityChoice, Error, Evidence, LeafReading, Named, Navigator, Reading,
    Reflection, Triage,
};

use super::reader::{NOTHING_TO_READ, citation, confidence, ranked, reading, shown};
use super::{
    ChooseChild, ChooseEntities, ElaborateQuery, JudgeEvidence, LeafStep, MergeDescriptions,
    NameEntities, Prompted, ReadLeaf,
};
use crate::extractive::check_spans;

/// Maximum number of queries that a question is elaborated into.
const MAX_QUERIES: usize = 3;

/// Each call is charged to the account. If there is nothing to ask about, the model is not called.
#[async_trait]
impl Navigator for Prompted {
    /// Performs [`ChooseChild`]. The search results are not shown to the model, which has to reason
    /// from the summaries.
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error> {
        choice.check()?;
        let act = ChooseChild {
            question: choice.question.clone(),
            memory: choice.memory.clone(),
            summaries: choice.summaries.clone(),
            may_turn_back: choice.may_turn_back,
        };
        let ledger = self.ledger();
        let triage = self.perform(&act, deadline, &ledger).await?;
        Ok(Triage { cost: ledger.cost(), ..triage })
    }

    /// Performs [`ReadLeaf`]. An answer cites the quoted words, or the whole leaf if it does not
    /// contain them. The confidence is 1 or 0.5 accordingly, by the rule of [`Prompted`]'s reader.
    ///
    /// # Errors
    /// Returns the errors of [`Prompted::perform`], and [`clew_core::ErrorKind::Internal`] if the
    /// leaf's text is not as long as its span.
    async fn read_leaf(
        &self,
        question: &str,
        memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error> {
        check_spans(std::slice::from_ref(leaf))?;
        if leaf.text.trim().is_empty() {
            let reasoning = NOTHING_TO_READ.to_owned();
            return Ok(LeafReading { reasoning, answer: None, cost: Cost::default() });
        }
        let act =
            ReadLeaf { question: question.to_owned(), memory: memory.to_vec(), leaf: shown(leaf) };
        let ledger = self.ledger();
        let verdict = self.perform(&act, deadline, &ledger).await?;
        let (reasoning, cost) = (verdict.reasoning, ledger.cost());
        let answer = match verdict.step {
            LeafStep::TurnBack => None,
            LeafStep::Answer { text, quote } => {
                let (citation, is_true) = citation(&quote, leaf);
                let confidence = confidence(usize::from(is_true), 1);
                let citations = vec![citation];
                Some(Reading { text, citations, ..reading(confidence, reasoning.clone(), cost) })
            }
        };
        Ok(LeafReading { reasoning, answer, cost })
    }

    /// Performs [`JudgeEvidence`] on the evidence, best first, as much as fits the model's window.
    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error> {
        let passages: Vec<_> = ranked(evidence).into_iter().map(shown).collect();
        if passages.is_empty() {
            return Ok(Reflection {
                reasoning: NOTHING_TO_READ.to_owned(),
                suffices: false,
                missing: String::new(),
                cost: Cost::default(),
            });
        }
        let act = JudgeEvidence { question: question.to_owned(), passages };
        let ledger = self.ledger();
        let reflection = self.perform(&act, deadline, &ledger).await?;
        Ok(Reflection { cost: ledger.cost(), ..reflection })
    }

    /// Performs [`NameEntities`] on the question.
    async fn name_entities(&self, question: &str, deadline: Instant) -> Result<Named, Error> {
        if question.trim().is_empty() {
            return Ok(Named::default());
        }
        let act = NameEntities { text: question.to_owned(), ..NameEntities::default() };
        let ledger = self.ledger();
        let entities = self.perform(&act, deadline, &ledger).await?;
        let texts = entities.into_iter().map(|entity| entity.name).collect();
        Ok(Named { texts, cost: ledger.cost() })
    }

    /// Performs [`ChooseEntities`].
    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error> {
        choice.check()?;
        let act = ChooseEntities {
            question: choice.question.clone(),
            reason: choice.reason.clone(),
            known: choice.known.clone(),
            candidates: choice.candidates.clone(),
            most: choice.most,
        };
        let ledger = self.ledger();
        let chosen = self.perform(&act, deadline, &ledger).await?;
        Ok((chosen, ledger.cost()))
    }

    /// Performs [`ElaborateQuery`], for at most three queries.
    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        if relations.is_empty() {
            return Ok(Named { texts: vec![question.to_owned()], cost: Cost::default() });
        }
        let act = ElaborateQuery {
            question: question.to_owned(),
            relations: relations.to_vec(),
            most: MAX_QUERIES,
        };
        let ledger = self.ledger();
        let texts = self.perform(&act, deadline, &ledger).await?;
        Ok(Named { texts, cost: ledger.cost() })
    }

    /// Performs [`MergeDescriptions`] if there are several.
    async fn fuse(
        &self,
        question: &str,
        subject: &str,
        descriptions: &[String],
        deadline: Instant,
    ) -> Result<(String, Cost), Error> {
        if let [] | [_] = descriptions {
            return Ok((descriptions.concat(), Cost::default()));
        }
        let act = MergeDescriptions {
            subject: subject.to_owned(),
            descriptions: descriptions.to_vec(),
            question: question.to_owned(),
        };
        let ledger = self.ledger();
        let text = self.perform(&act, deadline, &ledger).await?;
        Ok((text, ledger.cost()))
    }
}
