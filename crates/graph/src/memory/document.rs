//! Documents with their extractions, as the graph takes them.

use clew_core::{DocumentId, Extraction, Span, Version};

/// Segment of a document with its extraction.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSegment {
    /// Index among the document's segments, from 0; unique in the document.
    pub ordinal: u32,
    /// Byte range in the document's text.
    pub span: Span,
    /// Extraction of the segment. Its spans are relative to the segment's text.
    pub extraction: Extraction,
}

/// Version of a document with the extractions of its segments.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphDocument {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Title: an entity that each of its segments mentions. May be empty.
    pub title: String,
    /// Segments of the document.
    pub segments: Vec<GraphSegment>,
}
