//! Contents of a log: the identity of the run, and the results of questions.

use std::collections::BTreeMap;

use clew_core::{Cost, Verdict};
use serde::{Deserialize, Serialize};

use crate::EvalQuestion;
use crate::answers::{AnswerScores, EvidenceReach, RecordedOutcome, scores_of};
use crate::dataset::Scoring;

/// Identity of a run. Of two runs with the same identity, one can continue with the answers of the
/// other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// Name of the [`crate::DatasetFormat`].
    pub format: String,
    /// Fingerprint of the data set, see [`crate::Survey::fingerprint`].
    pub data: String,
    /// Name of the strategy that answers.
    pub strategy: String,
    /// All other settings that determine the answers and their scores, by name: the model, the
    /// number of passages, the model that judges and others.
    pub settings: BTreeMap<String, String>,
}

impl RunIdentity {
    /// Returns the first difference to `other`, for a message, or `None` if they are the same.
    pub(super) fn difference_to(&self, other: &Self) -> Option<String> {
        let values = |run: &Self| {
            let fields =
                [("format", &run.format), ("data", &run.data), ("strategy", &run.strategy)];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.clone()));
            let settings = run.settings.iter();
            let settings =
                settings.map(|(name, value)| (format!("settings.{name}"), value.clone()));
            fields.into_iter().chain(settings).collect::<Vec<_>>()
        };
        let (ours, theirs) = (values(self), values(other));
        let value_in = |values: &[(String, String)], name: &str| {
            let value = values.iter().find(|(known, _)| known == name);
            value.map_or_else(|| "nothing".to_owned(), |(_, value)| format!("`{value}`"))
        };
        let mut names = ours.iter().chain(&theirs).map(|(name, _)| name);
        let name = names.find(|name| value_in(&ours, name) != value_in(&theirs, name))?;
        let (found, expected) = (value_in(&theirs, name), value_in(&ours, name));
        Some(format!("`{name}` is {found} instead of {expected}"))
    }
}

/// Returns a name for the contents of a file, such as the weights of a model, for the settings of a
/// [`RunIdentity`]: 16 hexadecimal digits.
pub fn fingerprint(contents: &[u8]) -> String {
    blake3::hash(contents).to_hex()[..16].to_owned()
}

/// Cost of answering one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerCost {
    /// Number of calls of a language model.
    pub model_calls: u64,
    /// Tokens sent to language models.
    pub prompt_tokens: u64,
    /// Tokens received from language models.
    pub completion_tokens: u64,
    /// Tokens that were embedded.
    pub embedded_tokens: u64,
    /// Tokens that rerankers and readers read.
    #[serde(default)]
    pub reranked_tokens: u64,
    /// Tokens of the evidence that the answer was made of.
    pub evidence_tokens: u64,
    /// Wall-clock time from question to answer, in seconds.
    pub seconds: f64,
}

/// Cost of judging one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeCost {
    /// Number of calls of a language model.
    pub model_calls: u64,
    /// Tokens sent to it.
    pub prompt_tokens: u64,
    /// Tokens received from it.
    pub completion_tokens: u64,
}

/// Result of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Id of the question, see [`EvalQuestion::id`].
    pub question_id: String,
    /// Type of the question, see [`EvalQuestion::kind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// Groups of the question, see [`EvalQuestion::groups`].
    pub groups: Vec<String>,
    /// Name of its pair of claims, if it is a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    /// Outcome of the question.
    pub outcome: RecordedOutcome,
    /// Text of the answer.
    pub answer: String,
    /// Confidence of the answer, 0 to 1, if the strategy told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How far the evidence came, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceReach>,
    /// Text that the answer cites, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<String>,
    /// Scores of the answer, by metric; a judge adds its own.
    pub scores: AnswerScores,
    /// Cost of the answer.
    pub cost: AnswerCost,
    /// Cost of judging it, if it was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_cost: Option<JudgeCost>,
}

impl AnswerRecord {
    /// Creates the record of an answer to `question`, scored by [`EvalQuestion::score`]. It has no
    /// confidence, evidence and quotes yet.
    pub fn new(
        question: &EvalQuestion,
        outcome: RecordedOutcome,
        answer: String,
        cost: AnswerCost,
    ) -> Self {
        let pair = match &question.scoring {
            Scoring::ClaimPair { pair, .. } => Some(pair.clone()),
            Scoring::Squad
            | Scoring::Locomo
            | Scoring::LocomoSubAnswers
            | Scoring::Choice { .. }
            | Scoring::RougeL
            | Scoring::Judged(_) => None,
        };
        Self {
            question_id: question.id.clone(),
            kind: question.kind.clone(),
            groups: question.groups.clone(),
            pair,
            outcome,
            scores: question.score(outcome, &answer),
            answer,
            confidence: None,
            evidence: None,
            quotes: Vec::new(),
            cost,
            judge_cost: None,
        }
    }

    /// Adds the verdict of a judge and its cost.
    #[must_use]
    pub fn judged(mut self, verdict: Verdict, cost: &Cost) -> Self {
        self.scores.extend(scores_of(verdict));
        self.judge_cost = Some(JudgeCost {
            model_calls: cost.model_calls,
            prompt_tokens: cost.prompt_tokens,
            completion_tokens: cost.completion_tokens,
        });
        self
    }

    /// Returns what is wrong with the numbers, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let bad = self.scores.iter().find(|(_, score)| !(0.0..=1.0).contains(*score));
        if let Some((metric, score)) = bad {
            return Some(format!("expected scores from 0 to 1, got `{metric}` {score}"));
        }
        if let Some(confidence) = self.confidence.filter(|of| !(0.0..=1.0).contains(of)) {
            return Some(format!("expected a `confidence` from 0 to 1, got {confidence}"));
        }
        let seconds = self.cost.seconds;
        let is_time = seconds.is_finite() && seconds >= 0.0;
        (!is_time).then(|| format!("expected `seconds` of at least 0, got {seconds}"))
    }
}
