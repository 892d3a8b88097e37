//! What is read out of a document, as the graph takes it.

use clew_core::{DocumentId, Extraction, Span, Version};

/// A segment of a document with what was found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSegment {
    /// Position among the document's segments, from 0; no other segment of the document has it.
    pub ordinal: u32,
    /// Byte range of the document's text.
    pub span: Span,
    /// What was found; its spans are relative to the segment's text.
    pub extraction: Extraction,
}

/// A document version with what was found in its segments.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphDocument {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Its title: an entity that each of its segments mentions. May be empty.
    pub title: String,
    /// Its segments.
    pub segments: Vec<GraphSegment>,
}
