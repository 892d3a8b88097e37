//! Nodes of summary trees, with the extractions of their segments.

use clew_core::{CorpusTreeKey, DocumentId, Extraction, Labels, Recipe, Span, Version};

use crate::error::{Error, Result};

/// Vector of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryVector {
    encoder: String,
    components: Vec<f32>,
}

/// Node of a document's tree.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// Level in the tree: 0 for a segment.
    pub level: u32,
    /// Position among the nodes of its level, from 0.
    pub ordinal: u32,
    /// Whether it is the root.
    pub is_root: bool,
    /// Range of the document's text that the node covers.
    pub span: Span,
    /// Summary of that range.
    pub summary: String,
    /// Key of what the node was made of: a node with the same key need not be made again.
    pub key: String,
    /// Extraction of a segment, as [`encode`](SegmentNode::encode) writes it. Empty for other
    /// nodes.
    pub extraction: String,
    /// Vector of the summary, if it was embedded.
    pub vector: Option<SummaryVector>,
}

/// Nodes of a document's tree, all or some.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentNodes {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Recipe of the tree.
    pub recipe: Recipe,
    /// Title of the document.
    pub title: String,
    /// Number of nodes that existed when these were made. If their number has changed since, these
    /// are dropped.
    pub known: u64,
    /// Number of nodes of the complete tree.
    pub nodes: u64,
    /// Nodes that do not exist yet.
    pub rows: Vec<NodeRow>,
}

/// Node of the corpus tree.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusTreeRow {
    /// Key of the node, derived from its children.
    pub key: CorpusTreeKey,
    /// Number of levels between the node and the documents, at least 1.
    pub level: u32,
    /// Summary of what it covers.
    pub summary: String,
    /// Vector of the summary, if it was embedded.
    pub vector: Option<SummaryVector>,
}

/// Node of the corpus tree that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    /// Its key.
    pub key: CorpusTreeKey,
    /// Its level.
    pub level: u32,
    /// Summaries of its children, in order.
    pub parts: Vec<String>,
}

/// Segment with its extraction.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentNode {
    /// Position among the document's segments, from 0.
    pub ordinal: u32,
    /// Its range in the document's text.
    pub span: Span,
    /// Its entities and relations.
    pub extraction: Extraction,
}

/// Document whose tree and graph are visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructuredDocument {
    /// Its version.
    pub version: Version,
    /// Recipe of its tree and graph.
    pub recipe: Recipe,
    /// Labels that a caller must hold to see them.
    pub labels: Labels,
}

/// Changes of the visible trees and graphs of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureChanges {
    /// Revision of the state that they led to.
    pub revision: u64,
    /// Whether these are all documents with a tree and graph, and not those that changed.
    pub is_whole: bool,
    /// Documents as they are now; `None` for one without a tree and graph.
    pub documents: Vec<(DocumentId, Option<StructuredDocument>)>,
}

/// Visible segments of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentSegments {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Recipe of the segments.
    pub recipe: Recipe,
    /// Title of the document.
    pub title: String,
    /// The segments, in order.
    pub segments: Vec<SegmentNode>,
}

impl SummaryVector {
    /// Creates the vector that the model with the fingerprint `encoder` made. Returns `None` if it
    /// has no components or one that is not finite: such a vector cannot be compared.
    pub fn new(encoder: String, components: Vec<f32>) -> Option<Self> {
        let is_finite = components.iter().all(|component| component.is_finite());
        (is_finite && !components.is_empty()).then_some(Self { encoder, components })
    }

    /// Returns the fingerprint of the model that made it.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// Returns its components, of `[dimension]`, all finite.
    pub fn components(&self) -> &[f32] {
        &self.components
    }

    /// Returns the components if `encoder` names the model that made them.
    pub(crate) fn by(self, encoder: Option<&str>) -> Option<Vec<f32>> {
        (Some(self.encoder.as_str()) == encoder).then_some(self.components)
    }
}

impl SegmentNode {
    /// Encodes an extraction for storage.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if it cannot be encoded.
    pub fn encode(extraction: &Extraction) -> Result<String> {
        serde_json::to_string(extraction)
            .map_err(|error| Error::invalid("extraction", error.to_string()))
    }
}
