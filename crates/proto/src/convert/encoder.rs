//! Conversions of the messages of `clew.encoder.v1`.

mod reader;
mod together;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clew_core::{
    Clues, DraftTask, DraftedClues, Embedding, EncoderIdentity, Error, FormTask, FormedMemory,
    Limits, MemoryModelIdentity, MemoryText, Priority, Scored, TextKind, Violations,
};
use tonic::Code;

use super::query::{cost_from_wire, cost_to_wire, task_from_wire, task_to_wire};
use crate::corpus::v1::EncoderIdentity as WireIdentity;
use crate::encoder::v1 as wire;
use crate::status::{code_of, kind_of, reason_from_wire};

pub use reader::{READ_BYTES, read_from_wire, read_to_wire, reading_from_wire, reading_to_wire};
pub use together::{IncomingSlots, LayerSlots, slots_to_wire, tokens_to_wire};

/// Maximum bytes of one text of a batch.
pub const TEXT_BYTES: usize = 1 << 20;
/// Longest timeout of a batch.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Maximum bytes of the embeddings of one batch on the wire, below the 4 MiB of a message.
const EMBEDDINGS_BYTES: usize = 3 << 20;
/// Maximum bytes that the wire adds to the vector of one embedding.
const EMBEDDING_OVERHEAD_BYTES: usize = 32;

/// Batch of texts to embed, as its server sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedBatch {
    /// Id that the response repeats.
    pub id: u64,
    /// Texts, at least one.
    pub texts: Vec<String>,
    /// Kind of the texts.
    pub kind: TextKind,
    /// Priority of the batch, by who waits for it.
    pub priority: Priority,
    /// Longest time that it may take.
    pub timeout: Duration,
    /// Trace of the caller that waits for it, in the format of W3C Trace Context; empty if there is
    /// none.
    pub trace_parent: String,
    /// Fingerprint of the model to embed them with; empty for the current one of the server.
    pub encoder: String,
}

/// Returns the maximum number of texts of one batch for an encoder of this dimension, so that their
/// vectors fit into one response.
pub fn max_texts(dimension: u32) -> usize {
    let bytes = dimension as usize * size_of::<f32>() + EMBEDDING_OVERHEAD_BYTES;
    (EMBEDDINGS_BYTES / bytes).max(1)
}

/// Retry delay if there is no memory for a snapshot.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum bytes of a snapshot or text in one message.
pub const PART_BYTES: usize = 1 << 20;

/// Converts the identity of a memory model for the wire, with the tokens of the texts of the
/// request.
pub fn memory_model_to_wire(
    identity: MemoryModelIdentity,
    tokens: u64,
) -> wire::DescribeMemoryResponse {
    let MemoryModelIdentity { model, fingerprint, window, slot_bytes, prompts, cache_bytes } =
        identity;
    wire::DescribeMemoryResponse {
        model,
        fingerprint,
        window,
        slot_bytes,
        prompts,
        tokens: Some(tokens),
        cache_bytes,
    }
}

/// Converts texts whose tokens are to be counted for the wire.
pub fn counted_to_wire(texts: Vec<MemoryText>) -> wire::DescribeMemoryRequest {
    let text = |MemoryText { title, text }| wire::MemoryText { title, text: text.into() };
    wire::DescribeMemoryRequest { texts: texts.into_iter().map(text).collect() }
}

/// Converts texts whose tokens are to be counted from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the text if one is not UTF-8.
pub fn counted_from_wire(request: wire::DescribeMemoryRequest) -> Result<Vec<MemoryText>, Error> {
    let text = |(i, text): (usize, wire::MemoryText)| {
        let wire::MemoryText { title, text } = text;
        let text = String::from_utf8(text.into())
            .map_err(|_| Error::invalid(format!("texts[{i}].text"), "expected UTF-8"))?;
        Ok(MemoryText { title, text })
    };
    request.texts.into_iter().enumerate().map(text).collect()
}

/// Converts the identity of a memory model from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if it has no fingerprint or no window.
pub fn memory_model_from_wire(
    response: wire::DescribeMemoryResponse,
) -> Result<MemoryModelIdentity, Error> {
    let wire::DescribeMemoryResponse {
        model,
        fingerprint,
        window,
        slot_bytes,
        prompts,
        tokens: _,
        cache_bytes,
    } = response;
    if fingerprint.is_empty() || window == 0 {
        return Err(Error::invalid(
            "fingerprint",
            "expected a memory model with a window, got none",
        ));
    }
    Ok(MemoryModelIdentity { model, fingerprint, window, slot_bytes, prompts, cache_bytes })
}

