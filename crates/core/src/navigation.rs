//! The steps of judgement by which a tree and a graph are walked.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Cost, Error, Evidence, Reading, Violations};

/// What is seen at a node of a tree: where to go on?
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildChoice {
    /// The question.
    pub question: String,
    /// What was read on the way here, oldest first: the working memory.
    pub memory: Vec<String>,
    /// The summaries of the children that may be entered. At least one.
    pub summaries: Vec<String>,
    /// For each child, how well the best passage that it covers was found by a search for the question,
    /// 0 to 1; empty where nothing was searched.
    pub found: Vec<f32>,
    /// Whether there is anywhere to turn back to.
    pub may_turn_back: bool,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Triage {
    /// Why.
    pub reasoning: String,
    /// Where.
    pub step: TriageStep,
    /// What it cost.
    pub cost: Cost,
}

/// A step at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriageStep {
    /// Into the child of that index, from 0.
    Enter(usize),
    /// To the parent.
    TurnBack,
}

/// What a segment gave.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafReading {
    /// Why.
    pub reasoning: String,
    /// The answer that it supports; `None`: to turn back.
    pub answer: Option<Reading>,
    /// What it cost, the answer's own cost included.
    pub cost: Cost,
}

/// Whether evidence suffices to answer a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Reflection {
    /// Why.
    pub reasoning: String,
    /// Whether it suffices.
    pub suffices: bool,
    /// What is missing, if it does not; may be empty.
    pub missing: String,
    /// What it cost.
    pub cost: Cost,
}

/// Texts that a step of judgement came up with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// The texts, best first; none empty.
    pub texts: Vec<String>,
    /// What it cost.
    pub cost: Cost,
}

/// Performs the steps by which a tree and a graph are walked: with prompts to a language model, or
/// extractively.
///
/// A model's reply that cannot be read is asked for again; after three in a row a step fails with the reason
/// `UNREADABLE_REPLY`.
#[async_trait]
pub trait Navigator: Send + Sync {
    /// Chooses a child to enter, or to turn back (MemWalker, triage).
    ///
    /// # Errors
    /// Those of the model or encoder behind it; [`crate::ErrorKind::InvalidInput`] as
    /// [`ChildChoice::check`].
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error>;

    /// Reads a segment: answers, or turns back (MemWalker, leaf). `memory` is what was read on the way,
    /// oldest first.
    ///
    /// # Errors
    /// As [`Self::choose_child`].
    async fn read_leaf(
        &self,
        question: &str,
        memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error>;

    /// Judges whether `evidence` suffices, and tells what is missing (QRMeM, reflection).
    ///
    /// # Errors
    /// As [`Self::choose_child`].
    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error>;

    /// The entities that a question is about.
    ///
    /// # Errors
    /// As [`Self::choose_child`].
    async fn name_entities(&self, question: &str, deadline: Instant) -> Result<Named, Error>;

    /// Up to `most` of the `candidates`, by index, to be looked at next, since what was read so far does
    /// not suffice for the `reason` given (QRMeM, entity trial); best first, each once, and none if none
    /// helps.
    ///
    /// # Errors
    /// As [`Self::choose_child`]; [`crate::ErrorKind::InvalidInput`] as [`EntityChoice::check`].
    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error>;

    /// The question in other words, elaborated with what a graph tells around it (QRMeM, graph expansion
    /// search): `relations` in words, best first. Without any it is the question itself.
    ///
    /// # Errors
    /// As [`Self::choose_child`].
    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// One description of `subject` that says what all of `descriptions` say, in view of the question (QRMeM, relation
    /// fusion). Of one description it is that one, and of none it is empty.
    ///
    /// # Errors
    /// As [`Self::choose_child`].
    async fn fuse(
        &self,
        question: &str,
        subject: &str,
        descriptions: &[String],
        deadline: Instant,
    ) -> Result<(String, Cost), Error>;
}

/// What is seen when the entities to be looked at next are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityChoice {
    /// The question.
    pub question: String,
    /// Why what was read so far does not suffice; may be empty.
    pub reason: String,
    /// The entities looked at so far.
    pub known: Vec<String>,
    /// The entities that may be looked at. At least one.
    pub candidates: Vec<String>,
    /// Most entities wanted, at least 1.
    pub most: usize,
}

impl ChildChoice {
    /// Refuses a choice between nothing, and one that tells of other children than it shows.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if self.summaries.is_empty() {
            violations.push("summaries", "expected at least one");
        }
        let (found, summaries) = (self.found.len(), self.summaries.len());
        if found != 0 && found != summaries {
            violations.push("found", format!("expected none or {summaries}, got {found}"));
        }
        violations.into_result()
    }
}

impl EntityChoice {
    /// Refuses a choice between nothing, and one of nothing.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if self.candidates.is_empty() {
            violations.push("candidates", "expected at least one");
        }
        if self.most == 0 {
            violations.push("most", "expected at least 1");
        }
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(checked: Result<(), Error>) -> Vec<String> {
        let error = checked.unwrap_err();
        error.violations().iter().map(|violation| violation.field.clone()).collect()
    }

    #[test]
    fn a_choice_is_between_something_and_hints_are_of_what_is_shown() {
        let child = |summaries, found| ChildChoice {
            summaries: vec![String::new(); summaries],
            found: vec![0.5; found],
            ..ChildChoice::default()
        };
        assert!(child(2, 0).check().is_ok() && child(2, 2).check().is_ok());
        assert_eq!(fields(child(2, 1).check()), ["found"]);
        assert_eq!(fields(child(0, 1).check()), ["summaries", "found"]);
        assert_eq!(fields(EntityChoice::default().check()), ["candidates", "most"]);
        let candidates = vec!["Minos".to_owned()];
        let choice = EntityChoice { candidates, most: 1, ..EntityChoice::default() };
        assert!(choice.check().is_ok());
    }
}
