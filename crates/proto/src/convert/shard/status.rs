//! Status of the documents of a shard, one by one and in total.

use clew_core::{
    Counts, DocumentState, DocumentStatus, Error, FailureStatus, Labels, ListQuery, SourceVersion,
    Stage, Version,
};

use super::{
    ShardRefWithAccess, malformed, optional_document_id, optional_time, required_time,
    shard_from_wire,
};
use crate::convert::{document_id, ingest, timestamp_to_wire};
use crate::shard::v1 as wire;
use crate::status::{code_of, kind_of};

/// Converts the status of a document for the wire.
pub fn status_to_wire(status: &DocumentStatus) -> wire::DocumentStatus {
    wire::DocumentStatus {
        document_id: status.document_id.to_string(),
        state: state_to_wire(Some(status.state)).into(),
        version: status.version.0,
        live_version: status.live_version.map_or(0, |version| version.0),
        accepted_at: Some(timestamp_to_wire(status.accepted_at)),
        bytes: status.bytes,
        chunks: status.chunks,
        tokens: status.tokens,
        nodes: status.nodes,
        labels: ingest::labels_to_wire(&status.labels),
        source_version: status.source_version.map(|number| number.0),
        failure: status.failure.as_ref().map(|failure| wire::FailureStatus {
            stage: match failure.stage {
                Stage::Chunking => wire::Stage::Chunking.into(),
                Stage::Embedding => wire::Stage::Embedding.into(),
                Stage::Storing => wire::Stage::Storing.into(),
                Stage::Structuring => wire::Stage::Structuring.into(),
            },
            attempts: failure.attempts,
            code: code_of(failure.kind).into(),
            message: failure.message.clone(),
            next_try: failure.next_try.map(timestamp_to_wire),
        }),
    }
}

/// Converts the status of a document from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the message is malformed.
pub fn status_from_wire(status: wire::DocumentStatus) -> Result<DocumentStatus, Error> {
    let state = state_from_wire(status.state)?.ok_or_else(|| malformed("no state"))?;
    let failure = match status.failure {
        None => None,
        Some(failure) => Some(FailureStatus {
            stage: match wire::Stage::try_from(failure.stage) {
                Ok(wire::Stage::Chunking) => Stage::Chunking,
                Ok(wire::Stage::Embedding) => Stage::Embedding,
                Ok(wire::Stage::Storing) => Stage::Storing,
                Ok(wire::Stage::Structuring) => Stage::Structuring,
                Ok(wire::Stage::Unspecified) | Err(_) => return Err(malformed("a stage")),
            },
            attempts: failure.attempts,
            kind: kind_of(tonic::Code::from(failure.code)),
            message: failure.message,
            next_try: optional_time("next_try", failure.next_try)?,
        }),
    };
    Ok(DocumentStatus {
        document_id: document_id("document_id", &status.document_id)?,
        state,
        version: Version(status.version),
        live_version: Some(Version(status.live_version)).filter(|version| version.0 != 0),
        accepted_at: required_time("accepted_at", status.accepted_at)?,
        bytes: status.bytes,
        chunks: status.chunks,
        tokens: status.tokens,
        nodes: status.nodes,
        failure,
        labels: needed_from_wire(&status.labels)?,
        source_version: status.source_version.map(SourceVersion),
    })
}

/// Converts the labels that a document needs from the wire. While it changes from one set of labels
/// to another, there are more than a document may carry.
fn needed_from_wire(labels: &[String]) -> Result<Labels, Error> {
    let mut needed = Labels::default();
    for some in labels.chunks(Labels::MOST) {
        needed = needed.union(&Labels::parse(some).map_err(|_| malformed("labels"))?);
    }
    Ok(needed)
}

/// Converts a request for a page of documents for the wire.
pub fn list_to_wire(shard: &ShardRefWithAccess, asked: &ListQuery) -> wire::ListDocumentsRequest {
    wire::ListDocumentsRequest {
        shard: Some(shard.into()),
        after: asked.after.as_ref().map(ToString::to_string).unwrap_or_default(),
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        state: state_to_wire(asked.state).into(),
    }
}

/// Converts a request for a page of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn list_from_wire(
    request: wire::ListDocumentsRequest,
) -> Result<(ShardRefWithAccess, ListQuery), Error> {
    let after = optional_document_id("after", &request.after)?;
    let state = state_from_wire(request.state)?;
    let asked = ListQuery { after, limit: request.limit as usize, state };
    Ok((shard_from_wire(request.shard)?, asked))
}

/// Converts the totals of a shard for the wire.
pub fn counts_to_wire(counts: Counts) -> wire::CountResponse {
    wire::CountResponse {
        accepted: counts.accepted,
        documents: counts.documents,
        pending: counts.pending,
        retrying: counts.retrying,
        set_aside: counts.set_aside,
        chunks: counts.chunks,
        tokens: counts.tokens,
        bytes: counts.bytes,
        structured: counts.structured,
        unstructured: counts.unstructured,
        nodes: counts.nodes,
    }
}

/// Converts the totals of a shard from the wire.
pub fn counts_from_wire(counts: wire::CountResponse) -> Counts {
    Counts {
        accepted: counts.accepted,
        documents: counts.documents,
        pending: counts.pending,
        retrying: counts.retrying,
        set_aside: counts.set_aside,
        chunks: counts.chunks,
        tokens: counts.tokens,
        bytes: counts.bytes,
        structured: counts.structured,
        unstructured: counts.unstructured,
        nodes: counts.nodes,
    }
}

pub(super) fn state_to_wire(state: Option<DocumentState>) -> wire::DocumentState {
    match state {
        None => wire::DocumentState::Unspecified,
        Some(DocumentState::Indexed) => wire::DocumentState::Indexed,
        Some(DocumentState::Pending) => wire::DocumentState::Pending,
        Some(DocumentState::Retrying) => wire::DocumentState::Retrying,
        Some(DocumentState::SetAside) => wire::DocumentState::SetAside,
    }
}

pub(super) fn state_from_wire(state: i32) -> Result<Option<DocumentState>, Error> {
    match wire::DocumentState::try_from(state) {
        Ok(wire::DocumentState::Unspecified) => Ok(None),
        Ok(wire::DocumentState::Indexed) => Ok(Some(DocumentState::Indexed)),
        Ok(wire::DocumentState::Pending) => Ok(Some(DocumentState::Pending)),
        Ok(wire::DocumentState::Retrying) => Ok(Some(DocumentState::Retrying)),
        Ok(wire::DocumentState::SetAside) => Ok(Some(DocumentState::SetAside)),
        Err(_) => Err(Error::invalid("state", "expected a known state")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_states_are_errors_and_not_panics() {
        assert!(status_from_wire(wire::DocumentStatus::default()).is_err());
    }
}
