//! How compressed memories of a corpus are formed.

use serde::{Deserialize, Serialize};

use crate::Violations;

/// Maximum number of tokens that one memory covers. Beyond it, a model's positions are far from
/// those it was trained on.
const MOST_SEGMENT_TOKENS: u32 = 4_000_000;
/// Maximum number of tokens for each one that is kept.
const MOST_RATIO: u32 = 128;

/// Settings for forming the compressed memories of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Number of tokens for each one that is kept. The model's window is a multiple of it.
    pub ratio: u32,
    /// Approximate number of tokens that one memory covers. A larger corpus has several memories.
    pub segment_tokens: u32,
}

impl Default for MemorySettings {
    /// Returns the ratio of the published models, and as many tokens as fit into their positions at
    /// it.
    fn default() -> Self {
        Self { ratio: 4, segment_tokens: 100_000 }
    }
}

impl MemorySettings {
    pub(crate) fn check(&self, violations: &mut Violations) {
        if !(1..=MOST_RATIO).contains(&self.ratio) {
            let problem = format!("expected 1 to {MOST_RATIO}, got {}", self.ratio);
            violations.push("corpus.memory.ratio", problem);
        }
        if !(256..=MOST_SEGMENT_TOKENS).contains(&self.segment_tokens) {
            let problem =
                format!("expected 256 to {MOST_SEGMENT_TOKENS}, got {}", self.segment_tokens);
            violations.push("corpus.memory.segment_tokens", problem);
        }
    }
}
