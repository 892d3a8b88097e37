//! Figures about documents whose derivation is due.

use clew_core::{DocumentId, Timestamp, Version};

/// Document version whose chunks are to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDocument {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Bytes of its text.
    pub bytes: u64,
    /// Number of attempts that failed so far.
    pub attempts: u32,
}

/// Amount of derivation that is still due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Time at which the oldest document version whose chunks are still to be made was accepted.
    pub oldest_accepted: Option<Timestamp>,
    /// Number of documents whose chunks are still to be made, without those set aside.
    pub waiting: u64,
    /// Number of documents with searchable chunks that do not meet the wanted recipes, without
    /// those set aside.
    pub outdated: u64,
    /// Number of documents whose tree and graph are still to be made, without those set aside.
    pub without_structure: u64,
}
