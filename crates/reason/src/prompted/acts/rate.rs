//! Rating answers of which none is the only right one (HGMem, appendix F).

use clew_core::ReplyFormat;

use super::super::material::numbered;
use super::super::schema::{self, NUMBER, TEXT, object};
use super::super::{Act, Cut, Found, PromptFile, Reply, Unreadable};
use super::{DECISION_TOKENS, prompt_file};

/// Most of a score.
const MOST: u32 = 100;
/// Levels of the rubric, each a fifth of the scores; a score between two is of either.
const LEVELS: usize = 5;

/// Rates an answer in two steps, first its level and then a score in the level's range (HGMem, appendix F,
/// figures 8 and 9).
///
/// The paper shows the judge the passage that a question was made from. Data sets have no such passage, so
/// it is shown reference answers here. The paper has the judge explain itself last; here it reasons first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateAnswer {
    /// The question.
    pub question: String,
    /// Good answers, which say what there is to say.
    pub references: Vec<String>,
    /// The answer to rate.
    pub answer: String,
    /// What is rated.
    pub quality: Quality,
}

/// What is rated of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// How much it covers of what there is to say.
    Comprehensiveness,
    /// How many views and insights it offers.
    Diversity,
}

impl Act for RateAnswer {
    /// From 0 to 1.
    type Output = f64;

    fn prompt(&self) -> PromptFile {
        match self.quality {
            Quality::Comprehensiveness => prompt_file!("rate_comprehensiveness"),
            Quality::Diversity => prompt_file!("rate_diversity"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("references", numbered(self.references.iter().map(String::as_str))),
            ("answer", self.answer.clone()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        // What is missing in a reference is missed less than what is missing in the answer.
        let references = self.references.iter_mut().collect();
        vec![Cut::Longest(references), Cut::Longest(vec![&mut self.answer])]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("level", NUMBER), ("score", NUMBER)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// A score that is not of its level is refused: which of them is meant cannot be told.
    fn parse(&self, reply: Reply<'_>) -> Result<f64, Unreadable> {
        let record = reply.record("a `level` and a `score`", &["reasoning", "level", "score"])?;
        let level = record.index("level", LEVELS)?;
        let score = record.number("score", MOST)?;
        let width = MOST / LEVELS as u32;
        let low = level as u32 * width;
        if !(low..=low + width).contains(&score) {
            return Err(record.refused(Found::Wrong("score")));
        }
        Ok(f64::from(score) / f64::from(MOST))
    }
}
