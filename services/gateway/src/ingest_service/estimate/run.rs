//! The ingestion that is estimated.

use clew_proto::ingest::v1 as wire;

/// Size of the whole ingestion.
pub(super) struct Run {
    pub documents: u64,
    pub text_bytes: u64,
}

impl Run {
    /// Reads the size from a request. Text belongs to at least one document.
    pub(super) fn of(request: &wire::EstimateIngestionRequest) -> Self {
        let wire::EstimateIngestionRequest { documents, text_bytes, .. } = *request;
        Self { documents: documents.max(u64::from(text_bytes > 0)), text_bytes }
    }

    /// Scales an `amount` of `documents` documents to all documents of the ingestion.
    pub(super) fn share(&self, amount: u64, documents: u64) -> u64 {
        (amount as f64 * self.documents as f64 / documents.max(1) as f64).ceil() as u64
    }
}
