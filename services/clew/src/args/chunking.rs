//! Arguments that say how documents are cut into chunks.

use clap::{Args, ValueEnum};
use clew_core::Chunking;

/// Chunking of a corpus.
#[derive(Clone, Copy, Debug, Args)]
pub struct ChunkingArgs {
    /// Way of cutting documents into chunks [default: sections, of a size that suits the encoder].
    #[arg(long, value_enum, requires = "max_tokens")]
    pub chunking: Option<ChunkingChoice>,
    /// Maximum number of tokens of a chunk, at most the encoder's window.
    #[arg(long)]
    pub max_tokens: Option<u32>,
    /// Tokens that neighbouring chunks share; only with `--chunking tokens`.
    #[arg(long, default_value_t = 0)]
    pub overlap_tokens: u32,
}

impl ChunkingArgs {
    /// Returns the requested chunking. Returns `None` for the one that suits the encoder.
    pub fn chunking(self) -> Option<Chunking> {
        let Self { chunking, max_tokens, overlap_tokens } = self;
        max_tokens.map(|max_tokens| match chunking.unwrap_or(ChunkingChoice::Sections) {
            ChunkingChoice::Tokens => Chunking::Tokens { max_tokens, overlap_tokens },
            ChunkingChoice::Sentences => Chunking::Sentences { max_tokens },
            ChunkingChoice::Sections => Chunking::Sections { max_tokens },
        })
    }
}

/// Ways of cutting documents.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChunkingChoice {
    /// Windows of tokens with overlap.
    Tokens,
    /// Whole sentences.
    Sentences,
    /// Paragraphs and Markdown sections.
    Sections,
}
