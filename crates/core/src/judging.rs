//! Tasks and verdicts of a judge, which compares answers with what is known to be right.

/// Answer that is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeTask {
    /// The question.
    pub question: String,
    /// Right answers; each alone is as good as the others. May be empty if the question cannot be
    /// answered, or if points say what a good answer is.
    pub references: Vec<String>,
    /// The answer.
    pub answer: String,
    /// Kind of judgement that is wanted.
    pub judging: Judging,
}

/// Kind of judgement of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judging {
    /// Whether the answer is right.
    Grade(GradingRule),
    /// Comprehensiveness and diversity, for long answers of which none is the only right one.
    Rate,
    /// Degree to which the answer meets each of these points, at least one.
    Nuggets(Vec<String>),
}

/// Rule for what counts as a right answer (LongMemEval, appendix A.4, figure 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradingRule {
    /// The answer says everything that the right answer says.
    Complete,
    /// The same as [`Self::Complete`], but numbers of days, weeks or months may be off by one.
    TimeReasoning,
    /// The answer gives what holds now; what held before may stand beside it.
    KnowledgeUpdate,
    /// The answer makes use of what is known of the user.
    Preference,
    /// The answer says that the question cannot be answered.
    Abstention,
}

/// Verdict of a judge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Whether the answer is right.
    Graded(bool),
    /// Quality of the answer; each value from 0 to 1.
    Rated {
        /// Share of what there is to say that the answer covers.
        comprehensiveness: f64,
        /// Diversity of the views and insights that it offers.
        diversity: f64,
    },
    /// Mean over the points of the degree to which each is met, from 0 to 1.
    Nuggets(f64),
}
