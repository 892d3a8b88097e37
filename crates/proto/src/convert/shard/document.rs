//! Whole documents of a shard.

use clew_core::{DocumentId, DocumentStatus, Error, Limits, StoredDocument, Version, Violations};

use super::status::{status_from_wire, status_to_wire};
use super::{ShardRefWithAccess, malformed, missing, required_time, shard_from_wire};
use crate::convert::{distinct_document_ids, ingest, timestamp_to_wire};
use crate::ingest::v1 as ingest_wire;
use crate::shard::v1 as wire;

/// Maximum number of documents that one call reads whole.
pub const DOCUMENTS_AT_ONCE: usize = 64;

/// Converts a request for whole documents for the wire; at most [`DOCUMENTS_AT_ONCE`].
pub fn documents_to_wire(
    shard: &ShardRefWithAccess,
    ids: &[DocumentId],
) -> wire::GetDocumentsRequest {
    let document_ids = ids.iter().map(ToString::to_string).collect();
    wire::GetDocumentsRequest { shard: Some(shard.into()), document_ids }
}

/// Converts a request for whole documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn documents_from_wire(
    request: wire::GetDocumentsRequest,
) -> Result<(ShardRefWithAccess, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let got = request.document_ids.len();
    if got > DOCUMENTS_AT_ONCE {
        let problem = format!("expected at most {DOCUMENTS_AT_ONCE}, got {got}");
        violations.push("document_ids", problem);
    }
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, ids))
}

/// Converts a stored document and its status for the wire. `document` is the document with the
/// first part of its text, which the caller has cut.
pub fn stored_to_wire(
    stored: &StoredDocument,
    document: ingest_wire::Document,
    status: &DocumentStatus,
) -> wire::StoredDocument {
    wire::StoredDocument {
        document: Some(document),
        version: stored.version.0,
        accepted_at: Some(timestamp_to_wire(stored.accepted_at)),
        status: Some(status_to_wire(status)),
    }
}

/// Converts a stored document with its whole text, and its status, from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] or [`clew_core::ErrorKind::Internal`] if the
/// message is malformed.
pub fn stored_from_wire(
    stored: wire::StoredDocument,
    limits: &Limits,
) -> Result<(StoredDocument, DocumentStatus), Error> {
    let document = stored.document.ok_or_else(|| malformed("no document"))?;
    let status = stored.status.ok_or_else(|| malformed("no status"))?;
    let document = ingest::document_from_wire(document, limits)?;
    let accepted_at = required_time("accepted_at", stored.accepted_at)?;
    let version = Version(stored.version);
    Ok((StoredDocument { document, version, accepted_at }, status_from_wire(status)?))
}

#[cfg(test)]
mod tests {
    use clew_core::{
        Attributes, Document, DocumentState, ErrorKind, FailureStatus, Labels, MediaType,
        SourceVersion, Stage, Timestamp,
    };

    use super::*;

    #[test]
    fn documents_and_their_states_survive_the_wire() {
        let document = Document {
            id: "a".parse().unwrap(),
            text: "text".to_owned(),
            media_type: MediaType::Markdown,
            title: "title".to_owned(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::parse(["a"]).unwrap(),
            source_version: Some(SourceVersion(6)),
        };
        let accepted_at = Timestamp::from_micros(11);
        let stored =
            StoredDocument { document: document.clone(), version: Version(4), accepted_at };
        let status = DocumentStatus {
            document_id: document.id.clone(),
            state: DocumentState::Retrying,
            version: Version(5),
            live_version: Some(Version(4)),
            accepted_at: Timestamp::from_micros(12),
            bytes: 4,
            chunks: 1,
            nodes: 3,
            tokens: 3,
            failure: Some(FailureStatus {
                stage: Stage::Embedding,
                attempts: 2,
                kind: ErrorKind::Unavailable,
                message: "no encoder".to_owned(),
                next_try: Some(Timestamp::from_micros(99)),
            }),
            labels: Labels::parse(["a", "b"]).unwrap(),
            source_version: Some(SourceVersion(u64::MAX)),
        };
        let wire = stored_to_wire(&stored, ingest::document_to_wire(document), &status);
        assert_eq!(stored_from_wire(wire, &Limits::default()).unwrap(), (stored, status));
    }
}
