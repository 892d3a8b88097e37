//! Compressed memories: the keys and values that a light long-range model keeps of documents
//! (MemoRAG, section 2.2).

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{DocumentId, DraftTask, DraftedClues, Error, ErrorKind, Span, Timestamp, Version};

/// Maximum size of a serialized memory, in bytes.
pub const SNAPSHOT_BYTES: usize = 32 << 30;
/// Maximum size of the texts, titles included, whose tokens one call counts, in bytes.
pub const COUNTED_BYTES: usize = 1 << 20;

/// Identity of a model that forms memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryModelIdentity {
    /// Name of the model.
    pub model: String,
    /// Fingerprint of its configuration, its weights and its prompts.
    pub fingerprint: String,
    /// Number of tokens that it reads at once. Ratios divide it.
    pub window: u32,
    /// Size of one kept token, in bytes.
    pub slot_bytes: u64,
    /// Name and version of its prompts.
    pub prompts: String,
    /// Bytes for memories that are kept ready (`memory_model.cache_bytes`); `None` if an encoder
    /// of an earlier release does not tell.
    pub cache_bytes: Option<u64>,
}

impl MemoryModelIdentity {
    /// Returns how many of `tokens` a memory keeps at `ratio`: of each complete window its memory
    /// tokens, and of the last, incomplete window its words as well. A ratio of 0 means no
    /// compression: all tokens are kept.
    pub fn slots(&self, tokens: u64, ratio: u32) -> u64 {
        kept_slots(tokens, self.window.into(), ratio.into())
    }
}

/// Computes [`MemoryModelIdentity::slots`] for a model that reads `window` tokens at once.
pub fn kept_slots(tokens: u64, window: u64, ratio: u64) -> u64 {
    let window = window.max(1);
    let (windows, open) = (tokens / window, tokens % window);
    let memory_tokens = |words: u64| words.checked_div(ratio);
    let of_windows = windows * memory_tokens(window).unwrap_or(window);
    of_windows + open + memory_tokens(open).unwrap_or(0)
}

/// Computes the bytes that a memory takes while it is ready: its slots, and their keys once more,
/// rotated to their positions.
pub fn ready_bytes(slots: u64, slot_bytes: u64) -> u64 {
    let slots = slots.saturating_mul(slot_bytes);
    slots.saturating_add(slots / 2)
}

/// Part of a document that a memory covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Range of the document's text.
    pub span: Span,
}

/// Description of a memory that a shard stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Name of the memory: 32 hexadecimal digits, derived from what it covers and what it was made
    /// with.
    pub key: String,
    /// Fingerprint of the model that formed it.
    pub model: String,
    /// Number of tokens for each one that is kept.
    pub ratio: u32,
    /// Parts that it covers, in the order in which they were read.
    pub parts: Vec<MemoryPart>,
    /// Number of tokens that were read.
    pub tokens: u64,
    /// Number of tokens that are kept: memory tokens and those of the incomplete last window.
    pub slots: u64,
    /// Size of the serialized memory, in bytes.
    pub bytes: u64,
}

/// Memory that could not be formed or stored so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFailure {
    /// Documents that were to be read into it.
    pub documents: Vec<DocumentId>,
    /// Number of attempts.
    pub attempts: u32,
    /// Kind of the last failure.
    pub kind: ErrorKind,
    /// Message for callers.
    pub message: String,
    /// Time of the next attempt; `None` if the documents are set aside.
    pub next_try: Option<Timestamp>,
}

/// Memories that a shard stores, and those that it could not form or store so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMemories {
    /// Stored memories, in the order in which they were begun.
    pub records: Vec<MemoryRecord>,
    /// Failures.
    pub failures: Vec<MemoryFailure>,
}

/// Text that is to be read into a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// Title of the document; may be empty.
    pub title: String,
    /// The text.
    pub text: String,
}

/// Task of reading texts into a memory.
#[derive(Clone, Debug)]
pub struct FormTask {
    /// Number of tokens for each one that is kept.
    pub ratio: u32,
    /// Serialized memory to continue; `None` for an empty one.
    pub begun: Option<Arc<Vec<u8>>>,
    /// Texts to read, in order.
    pub texts: Vec<MemoryText>,
}

