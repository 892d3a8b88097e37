//! Evaluation on public data sets: scores rankings of their units and answers to their questions,
//! and reports the results.
//!
//! ```text
//! files ──Format::open──► haystacks: units, and questions with gold units and reference answers
//!
//! retrieval (the caller indexes and searches)
//!   haystack + ways ──Plan──► indexes and searches ──(caller)──► Finds ──Plan::ranking──┐
//!   ┌── ranking of unit ids ◄───────────────────────────────────────────────────────────┘
//!   └──Tally::add──► scores per question ──Tally::report──► Report ──summary──► side by side
//!
//! answers (the caller ingests the units and asks the questions)
//!   answer ──AnswerRecord::new──► scores and cost ──AnswerLog::append──► line of a file
//!     └──Question::judge_task──► (judge) ──AnswerRecord::judged──┘
//!   all lines ──AnswerReport::new──► text, JSON, HTML
//!   several reports ──compare──► side by side
//! ```
//!
//! Nothing here searches or answers, so that anything that does can be measured in the same way. To
//! add a data set, add one file under `dataset/` and one line in [`FORMATS`]. The data sets
//! themselves are never part of this crate: their licences differ, and they are read from where the
//! user keeps them.

mod answer_report;
pub mod answers;
mod bootstrap;
mod dataset;
mod error;
mod log;
mod metrics;
mod report;
mod summary;
mod variant;

pub use answer_report::{AnswerReport, Comparison, MetricMean, compare};
pub use dataset::{
    DatasetFormat, EvalQuestion, FORMATS, Haystack, Haystacks, KEPT_USER, Places, Scoring, Survey,
    Unit, UnitDocument, UnitKind,
};
pub use error::Error;
pub use log::{AnswerCost, AnswerLog, AnswerRecord, JudgeCost, RunIdentity};
pub use metrics::{Cutoffs, Scores};
pub use report::{RetrievalReport, Run, Tally};
pub use summary::summary;
pub use variant::{
    Finds, FoundUnit, Lookup, Method, PartMerging, RetrievalPlan, RetrievalVariant, Search,
    Settings,
};
