//! What a judge is asked about an answer beside what is known to be right, and what it says.

/// An answer that is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeTask {
    /// The question.
    pub question: String,
    /// Right answers; each alone is as good as the others. May be empty where the question cannot be
    /// answered, or where points say what a good answer is.
    pub references: Vec<String>,
    /// The answer.
    pub answer: String,
    /// What is asked about it.
    pub judging: Judging,
}

/// What a judge is asked about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judging {
    /// Whether it is right.
    Grade(GradingRule),
    /// How comprehensive and how diverse it is: of answers that are long and of which none is the only
    /// right one.
    Rate,
    /// How far it meets each of these points, at least one.
    Nuggets(Vec<String>),
}

/// What counts as a right answer (LongMemEval, appendix A.4, figure 10).
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

/// What a judge says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Whether the answer is right.
    Graded(bool),
    /// How good it is, each from 0 to 1.
    Rated {
        /// How much it covers of what there is to say.
        comprehensiveness: f64,
        /// How many views and insights it offers.
        diversity: f64,
    },
    /// The mean over its points of how far each is met, from 0 to 1.
    Nuggets(f64),
}
