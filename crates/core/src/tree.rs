//! Tree of summaries over a corpus ("Walking Down the Memory Maze", section 3): its nodes, and the
//! trait by which they are reached.
//!
//! A document is cut into *segments*. Each segment has a summary, and so has each group of
//! neighbouring summaries, up to one *root* for each document. Above the documents of a shard
//! stands an *upper tree* over their roots, grouped by document id. While it is still being built,
//! there are several *tops* instead of one.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{DocumentId, Error, Evidence, Filter, Partial, ShardIndex, Span, Version, Violations};

/// Settings of the tree and graph of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureSettings {
    /// Maximum number of tokens of a segment, by the corpus' encoder. Whole sentences are packed up
    /// to it. QRMeM reads segments of 600 tokens; MemWalker of 1,000 (QuALITY, SummScreenFD) to
    /// 1,200 (GovReport).
    pub segment_tokens: u32,
    /// Maximum number of children of a node. MemWalker groups eight (QuALITY, SummScreenFD) or ten
    /// (GovReport).
    pub max_children: u32,
    /// Maximum length of a summary, in bytes.
    pub summary_bytes: u32,
}

impl Default for StructureSettings {
    fn default() -> Self {
        Self { segment_tokens: 600, max_children: 8, summary_bytes: 800 }
    }
}

impl StructureSettings {
    /// Adds everything that cannot work to `violations`.
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

/// Id of a node of a corpus' tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TreeNodeId {
    /// Node over the text of one document version.
    Document {
        /// Id of the document.
        document_id: DocumentId,
        /// Version of the document.
        version: Version,
        /// Level of the node; 0 for a segment.
        level: u32,
        /// Position among the document's nodes of that level, from 0.
        ordinal: u32,
    },
    /// Node above documents.
    Upper {
        /// Shard that has the node.
        shard: ShardIndex,
        /// Key of the node.
        key: CorpusTreeKey,
    },
}

impl fmt::Display for TreeNodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { document_id, level, ordinal, .. } => {
                write!(f, "{document_id}#{level}.{ordinal}")
            }
            Self::Upper { shard, key } => write!(f, "{shard}/{key}"),
        }
    }
}

/// Key of a node above documents: a hash of the keys of its children, so that a node whose children
/// change is another node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorpusTreeKey(pub [u8; 16]);

impl CorpusTreeKey {
    /// Returns the key of a node above `children`.
    pub fn above(children: &[CorpusTreeKey]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("clew upper node v1");
        for CorpusTreeKey(child) in children {
            hasher.update(child);
        }
        Self::of(&hasher)
    }

    /// Returns the key that stands for the tree of a document version among the children of a node
    /// above documents. `recipe` is the number of the recipe by which that tree was made.
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

    /// Parses a key from 32 hexadecimal digits. Returns `None` for anything else.
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

impl fmt::Display for CorpusTreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CorpusTreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Node of a tree of summaries, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode {
    /// Id of the node.
    pub id: TreeNodeId,
    /// Title of the document; empty above documents, and if there is none.
    pub title: String,
    /// Summary of what it covers.
    pub summary: String,
    /// Range of the document's text that it covers; `None` above documents.
    pub span: Option<Span>,
    /// First and last document of its shard that it covers, in the order of ids.
    pub documents: (DocumentId, DocumentId),
    /// Size of the text that it covers, in bytes.
    pub bytes: u64,
    /// Number of its children; 0 for a segment.
    pub children: u32,
    /// Vector of the summary, of `[dimension]`, by the model that the reader named. `None` if the
    /// reader named no model or no vector of that model is stored.
    pub vector: Option<Vec<f32>>,
}

/// Query for nodes of a shard's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeQuery {
    /// Nodes that are wanted.
    pub nodes: WantedNodes,
    /// Fingerprint of the model whose vectors of the summaries are wanted. `None` for nodes without
    /// vectors.
    pub encoder: Option<String>,
}

/// Nodes of a shard's tree that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedNodes {
    /// Nodes through which all documents with trees can be reached.
    Tops {
        /// Documents whose nodes come first if there are more nodes than the limit.
        first: Vec<DocumentId>,
        /// Maximum number of nodes.
        limit: usize,
    },
    /// Roots of these documents' trees.
    Roots(Vec<DocumentId>),
    /// Children of this node, in order.
    Children(TreeNodeId),
}

/// Tree of a corpus. Each result names the shards that should have been asked and did not answer.
/// If none answered, the call fails.
#[async_trait]
pub trait Tree: Send + Sync {
    /// Returns the nodes at the top. Everything that `filter` admits can be reached through them.
    /// They are a few hundred at most. If there are more, the result holds those of the documents
    /// that a search for `question` finds first. They have the stored vectors of their summaries by
    /// the model with the fingerprint `encoder`, if it is given.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `NO_STRUCTURE` if the settings of
    /// the corpus give it no tree, and [`crate::ErrorKind::Unavailable`] or
    /// [`crate::ErrorKind::DeadlineExceeded`] if no shard answers.
    async fn tops(
        &self,
        question: &str,
        filter: &Filter,
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error>;

    /// Returns the children of a node, in order. A segment has none, and neither has a node that no
    /// longer exists because what it covers has changed. They have vectors as those of
    /// [`Self::tops`] do.
    ///
    /// # Errors
    /// Returns the errors of [`Self::tops`].
    async fn children(
        &self,
        node: &TreeNodeId,
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error>;

    /// Returns the text of a segment; `None` if the segment no longer exists or the node is not a
    /// segment.
    ///
    /// # Errors
    /// Returns the errors of [`Self::tops`].
    async fn segment(
        &self,
        node: &TreeNodeId,
        deadline: Instant,
    ) -> Result<Partial<Option<Evidence>>, Error>;

    /// Returns whether `found` lies in a text that `node` covers.
    fn covers(&self, node: &TreeNode, found: &Evidence) -> bool;
}