/// Converts a task of forming a memory to the messages of its request.
pub fn form_to_wire(task: FormTask) -> Vec<wire::FormMemoryRequest> {
    use wire::form_memory_request::Payload;
    let snapshot = task.begun.map(|begun| Bytes::from_owner(Owned(begun))).unwrap_or_default();
    let begin = wire::BeginMemory { ratio: task.ratio, snapshot_bytes: snapshot.len() as u64 };
    let mut payloads = vec![Payload::Begin(begin)];
    payloads.extend(parts(snapshot).map(Payload::SnapshotPart));
    for MemoryText { title, text } in task.texts {
        let mut texts = parts(Bytes::from(text));
        let text = texts.next().unwrap_or_default();
        payloads.push(Payload::Text(wire::MemoryText { title, text }));
        payloads.extend(texts.map(Payload::TextPart));
    }
    payloads.into_iter().map(|payload| wire::FormMemoryRequest { payload: Some(payload) }).collect()
}

/// Shared bytes that are sent in parts without being copied.
struct Owned(Arc<Vec<u8>>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Cuts a snapshot or a text into parts of at most [`PART_BYTES`].
pub fn parts(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PART_BYTES)))
    })
}

/// Cuts a shared snapshot into [`parts`] without copying it.
pub fn snapshot_parts(snapshot: Arc<Vec<u8>>) -> impl Iterator<Item = Bytes> {
    parts(Bytes::from_owner(Owned(snapshot)))
}

/// Converts a formed memory for the wire: its description, then its snapshot in parts.
pub fn formed_to_wire(
    formed: FormedMemory,
) -> impl Iterator<Item = wire::FormMemoryResponse> + Send + 'static {
    use wire::form_memory_response::Payload;
    let FormedMemory { model, snapshot, tokens, slots } = formed;
    let snapshot_bytes = snapshot.len() as u64;
    let formed = wire::FormedMemory { model, tokens, slots, snapshot_bytes };
    let parts = parts(Bytes::from(snapshot)).map(Payload::SnapshotPart);
    let payloads = std::iter::once(Payload::Formed(formed)).chain(parts);
    payloads.map(|payload| wire::FormMemoryResponse { payload: Some(payload) })
}

/// Bytes that arrive in parts after their number was announced.
#[derive(Debug)]
pub struct Incoming {
    announced: u64,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Creates the receiver of `bytes` bytes. The caller bounds their number.
    pub fn announced(bytes: u64) -> Self {
        Self { announced: bytes, bytes: Vec::new() }
    }

    /// Adds a part.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if more bytes come than were announced, and
    /// [`clew_core::ErrorKind::Exhausted`] if there is no memory for them.
    pub fn add(&mut self, part: &[u8]) -> Result<(), Error> {
        let sum = self.bytes.len() as u64 + part.len() as u64;
        if sum > self.announced {
            return Err(self.unlike(sum));
        }
        if self.bytes.is_empty() {
            // Memory is reserved with the first part: an announcement alone costs nothing, and a
            // transfer that has begun rarely stops.
            let all = usize::try_from(self.announced).unwrap_or(usize::MAX);
            let reserved = self.bytes.try_reserve_exact(all);
            let full = |error| {
                Error::exhausted("the memory for snapshots", RETRY_AFTER).with_source(error)
            };
            reserved.map_err(full)?;
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Returns whether all bytes have arrived.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.announced
    }

    /// Returns all bytes.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if fewer bytes came than were announced.
    pub fn whole(self) -> Result<Vec<u8>, Error> {
        match self.is_whole() {
            true => Ok(self.bytes),
            false => Err(self.unlike(self.bytes.len() as u64)),
        }
    }

    fn unlike(&self, got: u64) -> Error {
        let problem =
            format!("expected the {} bytes that were announced, got {got}", self.announced);
        Error::invalid("snapshot_bytes", problem)
    }
}

/// Question to a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedMemory {
    /// Name of the memory, see [`clew_core::MemoryRecord::key`].
    pub key: String,
    /// Drafts that are wanted.
    pub draft: DraftTask,
    /// Bytes of the snapshot that follows; 0 if none follows.
    pub snapshot_bytes: u64,
}

/// Number of digits of a memory's name.
const KEY_DIGITS: usize = 32;

/// Converts a question to a memory for the wire.
pub fn ask_to_wire(asked: AskedMemory) -> wire::AskMemory {
    let AskedMemory { key, draft, snapshot_bytes } = asked;
    let DraftTask { task, question, answers } = draft;
    wire::AskMemory { key, task: task_to_wire(task).into(), question, snapshot_bytes, answers }
}

