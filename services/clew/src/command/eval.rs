//! Command `clew eval`: measures quality on public data sets, through the product's own ingestion,
//! search and reading.
//!
//! Each haystack becomes a corpus in a temporary directory, and its units become documents. Units
//! that are longer than a chunk are cut into chunks and reported as a whole.

mod answers;
mod haystack_corpus;
mod json_lines;
mod judging;
mod measured_reader;
mod reading;
mod recalled;
mod retrieval;
mod retrieval_args;

use anyhow::bail;
use clap::{Args, Subcommand};

use self::answers::{AnswersArgs, CompareArgs};
use self::reading::ReadingArgs;
use self::retrieval_args::RetrievalArgs;
use crate::args::global::GlobalArgs;
use crate::output::Output;

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    #[command(subcommand)]
    pub action: EvalAction,
}

/// Measurements.
#[derive(Debug, Subcommand)]
pub enum EvalAction {
    /// Measure recall, NDCG and MRR of retrieval.
    Retrieval(RetrievalArgs),
    /// Score answers against reference answers; continues where an interrupted run stopped. A
    /// language model judges the answers too if the configuration has a section `judge`.
    Answers(AnswersArgs),
    /// Measure the reader by itself: the words that it finds in given passages, and how well it
    /// knows when there are none.
    Reading(ReadingArgs),
    /// Show finished runs of `eval answers` side by side.
    Compare(CompareArgs),
}

/// Runs a measurement.
pub async fn run(global: &GlobalArgs, arguments: EvalArgs, output: &Output) -> anyhow::Result<()> {
    if global.endpoint.is_some() {
        bail!("`clew eval` makes corpora of its own in this process; leave --endpoint out");
    }
    match arguments.action {
        EvalAction::Retrieval(arguments) => retrieval::run(global, &arguments, output).await,
        EvalAction::Answers(arguments) => answers::run(global, arguments, output).await,
        EvalAction::Reading(arguments) => reading::run(global, &arguments, output).await,
        EvalAction::Compare(arguments) => answers::compare(&arguments, output),
    }
}
