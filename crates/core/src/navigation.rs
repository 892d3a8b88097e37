//! Steps of judgement for walking a tree or a graph.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Cost, Error, Evidence, Reading, Violations};

/// Choice at a tree node: enter one of its children, or turn back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildChoice {
    /// The question.
    pub question: String,
    /// Texts read on the way here, oldest first: the working memory.
    pub memory: Vec<String>,
    /// Summaries of the children that may be entered, at least one.
    pub summaries: Vec<String>,
    /// Score of each child, 0 to 1: how well a search for the question found the best passage that
    /// the child covers. Empty if nothing was searched.
    pub found: Vec<f32>,
    /// Whether there is a node to turn back to.
    pub may_turn_back: bool,
}

/// Decision at a tree node.
#[derive(Clone, Debug, PartialEq)]
pub struct Triage {
    /// Reason for the step.
    pub reasoning: String,
    /// Step to take.
    pub step: TriageStep,
    /// Cost of the decision.
    pub cost: Cost,
}

/// Step at a tree node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriageStep {
    /// Enter the child of that index, from 0.
    Enter(usize),
    /// Go back to the parent.
    TurnBack,
}

/// Result of reading a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafReading {
    /// Reason for the result.
    pub reasoning: String,
    /// Answer that the segment supports; `None` means to turn back.
    pub answer: Option<Reading>,
    /// Cost of reading, that of the answer included.
    pub cost: Cost,
}

/// Judgement of whether evidence suffices to answer a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Reflection {
    /// Reason for the judgement.
    pub reasoning: String,
    /// Whether the evidence suffices.
    pub suffices: bool,
    /// Description of what is missing if it does not suffice; may be empty.
    pub missing: String,
    /// Cost of the judgement.
    pub cost: Cost,
}

/// Texts that a step of judgement produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// Texts, best first; none is empty.
    pub texts: Vec<String>,
    /// Cost of the step.
    pub cost: Cost,
}

/// Judge for walking a tree or a graph, by prompts to a language model or extractively.
///
/// A model's reply that cannot be parsed is requested again. After three in a row the step fails
/// with the reason `UNREADABLE_REPLY`.
#[async_trait]
pub trait Navigator: Send + Sync {
    /// Chooses a child to enter, or to turn back (MemWalker, triage).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it, and those of [`ChildChoice::check`].
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error>;

    /// Reads a segment and answers, or turns back (MemWalker, leaf). `memory` holds the texts read
    /// on the way, oldest first.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn read_leaf(
        &self,
        question: &str,
        memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error>;

    /// Judges whether `evidence` suffices and says what is missing (QRMeM, reflection).
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error>;

    /// Names the entities that a question is about.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn name_entities(&self, question: &str, deadline: Instant) -> Result<Named, Error>;

    /// Chooses up to `most` of the `candidates` to look at next, because what was read so far does
    /// not suffice for the `reason` given (QRMeM, entity trial). Returns their indices, best first
    /// and each once; none if none helps.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it, and those of [`EntityChoice::check`].
    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error>;

    /// Rewords the question with what a graph tells around it (QRMeM, graph expansion search).
    /// `relations` are in words, best first. Without relations the result is the question itself.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error>;

    /// Fuses `descriptions` of `subject` into one that says what all of them say, in view of the
    /// question (QRMeM, relation fusion). A single description is returned as it is. Without any
    /// the result is empty.
    ///
    /// # Errors
    /// Returns the errors of the model or encoder behind it.
    async fn fuse(
        &self,
        question: &str,
        subject: &str,
        descriptions: &[String],
        deadline: Instant,
    ) -> Result<(String, Cost), Error>;
}

/// Choice of the entities to look at next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityChoice {
    /// The question.
    pub question: String,
    /// Reason why what was read so far does not suffice; may be empty.
    pub reason: String,
    /// Entities looked at so far.
    pub known: Vec<String>,
    /// Entities that may be looked at, at least one.
    pub candidates: Vec<String>,
    /// Maximum number of entities to choose, at least 1.
    pub most: usize,
}

impl ChildChoice {
    /// Checks that there are children and that `found` is empty or has one score for each.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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
    /// Checks that there are candidates and that at least one is to be chosen.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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

    #[test]
    fn a_choice_is_between_something_and_hints_are_of_what_is_shown() {
        let child = |summaries, found| ChildChoice {
            summaries: vec![String::new(); summaries],
            found: vec![0.5; found],
            ..ChildChoice::default()
        };
        assert!(child(2, 0).check().is_ok() && child(2, 2).check().is_ok());
        assert_eq!(child(2, 1).check().unwrap_err().fields_at_fault(), ["found"]);
        assert_eq!(child(0, 1).check().unwrap_err().fields_at_fault(), ["summaries", "found"]);
        assert_eq!(
            EntityChoice::default().check().unwrap_err().fields_at_fault(),
            ["candidates", "most"]
        );
        let candidates = vec!["Minos".to_owned()];
        let choice = EntityChoice { candidates, most: 1, ..EntityChoice::default() };
        assert!(choice.check().is_ok());
    }
}
