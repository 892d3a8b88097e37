//! A range of a stored document.

use crate::{DocumentId, Span, Version};

/// Range of a stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRange {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Byte range of the document's text.
    pub span: Span,
}
