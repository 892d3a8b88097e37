//! Tasks for a judge of answers, and the scores of its verdicts.

use clew_core::{GradingRule, JudgeTask, Judging, Verdict};

use super::{AnswerScores, Metric, RecordedOutcome};
use crate::EvalQuestion;
use crate::dataset::Scoring;

/// Text that a judge is shown instead of an answer if the outcome was that the memory does not hold
/// it.
const NOT_IN_MEMORY: &str = "I do not know: there is nothing about this in memory.";

impl EvalQuestion {
    /// Returns the task for a judge of an answer to this question, or `None` if a rule decides
    /// whether the answer is right: if an option was to be chosen, or a claim to be judged.
    ///
    /// For the outcome [`RecordedOutcome::NotInMemory`], the text of the answer does not count; the
    /// judge is shown a sentence that says so.
    pub fn judge_task(&self, outcome: RecordedOutcome, answer: &str) -> Option<JudgeTask> {
        let answer = match outcome {
            RecordedOutcome::Answered => answer,
            RecordedOutcome::NotInMemory => NOT_IN_MEMORY,
        };
        Some(JudgeTask {
            question: self.text.clone(),
            references: self.references.clone(),
            answer: answer.to_owned(),
            judging: self.judging()?,
        })
    }

    fn judging(&self) -> Option<Judging> {
        match &self.scoring {
            Scoring::Choice { .. } | Scoring::ClaimPair { .. } => None,
            // The points say what a good answer says for abstention questions too.
            Scoring::Judged(nuggets @ Judging::Nuggets(_)) => Some(nuggets.clone()),
            Scoring::Squad
            | Scoring::Locomo
            | Scoring::LocomoSubAnswers
            | Scoring::RougeL
            | Scoring::Judged(_)
                if self.is_abstention =>
            {
                Some(Judging::Grade(GradingRule::Abstention))
            }
            Scoring::Squad | Scoring::Locomo | Scoring::LocomoSubAnswers => {
                Some(Judging::Grade(GradingRule::Complete))
            }
            Scoring::RougeL => Some(Judging::Rate),
            Scoring::Judged(judging) => Some(judging.clone()),
        }
    }
}

/// Returns the scores of a verdict.
pub(crate) fn scores_of(verdict: Verdict) -> AnswerScores {
    match verdict {
        Verdict::Graded(is_right) => {
            AnswerScores::from([(Metric::Graded, f64::from(u8::from(is_right)))])
        }
        Verdict::Rated { comprehensiveness, diversity } => AnswerScores::from([
            (Metric::Comprehensiveness, comprehensiveness),
            (Metric::Diversity, diversity),
        ]),
        Verdict::Nuggets(met) => AnswerScores::from([(Metric::Nuggets, met)]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ChoiceOption;
    use super::*;

    fn question(scoring: Scoring, is_abstention: bool) -> EvalQuestion {
        EvalQuestion {
            id: "q".to_owned(),
            text: "Who?".to_owned(),
            kind: "kind".to_owned(),
            groups: Vec::new(),
            gold: Vec::new(),
            asked_at: None,
            is_abstention,
            references: vec!["Ada".to_owned()],
            scoring,
        }
    }

    #[test]
    fn what_is_asked_follows_the_data_set() {
        use GradingRule::{Abstention, Complete, Preference};
        use Judging::{Grade, Nuggets, Rate};
        let options = vec![ChoiceOption { letter: 'A', text: "Ada".to_owned() }; 2];
        let choice = Scoring::Choice { stem: "Who?".to_owned(), options, right: 'A' };
        let claim = Scoring::ClaimPair { pair: "p".to_owned(), is_true: true };
        let points = || Nuggets(vec!["names Ada".to_owned()]);
        let cases = [
            (Scoring::Squad, false, Some(Grade(Complete))),
            (Scoring::Locomo, false, Some(Grade(Complete))),
            (Scoring::LocomoSubAnswers, false, Some(Grade(Complete))),
            (Scoring::Locomo, true, Some(Grade(Abstention))),
            (Scoring::Judged(Grade(Preference)), false, Some(Grade(Preference))),
            (Scoring::Judged(Grade(Preference)), true, Some(Grade(Abstention))),
            (Scoring::Judged(points()), false, Some(points())),
            (Scoring::Judged(points()), true, Some(points())),
            (Scoring::RougeL, false, Some(Rate)),
            (choice, false, None),
            (claim, false, None),
        ];
        for (scoring, is_abstention, expected) in cases {
            let question = question(scoring, is_abstention);
            let task = question.judge_task(RecordedOutcome::Answered, "Bo");
            assert_eq!(task.as_ref().map(|task| &task.judging), expected.as_ref(), "{question:?}");
            if let Some(task) = task {
                assert_eq!((&*task.question, &*task.answer), ("Who?", "Bo"));
                assert_eq!(task.references, ["Ada"]);
            }
        }
    }

    #[test]
    fn not_knowing_is_judged_as_saying_so() {
        let question = question(Scoring::Squad, false);
        let task = question.judge_task(RecordedOutcome::NotInMemory, "Ada").unwrap();
        assert_eq!(task.answer, NOT_IN_MEMORY);
    }

    #[test]
    fn verdicts_are_scores_by_name() {
        let rated = Verdict::Rated { comprehensiveness: 0.7, diversity: 0.25 };
        let cases = [
            (Verdict::Graded(true), vec![(Metric::Graded, 1.0)]),
            (Verdict::Graded(false), vec![(Metric::Graded, 0.0)]),
            (Verdict::Nuggets(0.5), vec![(Metric::Nuggets, 0.5)]),
            (rated, vec![(Metric::Comprehensiveness, 0.7), (Metric::Diversity, 0.25)]),
        ];
        for (verdict, expected) in cases {
            assert_eq!(scores_of(verdict), AnswerScores::from_iter(expected));
        }
    }
}
