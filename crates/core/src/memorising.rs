//! Compressed memories: the keys and values that a light long-range model keeps of documents
//! (MemoRAG, section 2.2).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::answer::Cost;
use crate::{Clues, DocumentId, Error, ErrorKind, Filter, Span, Task, Version, Violations};

/// Maximum number of tokens that one memory covers. Beyond it, a model's positions are far from
/// those it was trained on.
const MOST_SEGMENT_TOKENS: u32 = 4_000_000;
/// Maximum number of tokens for each one that is kept.
const MOST_RATIO: u32 = 128;
/// Maximum size of a serialized memory, in bytes.
pub const SNAPSHOT_BYTES: usize = 32 << 30;

/// Maximum size of the texts, titles included, whose tokens one call counts, in bytes.
pub const COUNTED_BYTES: usize = 1 << 20;

/// Settings for forming the compressed memories of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Number of tokens for each one that is kept. The model's window is a multiple of it.
    pub ratio: u32,
    /// Approximate number of tokens that one memory covers. A larger corpus has several memories.
    pub segment_tokens: u32,
}

impl Default for MemorySettings {
    /// Returns the ratio of the published models, and as many tokens as fit into their positions at
    /// it.
    fn default() -> Self {
        Self { ratio: 4, segment_tokens: 100_000 }
    }
}

impl MemorySettings {
    pub(crate) fn check(&self, violations: &mut Violations) {
        if !(1..=MOST_RATIO).contains(&self.ratio) {
            let problem = format!("expected 1 to {MOST_RATIO}, got {}", self.ratio);
            violations.push("corpus.memory.ratio", problem);
        }
        if !(256..=MOST_SEGMENT_TOKENS).contains(&self.segment_tokens) {
            let problem =
                format!("expected 256 to {MOST_SEGMENT_TOKENS}, got {}", self.segment_tokens);
            violations.push("corpus.memory.segment_tokens", problem);
        }
    }
}

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

/// Task of drafting from a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTask {
    /// Purpose of the drafts.
    pub task: Task,
    /// Question, or subject of a summary.
    pub question: String,
    /// Whether the memory also answers by itself; ignored for a summary.
    pub answers: bool,
}

/// Query for drafts from the memories of a corpus or a shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClueQuery {
    /// Task of each memory.
    pub draft: DraftTask,
    /// Filter on documents. A memory that holds any document that does not pass drafts nothing.
    pub filter: Filter,
}

/// Drafts of memories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftedClues {
    /// Drafts of all memories.
    pub clues: Clues,
    /// Number of memories that there were to draft from.
    pub memories: u32,
    /// Cost of drafting.
    pub cost: Cost,
}

impl DraftedClues {
    /// Merges the drafts of several memories: the first of each, then the second of each, and so
    /// on, each text once. They take turns because each memory has seen another part.
    pub fn united(drafts: Vec<Self>) -> Self {
        let mut all = Self::default();
        let (mut queries, mut clues) = (Vec::new(), Vec::new());
        let (mut key_points, mut answers) = (Vec::new(), Vec::new());
        for draft in drafts {
            all.memories += draft.memories;
            all.cost += draft.cost;
            queries.push(draft.clues.queries);
            clues.push(draft.clues.clues);
            key_points.push(draft.clues.key_points);
            answers.push(draft.clues.answers);
        }
        all.clues = Clues {
            queries: in_turn(queries),
            clues: in_turn(clues),
            key_points: in_turn(key_points),
            answers: in_turn(answers),
        };
        all
    }
}

fn in_turn(drafts: Vec<Vec<String>>) -> Vec<String> {
    let longest = drafts.iter().map(Vec::len).max().unwrap_or(0);
    let mut drafts: Vec<_> = drafts.into_iter().map(Vec::into_iter).collect();
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for _ in 0..longest {
        for text in drafts.iter_mut().filter_map(Iterator::next) {
            if known.insert(text.clone()) {
                all.push(text);
            }
        }
    }
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_several_memories_are_taken_in_turn() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let drafted = |queries: &[&str], clues: &[&str]| DraftedClues {
            clues: Clues { queries: texts(queries), clues: texts(clues), ..Clues::default() },
            memories: 1,
            cost: Cost { model_calls: 2, ..Cost::default() },
        };
        let all = DraftedClues::united(vec![
            drafted(&["a 0", "a 1", "a 2"], &["x"]),
            drafted(&["b 0"], &[]),
            drafted(&["a 1", "c"], &["y", "x"]),
        ]);
        assert_eq!(all.clues.queries, ["a 0", "b 0", "a 1", "c", "a 2"]);
        assert_eq!(all.clues.clues, ["x", "y"]);
        assert_eq!((all.memories, all.cost.model_calls), (3, 6));
        assert_eq!(DraftedClues::united(Vec::new()), DraftedClues::default());
    }
}
