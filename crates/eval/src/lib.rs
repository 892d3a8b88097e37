//! Evaluation on public data sets: scores rankings of their units, answers to their questions and
//! readers of their passages, and reports the results.
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
//!   wrong answers ──AnswerMiss::of──► what was expected, what came, and which step went wrong
//!   several reports ──compare──► side by side
//!
//! reading (the caller has the passages read)
//!   file ──reading::read_questions──► questions, each with its passage
//!     └──(reader)──► ReadingRecord::new ──ReadingReport::new──► text, JSON
//! ```
//!
//! Nothing here searches or answers, so that anything that does can be measured in the same way. To
//! add a data set, add one file under `dataset/` and one line in [`FORMATS`]. The data sets
//! themselves are never part of this crate: their licences differ, and they are read from where the
//! user keeps them.

mod answer_report;
pub mod answers;
mod bootstrap;
pub mod calibration;
mod dataset;
mod error;
mod log;
mod mean;
mod metrics;
pub mod reading;
mod report;
mod summary;
mod table;
mod variant;

pub use answer_report::{AnswerReport, Comparison, compare};
pub use dataset::{
    DatasetFormat, EvalQuestion, FORMATS, Haystack, Haystacks, KEPT_USER, Places, Scoring, Survey,
    Unit, UnitDocument, UnitKind,
};
pub use error::Error;
pub use log::{
    AnswerCost, AnswerLog, AnswerMiss, AnswerRecord, JudgeCost, MissKind, RunIdentity, fingerprint,
};
pub use mean::{AnswerLatency, MetricMean};
pub use metrics::{Cutoffs, Scores};
pub use report::{RetrievalReport, Run, Tally};
pub use summary::summary;
pub use variant::{
    Finds, FoundUnit, Lookup, Method, PartMerging, RetrievalPlan, RetrievalVariant, Search,
    Settings,
};
