//! Arguments that say how passages are matched.

use clap::ValueEnum;
use clew_core::SearchMode;

/// Search modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeChoice {
    /// Embeddings.
    Dense,
    /// Words (BM25).
    Sparse,
    /// Both, fused.
    Hybrid,
}

impl From<ModeChoice> for SearchMode {
    fn from(mode: ModeChoice) -> Self {
        match mode {
            ModeChoice::Dense => Self::Dense,
            ModeChoice::Sparse => Self::Sparse,
            ModeChoice::Hybrid => Self::Hybrid,
        }
    }
}
