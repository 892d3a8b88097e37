//! Command `clew trace`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::output;

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub action: TraceAction,
}

/// Actions on traces.
#[derive(Debug, Subcommand)]
pub enum TraceAction {
    /// Show a trace as a tree on the terminal, or as a picture.
    Show {
        /// File that `clew ask --trace` wrote (`-`: standard input).
        file: PathBuf,
        /// Draw the trace as SVG into this file instead (`-`: standard output).
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
}

/// Shows a trace. Needs neither a server nor data.
pub fn run(arguments: &TraceArgs) -> anyhow::Result<()> {
    let TraceAction::Show { file, svg } = &arguments.action;
    let trace = clew_trace::Trace::read(&output::read(file)?).with_context(|| {
        format!("expected a trace that `clew ask --trace` wrote, got `{}`", file.display())
    })?;
    match svg {
        Some(to) => output::write(to, &clew_trace::svg(&trace)),
        None => output::write(Path::new("-"), &clew_trace::tree(&trace)),
    }
}
