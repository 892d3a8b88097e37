//! Scores of answers compared with reference answers, by rules on the text alone.
//!
//! Every function takes texts and returns a score from 0 to 1. [`Scoring`] selects the functions
//! for a data set's questions; [`crate::EvalQuestion::score`] applies them. The scores of a judge
//! ([`Metric::Graded`], [`Metric::Nuggets`], [`Metric::Comprehensiveness`], [`Metric::Diversity`])
//! come from outside; [`crate::EvalQuestion::judge_task`] returns what to ask the judge. [`Needle`]
//! recognises the evidence for a question, which tells at what step an answer went wrong.

mod choice;
mod claim;
mod evidence;
mod judging;
mod overlap;
mod porter;
mod rouge;
mod scoring;

pub use choice::{ChoiceOption, chosen_letter, most_alike};
pub use claim::{pair_accuracy, verdict};
pub use evidence::{EvidenceReach, Needle, PassageOfUnit};
pub(crate) use judging::scores_of;
pub use overlap::{locomo_f1, locomo_sub_answers_f1, squad_exact_match, squad_f1};
pub use rouge::rouge_l;
pub use scoring::{AnswerScores, Metric, RecordedOutcome, says_not_mentioned};
