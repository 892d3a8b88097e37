//! Metrics of answers, and the scores of an answer by the scoring of its question.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use clew_core::DocumentId;
use serde::{Deserialize, Serialize};

use super::{
    chosen_letter, locomo_f1, locomo_sub_answers_f1, rouge_l, squad_exact_match, squad_f1, verdict,
};
use crate::EvalQuestion;
use crate::dataset::Scoring;

/// Metric of answers, from 0 to 1. Higher is better, except for [`Metric::Answered`], which only
/// describes. In the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Whether a judge grades the answer as right.
    Graded,
    /// Share of the points of a good answer that a judge considers met.
    Nuggets,
    /// Coverage of what there is to say, as a judge rates it.
    Comprehensiveness,
    /// Variety of views and insights, as a judge rates it.
    Diversity,
    /// Whether both claims of a pair are right. Belongs to pairs, so only reports have it.
    PairAccuracy,
    /// Whether the option or verdict is right.
    Accuracy,
    /// F1 by [`squad_f1`], [`locomo_f1`] or [`locomo_sub_answers_f1`], as in the data set's script.
    F1,
    /// Exact match by [`squad_exact_match`].
    #[serde(rename = "em")]
    ExactMatch,
    /// ROUGE-L by [`rouge_l`].
    RougeL,
    /// Share of the units with evidence of which something was read.
    Recall,
    /// Whether the outcome was that it was never said, for questions whose right answer that is:
    /// the recall of abstention.
    Abstention,
    /// Whether that was right, for questions of which the outcome was that it was never said: the
    /// precision of abstention. Only reports have it, of runs with questions that have no answer.
    AbstentionPrecision,
    /// Whether there was an answer, for questions that have one. Only reports have it, as
    /// [`Metric::AbstentionPrecision`].
    Attempted,
    /// Whether there was an answer, and not the outcome that nothing is in memory.
    Answered,
}

impl Metric {
    /// All metrics, in the order of reports. The first that a report has is its headline.
    pub const ALL: [Self; 14] = [
        Self::Graded,
        Self::Nuggets,
        Self::Comprehensiveness,
        Self::Diversity,
        Self::PairAccuracy,
        Self::Accuracy,
        Self::F1,
        Self::ExactMatch,
        Self::RougeL,
        Self::Recall,
        Self::Abstention,
        Self::AbstentionPrecision,
        Self::Attempted,
        Self::Answered,
    ];

    /// Returns the name in logs and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Graded => "graded",
            Self::Nuggets => "nuggets",
            Self::Comprehensiveness => "comprehensiveness",
            Self::Diversity => "diversity",
            Self::PairAccuracy => "pair-accuracy",
            Self::Accuracy => "accuracy",
            Self::F1 => "f1",
            Self::ExactMatch => "em",
            Self::RougeL => "rouge-l",
            Self::Recall => "recall",
            Self::Abstention => "abstention",
            Self::AbstentionPrecision => "abstention-precision",
            Self::Attempted => "attempted",
            Self::Answered => "answered",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Scores of one answer by metric, each from 0 to 1.
pub type AnswerScores = BTreeMap<Metric, f64>;

/// Outcome of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedOutcome {
    /// The question was answered.
    Answered,
    /// The response was that the memory does not hold the answer.
    NotInMemory,
}

impl EvalQuestion {
    /// Returns [`Metric::Recall`] of an answer for which something of the units `read` was read;
    /// `None` if no unit is known to hold the evidence.
    pub fn recall(&self, read: &HashSet<DocumentId>) -> Option<f64> {
        let found = self.gold.iter().filter(|unit| read.contains(unit)).count();
        (!self.gold.is_empty()).then(|| found as f64 / self.gold.len() as f64)
    }

    /// Returns whether a right answer is known, so that answers can be scored.
    pub fn has_answer(&self) -> bool {
        self.is_abstention || !self.references.is_empty()
    }

