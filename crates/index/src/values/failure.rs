//! Failed attempts to index documents.

use clew_core::{DocumentId, ErrorKind, Stage, Timestamp, Version};

/// Failed attempt to index a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The document.
    pub document_id: DocumentId,
    /// Version that was tried.
    pub version: Version,
    /// Stage at which it failed.
    pub stage: Stage,
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Message for callers.
    pub message: String,
    /// Time of the next attempt. `None` sets the document aside. In any case it is set aside after
    /// [`crate::Tuning::attempts`] failed attempts.
    pub next_try: Option<Timestamp>,
}
