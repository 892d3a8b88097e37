//! Acts that grade answers: as a whole (LongMemEval, appendix A.4, figure 10) and by points (BEAM).

use clew_core::{GradingRule, ReplyFormat};

use super::super::reply::{is_partly, yes_or_no};
use super::super::{Act, Cut, PromptFile, Reply, ReplyShape, UnreadableReply};
use super::prompt_file;

/// Maximum number of tokens of a reply of one word.
const WORD_TOKENS: u32 = 16;

/// An act that judges whether an answer is right (LongMemEval, appendix A.4, figure 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradeAnswer {
    /// The question.
    pub question: String,
    /// The right answer; for [`GradingRule::Preference`] a description of a good answer; for
    /// [`GradingRule::Abstention`] the reason why there is none.
    pub expected: String,
    /// Answer to grade.
    pub answer: String,
    /// Rule for what counts as right.
    pub rule: GradingRule,
}

impl Act for GradeAnswer {
    type Output = bool;

    fn prompt(&self) -> PromptFile {
        match self.rule {
            GradingRule::Complete => prompt_file!("grade_complete"),
            GradingRule::TimeReasoning => prompt_file!("grade_time_reasoning"),
            GradingRule::KnowledgeUpdate => prompt_file!("grade_knowledge_update"),
            GradingRule::Preference => prompt_file!("grade_preference"),
            GradingRule::Abstention => prompt_file!("grade_abstention"),
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("expected", self.expected.clone()),
            ("answer", self.answer.clone()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.answer])]
    }

    fn format(&self) -> ReplyFormat {
        ReplyFormat::Choice(vec!["yes".to_owned(), "no".to_owned()])
    }

    fn max_tokens(&self) -> u32 {
        WORD_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<bool, UnreadableReply> {
        let expected = "`yes` or `no`";
        let word = reply.prose(expected, "answer")?;
        yes_or_no(&word).ok_or(UnreadableReply { expected, found: ReplyShape::Prose })
    }
}

/// An act that judges how far an answer meets one point of what a good answer says or does (BEAM,
/// "Beyond a Million Tokens", whose judge looks at each point separately).
///
/// BEAM's judge gives a reason after the score. This one gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradeNugget {
    /// The question.
    pub question: String,
    /// Point that a good answer meets.
    pub nugget: String,
    /// Answer to check.
    pub answer: String,
}

impl Act for GradeNugget {
    /// 1 if the point is met, 0.5 if it is partly met, otherwise 0.
    type Output = f64;

    fn prompt(&self) -> PromptFile {
        prompt_file!("grade_nugget")
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        vec![
            ("question", self.question.clone()),
            ("nugget", self.nugget.clone()),
            ("answer", self.answer.clone()),
        ]
    }

    fn cuts(&mut self) -> Vec<Cut<'_>> {
        vec![Cut::Longest(vec![&mut self.answer])]
    }

    fn format(&self) -> ReplyFormat {
        ReplyFormat::Choice(["yes", "partly", "no"].map(str::to_owned).to_vec())
    }

    fn max_tokens(&self) -> u32 {
        WORD_TOKENS
    }

    fn parse(&self, reply: Reply<'_>) -> Result<f64, UnreadableReply> {
        let expected = "`yes`, `partly` or `no`";
        let word = reply.prose(expected, "answer")?;
        if is_partly(&word) {
            return Ok(0.5);
        }
        let is_met =
            yes_or_no(&word).ok_or(UnreadableReply { expected, found: ReplyShape::Prose })?;
        Ok(f64::from(u8::from(is_met)))
    }
}