    /// Scores an answer to this question. For the outcome [`RecordedOutcome::NotInMemory`], the
    /// text of the answer does not count.
    ///
    /// [`Metric::Answered`] is always set, [`Metric::Abstention`] for abstention questions, and the
    /// metrics of [`EvalQuestion::scoring`] for the others (with [`Scoring::Squad`] and
    /// [`Scoring::Locomo`], whose scripts do so, for all).
    /// [`RecordedOutcome::NotInMemory`] scores 0 for a question that has an answer.
    pub fn score(&self, outcome: RecordedOutcome, answer: &str) -> AnswerScores {
        let answer = if outcome == RecordedOutcome::Answered { answer } else { "" };
        let is_answered = f64::from(u8::from(outcome == RecordedOutcome::Answered));
        let mut scores = AnswerScores::from([(Metric::Answered, is_answered)]);
        if self.is_abstention {
            let is_locomo = matches!(self.scoring, Scoring::Locomo | Scoring::LocomoSubAnswers);
            let is_right = outcome == RecordedOutcome::NotInMemory
                || (is_locomo && says_not_mentioned(answer));
            let score = f64::from(u8::from(is_right));
            scores.insert(Metric::Abstention, score);
            let is_squad = self.scoring == Scoring::Squad;
            if is_locomo || is_squad {
                scores.insert(Metric::F1, score);
            }
            if is_squad {
                scores.insert(Metric::ExactMatch, score);
            }
        } else if self.has_answer() {
            scores.extend(self.quality(outcome, answer));
        }
        scores
    }

    fn quality(&self, outcome: RecordedOutcome, answer: &str) -> AnswerScores {
        let references = &self.references;
        let best = |score: fn(&str, &str) -> f64| {
            // A reference of only articles equals an empty answer; not knowing is wrong all the
            // same.
            let scores = references.iter().map(|reference| score(answer, reference));
            if outcome == RecordedOutcome::Answered { scores.fold(0.0, f64::max) } else { 0.0 }
        };
        let right = |is_right: bool| {
            AnswerScores::from([(Metric::Accuracy, f64::from(u8::from(is_right)))])
        };
        match &self.scoring {
            Scoring::Squad => {
                let exact = |answer: &str, reference: &str| {
                    squad_exact_match(answer, &[reference.to_owned()])
                };
                let f1 = |answer: &str, reference: &str| squad_f1(answer, &[reference.to_owned()]);
                AnswerScores::from([(Metric::ExactMatch, best(exact)), (Metric::F1, best(f1))])
            }
            Scoring::Locomo => AnswerScores::from([(Metric::F1, best(locomo_f1))]),
            Scoring::LocomoSubAnswers => {
                AnswerScores::from([(Metric::F1, best(locomo_sub_answers_f1))])
            }
            Scoring::Choice { options, right: letter, .. } => {
                right(chosen_letter(answer, options) == Some(*letter))
            }
            Scoring::ClaimPair { is_true, .. } => right(verdict(answer) == Some(*is_true)),
            Scoring::RougeL => AnswerScores::from([(Metric::RougeL, rouge_l(answer, references))]),
            Scoring::Judged(_) => AnswerScores::new(),
        }
    }
}

/// Returns whether `answer` says that it was never said, in the words of LoCoMo's script
/// (`task_eval/evaluation.py`, category 5): `not mentioned` or `no information available`, in upper
/// or lower case.
pub fn says_not_mentioned(answer: &str) -> bool {
    let answer = answer.to_lowercase();
    answer.contains("not mentioned") || answer.contains("no information available")
}

#[cfg(test)]
mod tests {
    use clew_core::{GradingRule, Judging};

    use super::super::ChoiceOption;
    use super::*;

    fn question(scoring: Scoring, references: &[&str], is_abstention: bool) -> EvalQuestion {
        EvalQuestion {
            id: "q".to_owned(),
            text: "?".to_owned(),
            kind: "kind".to_owned(),
            groups: Vec::new(),
            gold: Vec::new(),
            asked_at: None,
            is_abstention,
            references: references.iter().map(|&text| text.to_owned()).collect(),
            scoring,
        }
    }

    fn choice() -> Scoring {
        let options = [('A', "A cat"), ('B', "A dog")]
            .map(|(letter, text)| ChoiceOption { letter, text: text.to_owned() })
            .to_vec();
        Scoring::Choice { stem: "Who?".to_owned(), options, right: 'B' }
    }

