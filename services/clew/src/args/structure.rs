//! The shape of trees and graphs.

use clap::Args;
use clew_core::StructureSettings;

/// How trees of summaries and the graph are made.
#[derive(Clone, Copy, Debug, Args)]
pub struct StructureArgs {
    /// Make neither trees nor a graph: documents take less work, and the strategies that walk them cannot
    /// be used.
    #[arg(long)]
    pub no_structure: bool,
    /// Most tokens of a segment, the leaf of a tree [default: 600].
    #[arg(long, conflicts_with = "no_structure")]
    pub segment_tokens: Option<u32>,
    /// Most children of a node of a tree [default: 8].
    #[arg(long, conflicts_with = "no_structure")]
    pub max_children: Option<u32>,
    /// Most bytes of a summary [default: 800].
    #[arg(long, conflicts_with = "no_structure")]
    pub summary_bytes: Option<u32>,
}

impl StructureArgs {
    /// What was asked for; `None` for neither trees nor a graph.
    pub fn settings(self) -> Option<StructureSettings> {
        let default = StructureSettings::default();
        (!self.no_structure).then(|| StructureSettings {
            segment_tokens: self.segment_tokens.unwrap_or(default.segment_tokens),
            max_children: self.max_children.unwrap_or(default.max_children),
            summary_bytes: self.summary_bytes.unwrap_or(default.summary_bytes),
        })
    }
}
