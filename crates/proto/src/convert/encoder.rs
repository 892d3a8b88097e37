//! `clew.encoder.v1`.

use std::time::Duration;

use bytes::Bytes;
use clew_core::{Embedding, EncoderIdentity, Error, Priority, TextKind, Violations};
use tonic::Code;

use crate::corpus::v1::EncoderIdentity as WireIdentity;
use crate::encoder::v1 as wire;
use crate::status::{code_of, kind_of, known_reason};

/// Most bytes of one text of a batch.
pub const TEXT_BYTES: usize = 1 << 20;
/// Longest time that a batch may be given.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Most bytes that the embeddings of one batch may take on the wire, below the 4 MiB of a message.
const EMBEDDINGS_BYTES: usize = 3 << 20;
/// What the wire adds to the vector of one embedding, at most.
const EMBEDDING_OVERHEAD_BYTES: usize = 32;

/// A batch as its server sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Tells its response.
    pub id: u64,
    /// The texts, at least one.
    pub texts: Vec<String>,
    /// What they are.
    pub kind: TextKind,
    /// Who waits.
    pub priority: Priority,
    /// How long it may take.
    pub timeout: Duration,
}

/// Most texts of one batch for an encoder of this dimension, so that their vectors fit into one
/// response.
pub fn max_texts(dimension: u32) -> usize {
    let bytes = dimension as usize * size_of::<f32>() + EMBEDDING_OVERHEAD_BYTES;
    (EMBEDDINGS_BYTES / bytes).max(1)
}

/// An encoder's identity from the wire.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming each field at fault.
pub fn identity_from_wire(identity: Option<WireIdentity>) -> Result<EncoderIdentity, Error> {
    let Some(WireIdentity { model, revision, dimension, max_tokens }) = identity else {
        return Err(Error::invalid("identity", "expected the identity of an encoder, got none"));
    };
    let mut violations = Violations::default();
    if model.is_empty() || revision.is_empty() {
        violations.push("identity", "expected a model with a revision, got an empty name");
    }
    if !(1..=1 << 16).contains(&dimension) {
        violations.push("identity.dimension", format!("expected 1 to 65536, got {dimension}"));
    }
    if max_tokens == 0 {
        violations.push("identity.max_tokens", "expected at least 1, got 0");
    }
    violations.into_result()?;
    Ok(EncoderIdentity { model, revision, dimension, max_tokens })
}

/// A batch to the wire.
pub fn batch_to_wire(batch: Batch) -> wire::EmbedRequest {
    let Batch { id, texts, kind, priority, timeout } = batch;
    let kind = match kind {
        TextKind::Passage => wire::TextKind::Passage,
        TextKind::Query => wire::TextKind::Query,
    };
    let priority = match priority {
        Priority::Interactive => wire::Priority::Interactive,
        Priority::Bulk => wire::Priority::Bulk,
    };
    // What is over in less than the shortest time that a server takes is decided here anyway.
    let timeout = timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT);
    let timeout = prost_types::Duration {
        seconds: timeout.as_secs() as i64,
        nanos: timeout.subsec_nanos() as i32,
    };
    let (kind, priority, timeout) = (kind.into(), priority.into(), Some(timeout));
    wire::EmbedRequest { id, texts, kind, priority, timeout }
}

/// A batch from the wire, for an encoder of this dimension.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming each field at fault.
pub fn batch_from_wire(request: wire::EmbedRequest, dimension: u32) -> Result<Batch, Error> {
    let mut violations = Violations::default();
    let kind = match request.kind() {
        wire::TextKind::Passage => Some(TextKind::Passage),
        wire::TextKind::Query => Some(TextKind::Query),
        wire::TextKind::Unspecified => None,
    };
    if kind.is_none() {
        violations.push("kind", format!("expected passage or query, got {}", request.kind));
    }
    let priority = match request.priority() {
        wire::Priority::Interactive => Some(Priority::Interactive),
        wire::Priority::Bulk => Some(Priority::Bulk),
        wire::Priority::Unspecified => None,
    };
    if priority.is_none() {
        let problem = format!("expected interactive or bulk, got {}", request.priority);
        violations.push("priority", problem);
    }
    let timeout = request.timeout.and_then(|timeout| Duration::try_from(timeout).ok());
    let timeout = timeout.filter(|t| (Duration::from_millis(1)..=MAX_TIMEOUT).contains(t));
    if timeout.is_none() {
        violations.push("timeout", "expected 1 ms to an hour");
    }
    let (texts, most) = (request.texts, max_texts(dimension));
    if texts.is_empty() || texts.len() > most {
        violations.push("texts", format!("expected 1 to {most} texts, got {}", texts.len()));
    }
    if let Some(at) = texts.iter().position(|text| text.len() > TEXT_BYTES) {
        let problem = format!("expected at most {TEXT_BYTES} bytes, got {}", texts[at].len());
        violations.push(format!("texts[{at}]"), problem);
    }
    violations.into_result()?;
    match (kind, priority, timeout) {
        (Some(kind), Some(priority), Some(timeout)) => {
            Ok(Batch { id: request.id, texts, kind, priority, timeout })
        }
        _ => Err(Error::internal("a field that is missing was not refused")),
    }
}

