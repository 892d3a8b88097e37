//! Rows of the tables without their texts: what is known of each document.

use clew_core::{ContentHash, FailureStatus, Labels, Recipe, SourceVersion, Timestamp, Version};

/// Row of `sources`, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    pub version: Version,
    pub content_hash: ContentHash,
    pub accepted_at: Timestamp,
    /// Bytes of the text.
    pub bytes: u64,
    /// Labels that a caller must hold to see it.
    pub labels: Labels,
    /// Number by which its source orders its states, if it came with one.
    pub source_version: Option<SourceVersion>,
}

/// Rows of `chunks` that one recipe made of one document version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkFacts {
    pub version: Version,
    pub recipe: Recipe,
    pub chunks: u64,
    pub tokens: u64,
    /// Whether each ordinal from 0 is there once. If not, and nobody is writing the others
    /// ([`Growing`]), the rows are swept and made again.
    pub is_whole: bool,
}

/// Chunks of a document version that are being written in parts. Only the shard's writer knows of
/// it: after a restart, nobody goes on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growing {
    pub version: Version,
    pub recipe: Recipe,
    /// Number of chunks of the first part, which is written last.
    pub first: u32,
    /// Ordinal of the next chunk, unless there are no more but those of the first part.
    pub next: u32,
}

/// Rows of `nodes` that one recipe made of one document version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub version: Version,
    pub recipe: Recipe,
    /// Number of rows that exist.
    pub rows: u64,
    /// Number of nodes that the tree has.
    pub nodes: u64,
}

impl NodeFacts {
    /// Returns whether all nodes exist. Each place occurs once, since an append continues the
    /// existing rows.
    pub fn is_whole(&self) -> bool {
        self.rows == self.nodes
    }
}

/// Row of `failures`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureFacts {
    pub version: Version,
    pub recipe: Recipe,
    pub status: FailureStatus,
}

/// Rows of all tables about one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub sources: Vec<SourceFacts>,
    pub chunks: Vec<ChunkFacts>,
    /// Which of the chunks are being written in parts.
    pub growing: Option<Growing>,
    pub nodes: Vec<NodeFacts>,
    pub failure: Option<FailureFacts>,
}
