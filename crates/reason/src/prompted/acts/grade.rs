//! Grading answers (LongMemEval, appendix A.4, figure 10).

use clew_core::ReplyFormat;

use super::super::reply::yes_or_no;
use super::super::{Act, Cut, Found, PromptFile, Reply, Unreadable};
use super::prompt_file;

/// Judges whether an answer is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradeAnswer {
    /// The question.
    pub question: String,
    /// The right answer; for [`GradingRule::Preference`] what a good one is like; for
    /// [`GradingRule::Abstention`] why there is none.
    pub expected: String,
    /// The answer to grade.
    pub answer: String,
    /// What counts as right.
    pub rule: GradingRule,
}

/// What counts as a right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradingRule {
    /// It says all that the right answer says.
    Complete,
    /// The same, and numbers of days, weeks or months may be off by one.
    TimeReasoning,
    /// It gives what holds now; what held before may stand beside it.
    KnowledgeUpdate,
    /// It makes use of what is known of the user.
    Preference,
    /// It says that the question cannot be answered.
    Abstention,
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
        16
    }

    fn parse(&self, reply: Reply<'_>) -> Result<bool, Unreadable> {
        let expected = "`yes` or `no`";
        let word = reply.prose(expected, "answer")?;
        yes_or_no(&word).ok_or(Unreadable { expected, found: Found::Prose })
    }
}
