//! Evaluation of retrieval: reads public data sets, scores rankings of their units, reports.
//!
//! ```text
//! files ──Format::open──► haystacks: units + questions with gold units
//!                             │ (the caller ingests the units and searches for the questions)
//! ranking of unit ids ──Tally::add──► scores per question ──Tally::report──► Report
//! ```
//!
//! Nothing here searches, so that any search can be measured with the same yardstick. A data set is
//! added as one file under `dataset/` and one line in [`FORMATS`]. The data sets themselves are never
//! part of this crate: their licences differ, and they are read from where the user keeps them.

mod bootstrap;
mod dataset;
mod error;
mod metrics;
mod report;

pub use dataset::{FORMATS, Format, Haystack, Haystacks, Question, Unit, UnitKind};
pub use error::Error;
pub use metrics::{Cutoffs, Scores};
pub use report::{Report, Run, Tally};
