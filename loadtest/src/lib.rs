//! Load test for a server: sends requests at a fixed rate, whether or not earlier ones are
//! answered.
//!
//! A [`Scenario`] says what is asked, how often, and what is expected. [`run`] creates corpora
//! whose facts are known, sends requests when they are due, judges each answer, and observes the
//! server meanwhile. Latencies count from when a request was *due*, so a server that stalls shows
//! it, however few requests it lets through. Nothing is left out silently: a request that is not
//! sent is counted with its reason.

mod connect;
mod expectation;
mod local;
mod metrics;
mod observe;
mod outcome;
mod record;
pub mod report;
mod requests;
mod run;
mod scenario;
mod schedule;
mod texts;
mod verdict;

pub use connect::{ClientKey, Target};
pub use expectation::Expectation;
pub use local::LocalServer;
pub use metrics::ServerPart;
pub use observe::{Figure, Observed, Sample};
pub use outcome::StatusKey;
pub use record::{Latency, LoadPoint, Percentile};
pub use report::Report;
pub use run::{RunPlan, run};
pub use scenario::{
    AnswerSettings, BatchSettings, CorpusShape, Flow, Ladder, Phase, RequestKind, Scenario,
    SearchSettings, Tenant,
};
pub use schedule::{Arrivals, Schedule};
pub use verdict::ExpectationVerdict;
