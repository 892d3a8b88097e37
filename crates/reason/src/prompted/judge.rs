//! Judging of answers by the rubrics of the papers.

use std::time::Instant;

use clew_core::{Cost, Error, GradingRule, JudgeTask, Judging, Ledger, Verdict};

use super::{GradeAnswer, GradeNugget, Prompted, Quality, RateAnswer};

/// Reason why a question cannot be answered, if the data set gives none.
const NEVER_SAID: &str = "It was never said.";

/// A judge of answers, which calls a language model.
#[derive(Clone, Debug)]
pub struct Judge {
    prompted: Prompted,
}

impl Judge {
    /// Creates a judge that calls the model as `prompted` does, with its budget for each answer.
    pub fn new(prompted: Prompted) -> Self {
        Self { prompted }
    }

    /// Judges an answer, and returns the verdict with its cost. A grade takes one call, a rating
    /// two, and nuggets one each, in sequence.
    ///
    /// # Errors
    /// Returns the errors of [`Prompted::perform`], and [`clew_core::ErrorKind::InvalidInput`] if a
    /// list of nuggets is empty. Partial results are not returned.
    pub async fn judge(
        &self,
        task: &JudgeTask,
        deadline: Instant,
    ) -> Result<(Verdict, Cost), Error> {
        let ledger = self.prompted.ledger();
        let verdict = match &task.judging {
            Judging::Grade(rule) => self.grade(task, *rule, deadline, &ledger).await?,
            Judging::Rate => Verdict::Rated {
                comprehensiveness: self
                    .rate(task, Quality::Comprehensiveness, deadline, &ledger)
                    .await?,
                diversity: self.rate(task, Quality::Diversity, deadline, &ledger).await?,
            },
            Judging::Nuggets(nuggets) => self.check(task, nuggets, deadline, &ledger).await?,
        };
        Ok((verdict, ledger.cost()))
    }

    async fn grade(
        &self,
        task: &JudgeTask,
        rule: GradingRule,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<Verdict, Error> {
        let expected = match &task.references[..] {
            [] => NEVER_SAID.to_owned(),
            references => references.join("\nOr: "),
        };
        let (question, answer) = (task.question.clone(), task.answer.clone());
        let act = GradeAnswer { question, expected, answer, rule };
        Ok(Verdict::Graded(self.prompted.perform(&act, deadline, ledger).await?))
    }

    async fn rate(
        &self,
        task: &JudgeTask,
        quality: Quality,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<f64, Error> {
        let act = RateAnswer {
            question: task.question.clone(),
            references: task.references.clone(),
            answer: task.answer.clone(),
            quality,
        };
        self.prompted.perform(&act, deadline, ledger).await
    }

    async fn check(
        &self,
        task: &JudgeTask,
        nuggets: &[String],
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<Verdict, Error> {
        if nuggets.is_empty() {
            return Err(Error::invalid("nuggets", "expected at least one, got none"));
        }
        let mut met = 0.0;
        for nugget in nuggets {
            let act = GradeNugget {
                question: task.question.clone(),
                nugget: nugget.clone(),
                answer: task.answer.clone(),
            };
            met += self.prompted.perform(&act, deadline, ledger).await?;
        }
        Ok(Verdict::Nuggets(met / nuggets.len() as f64))
    }
}
