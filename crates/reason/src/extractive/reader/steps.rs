//! Answers a question of several steps one by one: who the director of a film is, and then where
//! that person was born.

use clew_core::Error;

use super::bridge::Bridge;
use super::calibrated::STEP_ANSWERED;
use super::candidate::Candidate;
use super::session::Session;
use super::shown::holds_words;
use crate::extractive::question::Question;

/// Maximum number of steps before the last one.
const MOST_STEPS: usize = 3;
/// Maximum number of passages that are read for a step.
const MOST_STEP_PASSAGES: usize = 8;

/// The steps of a question, as far as they were taken.
pub(super) struct Steps {
    /// Answers on the way, in their order; at least one.
    pub(super) taken: Vec<Candidate>,
    /// The question with these answers in place of their descriptions.
    pub(super) asked: String,
    /// Answers to that question, best first, each with the probability that all steps are right.
    pub(super) found: Vec<Candidate>,
}

impl Session<'_, '_> {
    /// Takes the steps of the question; returns `None` if it has none that can be answered.
    pub(super) async fn steps(&mut self) -> Result<Option<Steps>, Error> {
        let mut taken: Vec<Candidate> = Vec::new();
        let mut asked = self.question.to_owned();
        while let Some(bridge) = Bridge::of(&asked).filter(|_| taken.len() < MOST_STEPS) {
            let passages = self.about(&bridge.inner);
            let found = self.answers(&bridge.inner, &passages).await?;
            let is_step =
                |it: &Candidate| it.probability >= STEP_ANSWERED && !holds_words(&asked, &it.text);
            let Some(step) = found.into_iter().next().filter(is_step) else { break };
            asked = bridge.across(&step.text);
            taken.push(step);
        }
        let Some(last) = taken.last() else { return Ok(None) };
        let mut passages = self.naming(&last.text);
        passages.truncate(MOST_STEP_PASSAGES);
        let mut found = Vec::new();
        if !passages.is_empty() {
            found = self.answers(&asked, &passages).await?;
        }
        let on_the_way: f32 = taken.iter().map(|step| step.probability).product();
        found.iter_mut().for_each(|candidate| candidate.probability *= on_the_way);
        Ok(Some(Steps { taken, asked, found }))
    }

    /// Returns the passages to read for `question`: those with all its names, or else all.
    fn about(&self, question: &str) -> Vec<usize> {
        let asked = Question::new(question);
        let names: Vec<&str> =
            asked.words().iter().filter(|it| it.is_name).map(|it| it.written.as_str()).collect();
        let holds_all = |&index: &usize| names.iter().all(|name| self.shown[index].names(name));
        let mut about = self.all();
        about.retain(holds_all);
        if about.is_empty() {
            about = self.all();
        }
        about.truncate(MOST_STEP_PASSAGES);
        about
    }
}
