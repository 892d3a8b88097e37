//! Probabilities that decide what counts as an answer.
//!
//! They are set by calibration on development data, never on the questions that results are
//! reported for: `clew eval reading --calibrate` measures precision and recall for each value.

/// Minimum probability at which words count as the answer.
pub(super) const ANSWERED: f32 = 0.5;
/// Minimum probability at which words count as the answer that were found by way of another
/// passage: after a sentence of it, or after a step. The reader was not trained to read that way
/// and is less sure than it could be: of the answers of `linked` to 50 questions each of MuSiQue
/// and HotpotQA with a probability of 0.2 to 0.5, those by way of another passage have a mean F1 of
/// 35 (15 answers), and those from one passage alone of 12 (19 answers).
pub(super) const LED_ANSWERED: f32 = 0.2;
/// Minimum probability at which a sentence counts as the explanation that is asked for. The reader
/// was trained on few questions for reasons, and its words are only part of what is said.
pub(super) const EXPLAINED: f32 = 0.3;
/// Minimum probability at which an answer to a step, such as who the director of a film is, is
/// taken as the name to go on with.
pub(super) const STEP_ANSWERED: f32 = 0.3;
/// Minimum probability at which words of one passage answer so surely that no passage is read once
/// more after a sentence that leads to it.
pub(super) const SURE: f32 = 0.8;
/// Minimum probability at which words tell of what is asked, so that what their sentence contains
/// is not missing.
pub(super) const NEAR: f32 = 0.1;
/// Factor on the odds of an answer whose sentence has nothing that stands for what the question
/// names. By logistic regression on 1,400 questions of SQuAD 2.0's development articles beside what
/// the reader says: -1.05 on the logit, with a standard error of 0.23.
pub(super) const APART: f32 = 0.35;
/// Factor on the odds of an answer that somebody else says of themselves than the question names,
/// and of one that stands in a question.
pub(super) const MISTAKEN: f32 = 0.03;
/// Probability of yes or no where a sentence says it in the question's own words.
pub(super) const ENTAILED: f32 = 0.9;
