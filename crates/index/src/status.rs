//! What is due.

use clew_core::{DocumentId, Version};

/// A document version whose chunks are to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDocument {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Bytes of its text.
    pub bytes: u64,
    /// How often it failed already.
    pub attempts: u32,
}
