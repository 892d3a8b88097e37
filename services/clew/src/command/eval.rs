//! `clew eval`: quality on public data sets, through the product's own ingestion and search.
//!
//! Each haystack becomes a corpus in a temporary directory; its units become documents, which are cut
//! into parts where they are longer than a chunk and reported whole.

mod answers;
mod haystack_corpus;
mod judging;
mod recalled;
mod retrieval;
mod retrieval_args;

use anyhow::bail;
use clap::{Args, Subcommand};

use self::answers::{AnswersArgs, CompareArgs};
use self::retrieval_args::RetrievalArgs;
use crate::args::global::GlobalArgs;
use crate::output::Output;

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    #[command(subcommand)]
    pub action: EvalAction,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum EvalAction {
    /// Recall, NDCG and MRR of retrieval.
    Retrieval(RetrievalArgs),
    /// Answers against reference answers; goes on where an interrupted run stopped. A language model
    /// judges them too if the configuration has a section `judge`.
    Answers(AnswersArgs),
    /// Finished runs of `eval answers` side by side.
    Compare(CompareArgs),
}

/// Measures.
pub async fn run(global: &GlobalArgs, arguments: EvalArgs, output: &Output) -> anyhow::Result<()> {
    if global.endpoint.is_some() {
        bail!("`clew eval` makes corpora of its own in this process; leave --endpoint out");
    }
    match arguments.action {
        EvalAction::Retrieval(arguments) => retrieval::run(global, &arguments, output).await,
        EvalAction::Answers(arguments) => answers::run(global, arguments, output).await,
        EvalAction::Compare(arguments) => answers::compare(&arguments, output),
    }
}
