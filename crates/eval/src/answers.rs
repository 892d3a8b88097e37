//! What an answer is worth beside the reference answers, by rules on its text alone.
//!
//! Every function takes the texts and gives a score from 0 to 1. [`Scoring`] says which of them a data
//! set's questions are measured with; [`crate::Question::score`] applies it. A judge's scores
//! ([`Metric::Graded`], [`Metric::Nuggets`], [`Metric::Comprehensiveness`], [`Metric::Diversity`]) come from
//! outside; [`crate::Question::judge_task`] says what to ask.

mod choice;
mod claim;
mod judging;
mod overlap;
mod porter;
mod rouge;
mod scoring;

pub use choice::{ChoiceOption, chosen_letter};
pub use claim::{pair_accuracy, verdict};
pub(crate) use judging::scores_of;
pub use overlap::{locomo_f1, locomo_sub_answers_f1, squad_exact_match, squad_f1};
pub use rouge::rouge_l;
pub use scoring::{AnswerScores, Metric, Outcome, says_not_mentioned};
