//! Arguments for the shape of trees and graphs.

use clap::Args;
use clew_core::StructureSettings;

/// Settings for trees of summaries and the graph.
#[derive(Clone, Copy, Debug, Args)]
pub struct StructureArgs {
    /// Build neither trees nor a graph. Documents then take less work, and the strategies that walk
    /// trees or the graph cannot be used.
    #[arg(long)]
    pub no_structure: bool,
    /// Maximum number of tokens of a segment, the leaf of a tree [default: 600].
    #[arg(long, conflicts_with = "no_structure")]
    pub segment_tokens: Option<u32>,
    /// Maximum number of children of a tree node [default: 8].
    #[arg(long, conflicts_with = "no_structure")]
    pub max_children: Option<u32>,
    /// Maximum number of bytes of a summary [default: 800].
    #[arg(long, conflicts_with = "no_structure")]
    pub summary_bytes: Option<u32>,
}

impl StructureArgs {
    /// Returns the settings. Returns `None` if neither trees nor a graph are to be built.
    pub fn settings(self) -> Option<StructureSettings> {
        let default = StructureSettings::default();
        (!self.no_structure).then(|| StructureSettings {
            segment_tokens: self.segment_tokens.unwrap_or(default.segment_tokens),
            max_children: self.max_children.unwrap_or(default.max_children),
            summary_bytes: self.summary_bytes.unwrap_or(default.summary_bytes),
        })
    }
}
