//! How compressed memories are formed.

use clap::Args;
use clew_core::MemorySettings;

/// How compressed memories are formed.
#[derive(Clone, Copy, Debug, Args)]
pub struct MemoryFormArgs {
    /// Form compressed memories with the encoders' memory model, which keeps one token for so many, 1 to 128
    /// [default: none are formed].
    #[arg(long, value_name = "R")]
    pub memory_ratio: Option<u32>,
    /// About how many tokens one memory covers, 256 to 4,000,000; more documents make another.
    #[arg(long, value_name = "TOKENS", default_value_t = 100_000, requires = "memory_ratio")]
    pub memory_segment_tokens: u32,
}

impl MemoryFormArgs {
    /// The settings; `None`: no memories.
    pub fn settings(self) -> Option<MemorySettings> {
        let segment_tokens = self.memory_segment_tokens;
        self.memory_ratio.map(|ratio| MemorySettings { ratio, segment_tokens })
    }
}