/// Memory that was formed.
#[derive(Clone, Debug)]
pub struct FormedMemory {
    /// Fingerprint of the model that formed it.
    pub model: String,
    /// Serialized memory, for storage.
    pub snapshot: Vec<u8>,
    /// Number of tokens in it.
    pub tokens: u64,
    /// Number of tokens that are kept.
    pub slots: u64,
}

/// Stored memory, whose bytes are fetched only if the node that needs them does not have them yet.
#[async_trait]
pub trait KeptMemory: Send + Sync {
    /// Returns the name of the memory; see [`MemoryRecord::key`].
    fn key(&self) -> &str;

    /// Returns the serialized memory.
    ///
    /// # Errors
    /// Returns the errors of the storage.
    async fn bytes(&self, deadline: Instant) -> Result<Arc<Vec<u8>>, Error>;
}

/// Model that forms memories of texts and drafts clues from them.
#[async_trait]
pub trait MemoryEncoder: Send + Sync {
    /// Returns the identity of the model; `None` if there is no model.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Unavailable`] while no node can tell.
    async fn memory_model(&self, deadline: Instant) -> Result<Option<MemoryModelIdentity>, Error>;

    /// Counts the tokens of all texts together, as they are read into a memory. The texts may take
    /// at most 1 MiB ([`COUNTED_BYTES`]).
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `NO_MEMORY_MODEL` if there is no
    /// model, [`crate::ErrorKind::InvalidInput`] if the texts take more, and
    /// [`crate::ErrorKind::DeadlineExceeded`] or [`crate::ErrorKind::Unavailable`] if no reply
    /// comes.
    async fn count_tokens(&self, texts: Vec<MemoryText>, deadline: Instant) -> Result<u64, Error>;

    /// Reads texts into a memory.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `NO_MEMORY_MODEL` if there is no
    /// model, [`crate::ErrorKind::InvalidInput`] if the memory to continue is of another model or
    /// the model does not have the ratio, [`crate::ErrorKind::Exhausted`] if too much work waits,
    /// and [`crate::ErrorKind::DeadlineExceeded`] or [`crate::ErrorKind::Unavailable`] if no reply
    /// comes.
    async fn form(&self, task: FormTask, deadline: Instant) -> Result<FormedMemory, Error>;

    /// Drafts clues for a question from a memory.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryEncoder::form`] and those of [`KeptMemory::bytes`].
    async fn draft(
        &self,
        memory: &dyn KeptMemory,
        task: &DraftTask,
        deadline: Instant,
    ) -> Result<DraftedClues, Error>;
}

/// Checks that texts are small enough for their tokens to be counted in one call.
///
/// # Errors
/// Returns [`crate::ErrorKind::InvalidInput`] naming `texts` if they are not.
pub fn check_counted(texts: &[MemoryText]) -> Result<(), Error> {
    let bytes: usize = texts.iter().map(|text| text.title.len() + text.text.len()).sum();
    match bytes <= COUNTED_BYTES {
        true => Ok(()),
        false => {
            let problem = format!("expected at most {COUNTED_BYTES} bytes in all, got {bytes}");
            Err(Error::invalid("texts", problem))
        }
    }
}

/// Stand-in where there is no memory model: nothing is formed and nothing drafted.
#[derive(Clone, Copy, Debug)]
pub struct NoMemoryModel;

impl NoMemoryModel {
    /// Returns the error for callers who ask for a memory model.
    pub fn refusal() -> Error {
        Error::new(
            ErrorKind::WrongState,
            "NO_MEMORY_MODEL",
            "no memory model is loaded; name its folder in `memory_model.folder` of the encoders",
        )
    }
}

#[async_trait]
impl MemoryEncoder for NoMemoryModel {
    async fn memory_model(&self, _deadline: Instant) -> Result<Option<MemoryModelIdentity>, Error> {
        Ok(None)
    }

    async fn count_tokens(&self, _: Vec<MemoryText>, _deadline: Instant) -> Result<u64, Error> {
        Err(Self::refusal())
    }

    async fn form(&self, _task: FormTask, _deadline: Instant) -> Result<FormedMemory, Error> {
        Err(Self::refusal())
    }

    async fn draft(
        &self,
        _memory: &dyn KeptMemory,
        _task: &DraftTask,
        _deadline: Instant,
    ) -> Result<DraftedClues, Error> {
        Err(Self::refusal())
    }
}
