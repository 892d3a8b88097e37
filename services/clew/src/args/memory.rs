//! Arguments that say how compressed memories are formed.

use clap::Args;
use clew_core::MemorySettings;

/// Settings for forming compressed memories.
#[derive(Clone, Copy, Debug, Args)]
pub struct MemoryFormArgs {
    /// Form compressed memories that keep one token out of this many, 1 to 128, with the memory
    /// model of the encoders [default: none are formed].
    #[arg(long, value_name = "R")]
    pub memory_ratio: Option<u32>,
    /// Approximate number of tokens that one memory covers, 256 to 4,000,000; further documents
    /// start another memory.
    #[arg(long, value_name = "TOKENS", default_value_t = 100_000, requires = "memory_ratio")]
    pub memory_segment_tokens: u32,
}

impl MemoryFormArgs {
    /// Returns the settings. Returns `None` if no memories are to be formed.
    pub fn settings(self) -> Option<MemorySettings> {
        let segment_tokens = self.memory_segment_tokens;
        self.memory_ratio.map(|ratio| MemorySettings { ratio, segment_tokens })
    }
}