    fn claim() -> Scoring {
        Scoring::ClaimPair { pair: "p".to_owned(), is_true: false }
    }

    /// Checks the scores of an answer, except [`Metric::Answered`].
    fn check(question: &EvalQuestion, answer: &str, expected: &[(Metric, f64)]) {
        let mut scores = question.score(RecordedOutcome::Answered, answer);
        assert_eq!(scores.remove(&Metric::Answered), Some(1.0));
        assert_eq!(scores, AnswerScores::from_iter(expected.iter().copied()), "{answer}");
    }

    #[test]
    fn each_scoring_has_its_metrics() {
        use Metric::{Accuracy, ExactMatch, F1, RougeL};
        let squad = question(Scoring::Squad, &["Genoa", "the port of Genoa"], false);
        check(&squad, "Port of Genoa", &[(ExactMatch, 1.0), (F1, 1.0)]);
        check(&squad, "Genoa port", &[(ExactMatch, 0.0), (F1, 0.8)]);
        check(&question(Scoring::Locomo, &["painting"], false), "paints", &[(F1, 1.0)]);
        let parts = question(Scoring::LocomoSubAnswers, &["painting, camping"], false);
        check(&parts, "paints", &[(F1, 0.5)]);
        check(&question(choice(), &["A dog"], false), "(B)", &[(Accuracy, 1.0)]);
        check(&question(choice(), &["A dog"], false), "no idea", &[(Accuracy, 0.0)]);
        check(&question(claim(), &["false"], false), "False.", &[(Accuracy, 1.0)]);
        check(&question(claim(), &["false"], false), "", &[(Accuracy, 0.0)]);
        check(&question(Scoring::RougeL, &["x y", "z"], false), "z", &[(RougeL, 1.0)]);
        let judged = Scoring::Judged(Judging::Rate);
        check(&question(judged, &["x"], false), "x", &[]);
    }

    #[test]
    fn the_right_reaction_to_what_was_never_said_is_that_it_was_not() {
        let judged = Scoring::Judged(Judging::Grade(GradingRule::Complete));
        let judged = question(judged, &["not said"], true);
        check(&judged, "not mentioned", &[(Metric::Abstention, 0.0)]);
        let scores = judged.score(RecordedOutcome::NotInMemory, "");
        assert_eq!(scores[&Metric::Abstention], 1.0);
        assert_eq!(scores[&Metric::Answered], 0.0);
        let squad = question(Scoring::Squad, &[], true);
        let is = |score| [Metric::F1, Metric::ExactMatch, Metric::Abstention].map(|of| (of, score));
        check(&squad, "not mentioned", &is(0.0));
        let mut refused = squad.score(RecordedOutcome::NotInMemory, "");
        refused.remove(&Metric::Answered);
        assert_eq!(refused, AnswerScores::from(is(1.0)));
        let locomo = question(Scoring::Locomo, &[], true);
        check(&locomo, "It is NOT mentioned", &[(Metric::F1, 1.0), (Metric::Abstention, 1.0)]);
        check(&locomo, "a dog", &[(Metric::F1, 0.0), (Metric::Abstention, 0.0)]);
    }

    #[test]
    fn not_knowing_is_no_right_answer_whatever_text_comes_with_it() {
        let cases = [
            (Scoring::Squad, "the"),
            (Scoring::Locomo, "the"),
            (Scoring::LocomoSubAnswers, "the"),
            (choice(), "A dog"),
            (claim(), "false"),
            (Scoring::RougeL, "the"),
        ];
        for (scoring, reference) in cases {
            let question = question(scoring, &[reference], false);
            let scores = question.score(RecordedOutcome::NotInMemory, reference);
            assert!(scores.len() > 1 && scores.values().all(|score| *score == 0.0), "{scores:?}");
        }
    }

    #[test]
    fn without_a_known_answer_nothing_is_right_or_wrong() {
        let unknown = question(Scoring::Squad, &[], false);
        assert!(!unknown.has_answer());
        check(&unknown, "Genoa", &[]);
        assert!(question(Scoring::Locomo, &[], true).has_answer());
    }

    #[test]
    fn names_of_metrics_are_those_of_the_logs() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.as_str());
        }
        assert!(Metric::ALL.is_sorted());
    }
}
