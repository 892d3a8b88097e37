//! Readers by themselves: questions with the passage that may answer them, the scores of what a
//! reader finds in it, and their report.

mod calibrated;
mod question;
mod record;
mod report;

pub use calibrated::{AtThreshold, SuggestedCalibration};
pub use question::{ReadingQuestion, read_questions, sample};
pub use record::{ReadingMiss, ReadingRecord};
pub use report::{BestThreshold, ReadingReport, ReadingRun};