/// Converts a question to a memory from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn ask_from_wire(asked: wire::AskMemory, limits: &Limits) -> Result<AskedMemory, Error> {
    let wire::AskMemory { key, task, question, snapshot_bytes, answers } = asked;
    let mut violations = Violations::default();
    if key.len() != KEY_DIGITS || !key.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        violations.push("key", format!("expected {KEY_DIGITS} hexadecimal digits"));
    }
    let task = task_from_wire(task, &mut violations);
    if question.len() > limits.query_bytes {
        let (most, got) = (limits.query_bytes, question.len());
        violations.push("question", format!("expected at most {most} bytes, got {got}"));
    }
    violations.into_result()?;
    Ok(AskedMemory { key, draft: DraftTask { task, question, answers }, snapshot_bytes })
}

/// Converts the drafts of a memory for the wire; `None` if the memory is missing.
pub fn drafted_to_wire(drafted: Option<DraftedClues>) -> wire::GenerateCluesResponse {
    let Some(DraftedClues { clues, memories: _, cost }) = drafted else {
        return wire::GenerateCluesResponse { is_missing: true, ..Default::default() };
    };
    let Clues { queries, clues, key_points, answers } = clues;
    let cost = Some(cost_to_wire(cost));
    wire::GenerateCluesResponse { is_missing: false, queries, clues, key_points, cost, answers }
}

/// Converts the drafts of a memory from the wire. Returns `None` if the memory is missing.
pub fn drafted_from_wire(response: wire::GenerateCluesResponse) -> Option<DraftedClues> {
    let wire::GenerateCluesResponse { is_missing, queries, clues, key_points, cost, answers } =
        response;
    let clues = Clues { queries, clues, key_points, answers };
    let cost = cost.map(cost_from_wire).unwrap_or_default();
    (!is_missing).then_some(DraftedClues { clues, memories: 1, cost })
}

/// Converts the identity of an encoder from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
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

/// Converts a batch for the wire.
pub fn batch_to_wire(batch: EmbedBatch) -> wire::EmbedRequest {
    let EmbedBatch { id, texts, kind, priority, timeout, trace_parent, encoder } = batch;
    let kind = match kind {
        TextKind::Passage => wire::TextKind::Passage,
        TextKind::Query => wire::TextKind::Query,
    };
    let priority = match priority {
        Priority::Interactive => wire::Priority::Interactive,
        Priority::Bulk => wire::Priority::Bulk,
    };
    // Servers refuse timeouts outside these bounds. For shorter ones, the caller's own deadline
    // decides anyway.
    let timeout = timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT);
    let timeout = prost_types::Duration {
        seconds: timeout.as_secs() as i64,
        nanos: timeout.subsec_nanos() as i32,
    };
    let (kind, priority, timeout) = (kind.into(), priority.into(), Some(timeout));
    wire::EmbedRequest { id, texts, kind, priority, timeout, trace_parent, encoder }
}

/// Converts a batch from the wire, for an encoder of this dimension.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn batch_from_wire(request: wire::EmbedRequest, dimension: u32) -> Result<EmbedBatch, Error> {
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
            let (id, trace_parent, encoder) = (request.id, request.trace_parent, request.encoder);
            Ok(EmbedBatch { id, texts, kind, priority, timeout, trace_parent, encoder })
        }
        _ => Err(Error::internal("a field that is missing was not refused")),
    }
}

/// Maximum bytes of the passages of one Rerank request, below the 4 MiB of a message.
pub const RERANKED_BYTES: usize = 3 << 20;

/// Returns the query and the passages of a Rerank request.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn rerank_from_wire(
    request: wire::RerankRequest,
    limits: &Limits,
) -> Result<(String, Vec<String>), Error> {
    let wire::RerankRequest { query, passages } = request;
    let mut violations = Violations::default();
    if query.trim().is_empty() || query.len() > limits.query_bytes {
        let problem = format!("expected 1 to {} bytes, some not white space", limits.query_bytes);
        violations.push("query", problem);
    }
    if !(1..=limits.reranked).contains(&passages.len()) {
        let problem = format!("expected 1 to {}, got {}", limits.reranked, passages.len());
        violations.push("passages", problem);
    }
    violations.into_result()?;
    Ok((query, passages))
}

/// Converts the scores of a reranker for the wire.
pub fn scored_to_wire(scored: Scored) -> wire::RerankResponse {
    wire::RerankResponse { scores: scored.scores, tokens: scored.tokens }
}

