//! What is due.

use clew_core::{DocumentId, Timestamp, Version};

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

/// What is still to be derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// When the oldest document version was accepted whose chunks are still to be made.
    pub oldest_accepted: Option<Timestamp>,
    /// Documents whose chunks are still to be made, those set aside left out.
    pub waiting: u64,
    /// Documents that are found by chunks which lack something, those set aside left out.
    pub outdated: u64,
    /// Documents whose tree and graph are still to be made, those set aside left out.
    pub without_structure: u64,
}
