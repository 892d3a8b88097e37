//! Wrong answers, for the analysis of errors.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AnswerRecord, RunIdentity};
use crate::EvalQuestion;
use crate::answers::{AnswerScores, EvidenceReach, Metric, RecordedOutcome};

/// Kind of a wrong answer: the first step that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissKind {
    /// The evidence was not found, whether or not there was an answer.
    NotRetrieved,
    /// The evidence is among what a search finds, and the answer was made without it.
    NotRead,
    /// The answer is other words than the right ones, although those were read.
    WrongSpan,
    /// There was no answer, although the evidence was read, or it is not known whether it was.
    RefusedWrongly,
    /// There was an answer to a question that has none.
    AnsweredWrongly,
    /// The answer is wrong, and it is not known whether the evidence was read.
    Unexplained,
}

impl MissKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::NotRetrieved,
        Self::NotRead,
        Self::WrongSpan,
        Self::RefusedWrongly,
        Self::AnsweredWrongly,
        Self::Unexplained,
    ];

    /// Returns the name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRetrieved => "not-retrieved",
            Self::NotRead => "not-read",
            Self::WrongSpan => "wrong-span",
            Self::RefusedWrongly => "refused-wrongly",
            Self::AnsweredWrongly => "answered-wrongly",
            Self::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for MissKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Wrong answer, with all that tells why it is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerMiss {
    /// Name of the strategy that answered.
    pub strategy: String,
    /// Id of the question.
    pub question_id: String,
    /// Type of the question.
    #[serde(rename = "type")]
    pub question_type: String,
    /// Kind of error.
    pub kind: MissKind,
    /// Text of the question.
    pub question: String,
    /// Right answers; none if the question has no answer.
    pub expected: Vec<String>,
    /// Outcome of the question.
    pub outcome: RecordedOutcome,
    /// Answer that was given; empty if there was none.
    pub answer: String,
    /// Confidence of the answer, 0 to 1.
    pub confidence: Option<f64>,
    /// How far the evidence came; `None` if that is not known.
    pub evidence: Option<EvidenceReach>,
    /// Text that the answer cites.
    pub quotes: Vec<String>,
    /// Scores of the answer.
    pub scores: AnswerScores,
}

impl AnswerMiss {
    /// Returns the miss of `record`, which is the answer to `question` in `run`. Returns `None` if
    /// the answer is right, or it is not known whether it is.
    pub fn of(run: &RunIdentity, question: &EvalQuestion, record: &AnswerRecord) -> Option<Self> {
        Some(Self {
            strategy: run.strategy.clone(),
            question_id: record.question_id.clone(),
            question_type: record.kind.clone(),
            kind: record.miss()?,
            question: question.text.clone(),
            expected: if question.is_abstention { Vec::new() } else { question.references.clone() },
            outcome: record.outcome,
            answer: record.answer.clone(),
            confidence: record.confidence,
            evidence: record.evidence,
            quotes: record.quotes.clone(),
            scores: record.scores.clone(),
        })
    }
}

impl AnswerRecord {
    /// Returns whether the question has no answer, so that it is right to give none.
    pub fn is_abstention(&self) -> bool {
        self.scores.contains_key(&Metric::Abstention)
    }

    /// Returns whether the response was that there is no answer, be it by the outcome or, where the
    /// data set accepts that, by the words of the answer.
    pub fn is_refusal(&self) -> bool {
        self.outcome == RecordedOutcome::NotInMemory
            || self.scores.get(&Metric::Abstention).is_some_and(|score| *score > 0.0)
    }

    /// Returns whether the answer is right. A question without an answer must be refused. Otherwise
    /// the first of these scores that the answer has must be at least 0.5: the grade of a judge,
    /// accuracy, F1. Returns `None` if it has none of them and was not refused.
    pub fn is_right(&self) -> Option<bool> {
        if self.is_abstention() {
            return Some(self.is_refusal());
        }
        if self.is_refusal() {
            return Some(false);
        }
        let deciding = [Metric::Graded, Metric::Accuracy, Metric::F1];
        let score = deciding.iter().find_map(|metric| self.scores.get(metric))?;
        Some(*score >= 0.5)
    }

    /// Returns the kind of error of a wrong answer. Returns `None` if the answer is right, or
    /// it is not known whether it is.
    pub fn miss(&self) -> Option<MissKind> {
        if self.is_right()? {
            return None;
        }
        if self.is_abstention() {
            return Some(MissKind::AnsweredWrongly);
        }
        Some(match (self.evidence, self.is_refusal()) {
            (Some(EvidenceReach::NotFound), _) => MissKind::NotRetrieved,
            (Some(EvidenceReach::Found), _) => MissKind::NotRead,
            (Some(EvidenceReach::Read) | None, true) => MissKind::RefusedWrongly,
            (Some(EvidenceReach::Read), false) => MissKind::WrongSpan,
            (None, false) => MissKind::Unexplained,
        })
    }
}
