//! Tables of a shard, by name.

use std::fmt;

/// Table of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// One row per accepted document version.
    Sources,
    /// One row per chunk.
    Chunks,
    /// One row per node of a document's tree, with the extraction of a segment, and per node of the
    /// corpus tree.
    Nodes,
    /// One row per document that could not be indexed yet.
    Failures,
}

impl TableKind {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Sources, Self::Chunks, Self::Nodes, Self::Failures];

    /// Returns the table's name in the shard's folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Chunks => "chunks",
            Self::Nodes => "nodes",
            Self::Failures => "failures",
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
