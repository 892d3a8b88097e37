//! Arguments of `clew eval retrieval`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clew_chat::{KeyDesign, Smoothing};

use crate::args::chat::TimeChoice;
use crate::args::chunking::ChunkingArgs;
use crate::args::search::ModeChoice;

/// How scores are smoothed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmoothingChoice {
    /// Scores stay as they are.
    None,
    /// As is best for single turns.
    Turns,
}

impl SmoothingChoice {
    /// The weights; `None` where scores stay as they are.
    pub fn weights(self) -> Option<Smoothing> {
        match self {
            Self::None => None,
            Self::Turns => Some(Smoothing::TURNS),
        }
    }
}

/// Arguments of `eval retrieval`.
#[derive(Debug, Args)]
pub struct RetrievalArgs {
    /// Data set: multihop, locomo, longmemeval, lihua or beam.
    #[arg(long)]
    pub format: String,
    /// Folder or file of the data set.
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,
    /// What is retrieved, such as turn, round or session; by default the data set's usual unit. Several, with
    /// commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',')]
    pub unit: Vec<clew_eval::UnitKind>,
    /// Part of the data set, such as 100K of beam.
    #[arg(long)]
    pub split: Option<String>,
    /// How passages are matched; several, with commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hybrid")]
    pub mode: Vec<ModeChoice>,
    /// By what units of a conversation are found: value (all that is said), user (but by assistants), date,
    /// previous (the turn before), fact, phrase, summary, event, some of these with + between them, or default,
    /// which is date+previous+fact+value; several, with commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',', default_value = "value")]
    pub keys: Vec<KeyDesign>,
    /// How the parts of keys come together: key (in one text) or rank (each is indexed apart, and the rankings
    /// are fused by reciprocal ranks), or both with a comma between them. A key of one part is measured once.
    #[arg(long, value_delimiter = ',', default_value = "key")]
    pub merging: Vec<clew_eval::Merging>,
    /// Keep turns and recall units as the service for conversations does, instead of searching.
    #[arg(long, conflicts_with_all = ["mode", "keys", "merging", "smoothing", "strategy"])]
    pub as_turns: bool,
    /// How scores of units are smoothed over their session; several, with commas between them, are measured
    /// on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none")]
    pub smoothing: Vec<SmoothingChoice>,
    /// What is made of the time that a question asks about, where it is known when it was asked; several, with
    /// commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ignore")]
    pub time: Vec<TimeChoice>,
    /// Ways of answering, besides the searches; several with commas between them. What is ranked is what
    /// each reads.
    #[arg(long, value_delimiter = ',')]
    pub strategy: Vec<String>,
    /// Cut-offs.
    #[arg(long, default_value = "2,5,10")]
    pub k: clew_eval::Cutoffs,
    #[command(flatten)]
    pub cutting: ChunkingArgs,
    /// Write the report as JSON to this file, besides what is printed; where several things are measured an array
    /// of reports, and a summary below their tables.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

impl RetrievalArgs {
    /// What is measured in all combinations.
    pub fn settings(&self) -> clew_eval::Settings {
        clew_eval::Settings {
            keys: self.keys.clone(),
            merging: self.merging.clone(),
            mode: self.mode.iter().map(|mode| (*mode).into()).collect(),
            smoothing: self.smoothing.iter().map(|choice| choice.weights()).collect(),
            time: self.time.iter().map(|time| (*time).into()).collect(),
            strategies: self.strategy.clone(),
        }
    }
}
