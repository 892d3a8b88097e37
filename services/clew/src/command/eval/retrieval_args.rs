//! Arguments of `clew eval retrieval`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clew_chat::Smoothing;
use clew_core::KeyDesign;

use crate::args::chat::TimeChoice;
use crate::args::chunking::ChunkingArgs;
use crate::args::search::ModeChoice;

/// Ways of smoothing scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmoothingChoice {
    /// Scores stay as they are.
    None,
    /// Weights that are best for single turns.
    Turns,
}

impl SmoothingChoice {
    /// Returns the weights. Returns `None` if scores stay as they are.
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
    /// Data set: multihop, locomo, longmemeval, lihua, beam or squad.
    #[arg(long)]
    pub format: String,
    /// Folder or file of the data set.
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,
    /// Unit that is retrieved, such as turn, round or session [default: the data set's usual unit].
    /// Several units, with commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',')]
    pub unit: Vec<clew_eval::UnitKind>,
    /// Part of the data set, such as 100K of beam.
    #[arg(long)]
    pub split: Option<String>,
    /// Way of matching passages. Several, with commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hybrid")]
    pub mode: Vec<ModeChoice>,
    /// Key by which units of a conversation are found: value (all that is said), user (all but what
    /// assistants say), date, previous (the turn before), fact, phrase, summary, event, some of
    /// these with + between them, or default, which is date+previous+fact+value. Several keys, with
    /// commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',', default_value = "value")]
    pub keys: Vec<KeyDesign>,
    /// Way of merging the parts of a key: key (in one text) or rank (each indexed by itself, with
    /// the rankings fused by reciprocal ranks), or both with a comma between them. A key of one
    /// part is measured once.
    #[arg(long, value_delimiter = ',', default_value = "key")]
    pub merging: Vec<clew_eval::PartMerging>,
    /// Store turns and recall units as the chat service does, instead of searching.
    #[arg(long, conflicts_with_all = ["mode", "keys", "merging", "smoothing", "strategy"])]
    pub as_turns: bool,
    /// Way of smoothing scores of units over their session. Several, with commas between them, are
    /// measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none")]
    pub smoothing: Vec<SmoothingChoice>,
    /// Use of the time that a question asks about, if it is known when the question was asked.
    /// Several, with commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ignore")]
    pub time: Vec<TimeChoice>,
    /// Strategies to measure besides the searches, with commas between them. What a strategy reads
    /// is ranked.
    #[arg(long, value_delimiter = ',')]
    pub strategy: Vec<String>,
    /// Let the configured reranker, or else the reader, order this many of the best candidates of
    /// each search, at most 200, or as many as the search returns if they are more.
    #[arg(long, value_name = "CANDIDATES", conflicts_with = "as_turns")]
    pub rerank: Option<usize>,
    /// Cut-offs of the metrics.
    #[arg(long, default_value = "2,5,10")]
    pub k: clew_eval::Cutoffs,
    #[command(flatten)]
    pub cutting: ChunkingArgs,
    /// Write the report as JSON to this file, in addition to what is printed. If several things are
    /// measured, it is an array of reports.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

impl RetrievalArgs {
    /// Returns the settings to measure in all combinations.
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
