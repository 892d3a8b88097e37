//! Rating of answers to questions without a single right answer (HGMem, appendix F).

use clew_core::ReplyFormat;

use super::super::material::numbered;
use super::super::schema::{self, NUMBER, TEXT, object};
use super::super::{Act, Cut, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::{DECISION_TOKENS, prompt_file};

/// Highest score.
const MOST: u32 = 100;
/// Number of levels of the rubric. Each covers a fifth of the scores, and a score between two
/// levels belongs to both.
const LEVELS: usize = 5;

/// An act that rates an answer in two steps: first its level, then a score within the level's range
/// (HGMem, appendix F, figures 8 and 9).
///
/// The paper shows the judge the passage from which a question was made. Data sets have no such
/// passage, so this act shows reference answers. The paper's judge explains itself last; here it
/// reasons first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateAnswer {
    /// The question.
    pub question: String,
    /// Good answers, which together say what there is to say.
    pub references: Vec<String>,
    /// Answer to rate.
    pub answer: String,
    /// Quality to rate.
    pub quality: Quality,
}

/// A quality of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Share of what there is to say that the answer covers.
    Comprehensiveness,
    /// Number of views and insights that the answer offers.
    Diversity,
}

impl Act for RateAnswer {
    /// Rating from 0 to 1.
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
        // A cut in a reference does less harm than a cut in the answer.
        let references = self.references.iter_mut().collect();
        vec![Cut::Longest(references), Cut::Longest(vec![&mut self.answer])]
    }

    fn format(&self) -> ReplyFormat {
        schema::reply(object(&[("reasoning", TEXT), ("level", NUMBER), ("score", NUMBER)]))
    }

    fn max_tokens(&self) -> u32 {
        DECISION_TOKENS
    }

    /// Parses the score. Refuses a score outside its level, because it is not clear which of them
    /// counts.
    fn parse(&self, reply: Reply<'_>) -> Result<f64, UnreadableReply> {
        let record = reply.record("a `level` and a `score`", &["reasoning", "level", "score"])?;
        let level = record.index("level", LEVELS)?;
        let score = record.number("score", MOST)?;
        let width = MOST / LEVELS as u32;
        let low = level as u32 * width;
        if !(low..=low + width).contains(&score) {
            return Err(record.refused(ReplyShape::Wrong("score")));
        }
        Ok(f64::from(score) / f64::from(MOST))
    }
}
