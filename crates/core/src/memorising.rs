//! Compressed memories: what a light long-range model keeps of documents (MemoRAG, section 2.2).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::answer::Cost;
use crate::{Clues, DocumentId, Error, ErrorKind, Filter, Span, Task, Version, Violations};

/// Most tokens of a memory: beyond it a model's positions are far from those that it was trained on.
const MOST_SEGMENT_TOKENS: u32 = 4_000_000;
/// Most tokens for one that is kept.
const MOST_RATIO: u32 = 128;
/// Most bytes of a snapshot.
pub const SNAPSHOT_BYTES: usize = 32 << 30;

/// Most bytes of texts, titles included, whose tokens are counted at once.
pub const COUNTED_BYTES: usize = 1 << 20;

/// How compressed memories of a corpus are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Tokens for each one that is kept; the model's window is a multiple of it.
    pub ratio: u32,
    /// About how many tokens one memory covers; a corpus of more has several.
    pub segment_tokens: u32,
}

impl Default for MemorySettings {
    /// The ratio of the published models, and what fits into their positions at it.
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

/// Which model forms memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryModelIdentity {
    /// Its name.
    pub model: String,
    /// Tells it from every other: of its configuration, its weights and what it is told.
    pub fingerprint: String,
    /// Tokens that it reads at once; ratios divide it.
    pub window: u32,
    /// Bytes of one token that is kept.
    pub slot_bytes: u64,
    /// Which prompts it is told by: their name and version.
    pub prompts: String,
}

impl MemoryModelIdentity {
    /// How many of `tokens` a memory keeps by `ratio`, 0 for none: of each whole window its memory tokens, and of the
    /// last, which goes on, the words besides.
    pub fn slots(&self, tokens: u64, ratio: u32) -> u64 {
        kept_slots(tokens, self.window.into(), ratio.into())
    }
}

/// As [`MemoryModelIdentity::slots`], of a model that reads `window` tokens at once.
pub fn kept_slots(tokens: u64, window: u64, ratio: u64) -> u64 {
    let window = window.max(1);
    let (windows, open) = (tokens / window, tokens % window);
    let memory_tokens = |words: u64| words.checked_div(ratio);
    let of_windows = windows * memory_tokens(window).unwrap_or(window);
    of_windows + open + memory_tokens(open).unwrap_or(0)
}

/// A part of a document that a memory covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Where the part lies in its text.
    pub span: Span,
}

/// What is told of a memory that a shard keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Its name: 32 hexadecimal digits, of what it covers and what it was made with.
    pub key: String,
    /// The fingerprint of the model that formed it.
    pub model: String,
    /// Tokens for each one that is kept.
    pub ratio: u32,
    /// What it covers, in the order in which it was read.
    pub parts: Vec<MemoryPart>,
    /// Tokens that were read.
    pub tokens: u64,
    /// Those that are kept, memory tokens and the unfinished last window.
    pub slots: u64,
    /// Bytes of its snapshot.
    pub bytes: u64,
}

/// A text that a memory is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// The document's title; may be empty.
    pub title: String,
    /// The text.
    pub text: String,
}

/// What is to be read into a memory.
#[derive(Clone, Debug)]
pub struct FormTask {
    /// Tokens for each one that is kept.
    pub ratio: u32,
    /// The snapshot of the memory that goes on; `None`: an empty one.
    pub begun: Option<Arc<Vec<u8>>>,
    /// What is read, in order.
    pub texts: Vec<MemoryText>,
}

/// A memory that was formed.
#[derive(Clone, Debug)]
pub struct FormedMemory {
    /// The fingerprint of the model that formed it.
    pub model: String,
    /// All of it, for storage.
    pub snapshot: Vec<u8>,
    /// Tokens in it.
    pub tokens: u64,
    /// Those that are kept.
    pub slots: u64,
}

/// A snapshot that somebody keeps, and brings where it is not known yet.
#[async_trait]
pub trait KeptMemory: Send + Sync {
    /// Its name, see [`MemoryRecord::key`].
    fn key(&self) -> &str;

    /// Its bytes.
    ///
    /// # Errors
    /// Those of the storage.
    async fn bytes(&self, deadline: Instant) -> Result<Arc<Vec<u8>>, Error>;
}

/// What a memory is to draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTask {
    /// What is to become of the drafts.
    pub task: Task,
    /// The question, or what a summary is to be about.
    pub question: String,
    /// Whether the memory is to answer by itself as well; of no matter for a summary.
    pub answers: bool,
}

/// Drafts from memories of a corpus or a shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClueQuery {
    /// What is drafted.
    pub draft: DraftTask,
    /// What may be found: a memory that holds anything else drafts nothing.
    pub filter: Filter,
}

/// What memories drafted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftedClues {
    /// The drafts of all.
    pub clues: Clues,
    /// How many memories there were to draft from.
    pub memories: u32,
    /// What it cost.
    pub cost: Cost,
}

impl DraftedClues {
    /// The drafts of several memories as one: the first of each, then the second of each, and so on, each text once,
    /// since each memory has seen another part.
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

/// A model that forms memories of texts, and drafts clues from them.
#[async_trait]
pub trait MemoryEncoder: Send + Sync {
    /// Which model it is; `None` if there is none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`] while nobody can tell.
    async fn memory_model(&self, deadline: Instant) -> Result<Option<MemoryModelIdentity>, Error>;

    /// How many tokens texts have, all together, as they are read into a memory; of at most 1 MiB.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] with the reason `NO_MEMORY_MODEL`; [`crate::ErrorKind::InvalidInput`] for more;
    /// [`crate::ErrorKind::DeadlineExceeded`]; [`crate::ErrorKind::Unavailable`].
    async fn count_tokens(&self, texts: Vec<MemoryText>, deadline: Instant) -> Result<u64, Error>;

    /// Reads texts into a memory.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] with the reason `NO_MEMORY_MODEL`; [`crate::ErrorKind::InvalidInput`] for a
    /// snapshot of another model and a ratio that the model has not; [`crate::ErrorKind::Exhausted`] when too much
    /// waits; [`crate::ErrorKind::DeadlineExceeded`]; [`crate::ErrorKind::Unavailable`].
    async fn form(&self, task: FormTask, deadline: Instant) -> Result<FormedMemory, Error>;

    /// What a memory drafts for a question.
    ///
    /// # Errors
    /// As [`MemoryEncoder::form`], and those of the memory's bytes.
    async fn draft(
        &self,
        memory: &dyn KeptMemory,
        task: &DraftTask,
        deadline: Instant,
    ) -> Result<DraftedClues, Error>;
}

/// Refuses texts that are too many to be counted at once.
///
/// # Errors
/// [`crate::ErrorKind::InvalidInput`] naming `texts`.
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

/// Where there is no memory model: nothing is formed, and nothing drafted.
#[derive(Clone, Copy, Debug)]
pub struct NoMemoryModel;

impl NoMemoryModel {
    /// What whoever asks for one is told.
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