/// What became of a batch, to the wire.
pub fn result_to_wire(id: u64, result: Result<Vec<Embedding>, Error>) -> wire::EmbedResponse {
    let result = match result {
        Ok(embeddings) => {
            let embeddings = embeddings.into_iter().map(embedding_to_wire).collect();
            wire::embed_response::Result::Embeddings(wire::Embeddings { embeddings })
        }
        Err(error) => wire::embed_response::Result::Refusal(wire::Refusal {
            code: code_of(error.kind()).into(),
            reason: error.reason().to_owned(),
            message: error.message().to_owned(),
            retryable: error.is_retryable(),
            retry_delay: error.retry_after().and_then(|delay| delay.try_into().ok()),
        }),
    };
    wire::EmbedResponse { id, result: Some(result) }
}

/// The embeddings of a batch of `texts` texts from the wire.
///
/// # Errors
/// The refusal; [`clew_core::ErrorKind::Internal`] for a response that does not fit the request.
pub fn result_from_wire(
    response: wire::EmbedResponse,
    texts: usize,
    dimension: u32,
) -> Result<Vec<Embedding>, Error> {
    let unfit = |problem: String| Err(Error::internal(format!("an encoder sent {problem}")));
    let embeddings = match response.result {
        Some(wire::embed_response::Result::Embeddings(embeddings)) => embeddings.embeddings,
        Some(wire::embed_response::Result::Refusal(refusal)) => return Err(refused(refusal)),
        None => return unfit("a response without a result".to_owned()),
    };
    if embeddings.len() != texts {
        return unfit(format!("{} vectors for {texts} texts", embeddings.len()));
    }
    let expected = dimension as usize * size_of::<f32>();
    if let Some(other) = embeddings.iter().find(|embedding| embedding.vector.len() != expected) {
        return unfit(format!("a vector of {} bytes instead of {expected}", other.vector.len()));
    }
    Ok(embeddings.into_iter().map(embedding_from_wire).collect())
}

fn refused(refusal: wire::Refusal) -> Error {
    let kind = kind_of(Code::from_i32(refusal.code));
    let error = Error::new(kind, known_reason(&refusal.reason), refusal.message);
    match refusal.retry_delay.and_then(|delay| Duration::try_from(delay).ok()) {
        Some(delay) => error.with_retry_after(delay),
        None => error,
    }
}

fn embedding_to_wire(embedding: Embedding) -> wire::Embedding {
    let Embedding { vector, tokens, truncated } = embedding;
    let vector: Bytes = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    wire::Embedding { vector, tokens, truncated }
}

fn embedding_from_wire(embedding: wire::Embedding) -> Embedding {
    let wire::Embedding { vector, tokens, truncated } = embedding;
    let (values, _rest) = vector.as_chunks::<4>();
    let vector = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    Embedding { vector, tokens, truncated }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    fn batch() -> Batch {
        Batch {
            id: 7,
            texts: vec!["one".to_owned(), "two".to_owned()],
            kind: TextKind::Query,
            priority: Priority::Bulk,
            timeout: Duration::from_millis(1500),
        }
    }

    #[test]
    fn batches_and_embeddings_survive_the_wire() {
        assert_eq!(batch_from_wire(batch_to_wire(batch()), 3).unwrap(), batch());
        let embeddings = vec![
            Embedding { vector: vec![0.6, -0.8, 0.0], tokens: 3, truncated: false },
            Embedding { vector: vec![1.0, 0.0, f32::MIN_POSITIVE], tokens: 64, truncated: true },
        ];
        let sent = result_to_wire(7, Ok(embeddings.clone()));
        assert_eq!(sent.id, 7);
        assert_eq!(result_from_wire(sent.clone(), 2, 3).unwrap(), embeddings);
        for (texts, dimension) in [(1, 3), (2, 4)] {
            let unfit = result_from_wire(sent.clone(), texts, dimension).unwrap_err();
            assert_eq!(unfit.kind(), ErrorKind::Internal);
        }
    }

    #[test]
    fn a_refusal_keeps_kind_reason_and_delay() {
        let full = Error::exhausted("the queue", Duration::from_millis(40));
        let back = result_from_wire(result_to_wire(1, Err(full)), 1, 3).unwrap_err();
        assert_eq!((back.kind(), back.reason()), (ErrorKind::Exhausted, "RESOURCE_EXHAUSTED"));
        assert_eq!(back.retry_after(), Some(Duration::from_millis(40)));
    }

    #[test]
    fn a_batch_is_refused_with_every_field_at_fault() {
        let error = batch_from_wire(wire::EmbedRequest::default(), 3).unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["kind", "priority", "timeout", "texts"]);
        let mut long = batch();
        long.texts[1] = "x".repeat(TEXT_BYTES + 1);
        let error = batch_from_wire(batch_to_wire(long), 3).unwrap_err();
        assert_eq!(error.violations()[0].field, "texts[1]");
    }

    #[test]
    fn the_largest_batch_fits_into_a_message() {
        use prost::Message;
        for dimension in [1, 64, 384, 4096] {
            let vector = vec![1.0; dimension as usize];
            let embedding = Embedding { vector, tokens: u32::MAX, truncated: true };
            let embeddings = vec![embedding; max_texts(dimension)];
            let bytes = result_to_wire(u64::MAX, Ok(embeddings)).encoded_len();
            assert!(bytes < 4 << 20, "{dimension}: {bytes}");
        }
    }
}