/// Converts the scores of a reranker for `passages` passages from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the response does not fit the request.
pub fn scored_from_wire(response: wire::RerankResponse, passages: usize) -> Result<Scored, Error> {
    let wire::RerankResponse { scores, tokens } = response;
    let is_share = |score: &f32| (0.0..=1.0).contains(score);
    if scores.len() != passages || !scores.iter().all(is_share) {
        let problem = format!(
            "a reranker sent {} scores for {passages} passages, or not of 0 to 1",
            scores.len()
        );
        return Err(Error::internal(problem));
    }
    Ok(Scored { scores, tokens })
}

/// Converts the result of a batch for the wire.
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

/// Converts the result of a batch of `texts` texts from the wire.
///
/// # Errors
/// Returns the error of the refusal if the batch was refused, and
/// [`clew_core::ErrorKind::Internal`] if the response does not fit the request.
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
    let error = Error::new(kind, reason_from_wire(refusal.reason), refusal.message);
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
    use clew_core::{ErrorKind, Task};

    use super::*;

    #[test]
    fn what_is_reranked_and_said_of_it_is_checked() {
        let limits = Limits::default();
        let asked = |query: &str, passages: usize| wire::RerankRequest {
            query: query.to_owned(),
            passages: vec!["p".to_owned(); passages],
        };
        let (query, passages) = rerank_from_wire(asked("who?", 200), &limits).unwrap();
        assert_eq!((query.as_str(), passages.len()), ("who?", 200));
        for (query, passages, fault) in [
            (" ", 1, "query"),
            (&*"q".repeat(1 << 15), 1, "query"),
            ("q", 0, "passages"),
            ("q", 201, "passages"),
        ] {
            let error = rerank_from_wire(asked(query, passages), &limits).unwrap_err();
            assert_eq!(error.violations()[0].field, fault);
        }
        let scored = Scored { scores: vec![0.0, 1.0], tokens: 7 };
        let back = |passages| scored_from_wire(scored_to_wire(scored.clone()), passages);
        assert_eq!(back(2).unwrap(), scored);
        assert_eq!(back(3).unwrap_err().kind(), ErrorKind::Internal);
        for bad in [f32::NAN, -0.1, 1.5] {
            let response = wire::RerankResponse { scores: vec![bad], tokens: 1 };
            assert_eq!(scored_from_wire(response, 1).unwrap_err().kind(), ErrorKind::Internal);
        }
    }

    fn batch() -> EmbedBatch {
        EmbedBatch {
            id: 7,
            texts: vec!["one".to_owned(), "two".to_owned()],
            kind: TextKind::Query,
            priority: Priority::Bulk,
            timeout: Duration::from_millis(1500),
            trace_parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            encoder: "00112233aabbccdd".to_owned(),
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
    fn questions_and_drafts_of_memories_survive_the_wire() {
        let asked = AskedMemory {
            key: "0123456789abcdef0123456789abcdef".to_owned(),
            draft: DraftTask { task: Task::Summarise, question: "bees".to_owned(), answers: true },
            snapshot_bytes: 7,
        };
        let limits = Limits::default();
        assert_eq!(ask_from_wire(ask_to_wire(asked.clone()), &limits).unwrap(), asked);
        let question = "x".repeat(limits.query_bytes + 1);
        let draft = DraftTask { question, ..asked.draft };
        let bad = AskedMemory { key: "k".to_owned(), draft, snapshot_bytes: 7 };
        let error = ask_from_wire(ask_to_wire(bad), &limits).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["key", "question"]);
        let (queries, answers) = (vec!["q".to_owned()], vec!["a".to_owned()]);
        let clues = Clues { queries, answers, ..Clues::default() };
        let drafted = DraftedClues { clues, memories: 1, ..DraftedClues::default() };
        let both = [Some(drafted), None];
        assert_eq!(both.clone().map(|it| drafted_from_wire(drafted_to_wire(it))), both);
    }

    #[test]
    fn what_comes_in_parts_is_what_was_announced() {
        let mut incoming = Incoming::announced(3);
        incoming.add(b"ab").unwrap();
        assert!(!incoming.is_whole());
        assert_eq!(incoming.add(b"cd").unwrap_err().kind(), ErrorKind::InvalidInput);
        incoming.add(b"c").unwrap();
        assert_eq!(incoming.whole().unwrap(), b"abc");
        let cut = Incoming::announced(1).whole().unwrap_err();
        assert_eq!(cut.violations()[0].field, "snapshot_bytes");
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
        let fields = error.fields_at_fault();
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
