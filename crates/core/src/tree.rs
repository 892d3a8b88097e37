//! A tree of summaries over a corpus ("Walking Down the Memory Maze", section 3): what its nodes are, and
//! the seam by which they are reached.
//!
//! A document is cut into *segments*. Each segment has a summary, and so has each group of neighbouring
//! summaries, up to one *root* for each document. Above the documents of a shard stands an *upper tree* over
//! their roots, grouped by document id. Where it is still being built there are several *tops* instead of one.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{DocumentId, Error, Evidence, Filter, Partial, ShardIndex, Span, Version, Violations};

/// How the tree and graph of a corpus are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureSettings {
    /// Most tokens of a segment, by the corpus' encoder: whole sentences are packed up to here. QRMeM reads
    /// segments of 600 tokens; MemWalker of 1,000 (QuALITY, SummScreenFD) to 1,200 (GovReport).
    pub segment_tokens: u32,
    /// Most children of a node. MemWalker groups eight (QuALITY, SummScreenFD), or ten (GovReport).
    pub max_children: u32,
    /// Most bytes of a summary.
    pub summary_bytes: u32,
}

impl Default for StructureSettings {
    fn default() -> Self {
        Self { segment_tokens: 600, max_children: 8, summary_bytes: 800 }
    }
}

impl StructureSettings {
    /// Adds what cannot work to `violations`.
    pub fn check(&self, violations: &mut Violations) {
        let bounds = [
            ("corpus.structure.segment_tokens", self.segment_tokens, 64, 8192),
            ("corpus.structure.max_children", self.max_children, 2, 64),
            ("corpus.structure.summary_bytes", self.summary_bytes, 64, 8192),
        ];
        for (field, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                violations.push(field, format!("expected {least} to {most}, got {value}"));
            }
        }
    }
}

/// Which node of a corpus' tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeId {
    /// A node over the text of one document version.
    Document {
        /// The document.
        document_id: DocumentId,
        /// Its version.
        version: Version,
        /// 0 for a segment.
        level: u32,
        /// Position among the document's nodes of that level, from 0.
        ordinal: u32,
    },
    /// A node above documents.
    Upper {
        /// The shard that has it.
        shard: ShardIndex,
        /// What it stands above, see [`UpperKey`].
        key: UpperKey,
    },
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { document_id, level, ordinal, .. } => {
                write!(f, "{document_id}#{level}.{ordinal}")
            }
            Self::Upper { shard, key } => write!(f, "{shard}/{key}"),
        }
    }
}

/// Names a node above documents by what it stands above: a hash of its children, so that a node whose
/// children change is another node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpperKey(pub [u8; 16]);

impl UpperKey {
    /// The key of a node above `children`, by their keys.
    pub fn above(children: &[UpperKey]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("clew upper node v1");
        for UpperKey(child) in children {
            hasher.update(child);
        }
        Self::of(&hasher)
    }

    /// What stands for the tree of a document version, made by the recipe of that number, among the
    /// children of a node above documents.
    pub fn of_document(document: &DocumentId, version: Version, recipe: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("clew document root v1");
        hasher.update(&version.0.to_le_bytes());
        hasher.update(&recipe.to_le_bytes());
        hasher.update(document.as_str().as_bytes());
        Self::of(&hasher)
    }

    fn of(hasher: &blake3::Hasher) -> Self {
        let mut key = [0; 16];
        hasher.finalize_xof().fill(&mut key);
        Self(key)
    }

    /// The key that this hexadecimal text writes.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut key = [0; 16];
        if text.len() != 32 {
            return None;
        }
        for (byte, at) in key.iter_mut().zip((0..32).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }
}

impl fmt::Display for UpperKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UpperKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A node of a tree of summaries, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Which.
    pub id: NodeId,
    /// Title of the document; empty above documents, and where there is none.
    pub title: String,
    /// What it covers, told in short.
    pub summary: String,
    /// The range of the document's text that it covers; `None` above documents.
    pub span: Option<Span>,
    /// First and last document that it covers, in the order of ids, of its shard.
    pub documents: (DocumentId, DocumentId),
    /// Bytes of text that it covers.
    pub bytes: u64,
    /// How many children it has; 0 for a segment.
    pub children: u32,
}

/// Which nodes of a shard's tree are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeQuery {
    /// Those through which all documents with trees can be reached.
    Tops {
        /// Of more than the limit, those that cover one of these documents come first.
        first: Vec<DocumentId>,
        /// Most nodes wanted.
        limit: usize,
    },
    /// The roots of these documents' trees.
    Roots(Vec<DocumentId>),
    /// The children of this node, in order.
    Children(NodeId),
}

/// The tree of a corpus. Each answer names the shards that should have been asked and did not answer; that none did is
/// an error.
#[async_trait]
pub trait Tree: Send + Sync {
    /// The nodes at the top: all that `filter` admits can be reached through them. At most a few hundred;
    /// where there are more, those of the documents that a search for `question` finds first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] with the reason `NO_STRUCTURE` if the corpus has no tree by its
    /// settings; [`crate::ErrorKind::Unavailable`]; [`crate::ErrorKind::DeadlineExceeded`].
    async fn tops(
        &self,
        question: &str,
        filter: &Filter,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error>;

    /// The children of a node, in order; none of a segment, and of a node that is there no more because
    /// what it covers has changed.
    ///
    /// # Errors
    /// As [`Self::tops`].
    async fn children(
        &self,
        node: &NodeId,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error>;

    /// The text of a segment; `None` if it is there no more, or the node is none.
    ///
    /// # Errors
    /// As [`Self::tops`].
    async fn segment(
        &self,
        node: &NodeId,
        deadline: Instant,
    ) -> Result<Partial<Option<Evidence>>, Error>;

    /// Whether what was found stands in a text that `node` covers.
    fn covers(&self, node: &TreeNode, found: &Evidence) -> bool;
}
