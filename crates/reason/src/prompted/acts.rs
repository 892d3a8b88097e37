//! The acts, by the mechanism that needs them.

mod chat;
mod clues;
mod evidence;
mod grade;
mod graph;
mod hypergraph;
mod navigation;
mod rate;
mod tree;
mod wording;

pub use self::chat::{DatedEvent, ExtractEvents, ExtractFacts, InferTimeRange};
pub use self::clues::{ListKeyPoints, ProposeClues};
pub use self::evidence::{CitedQuote, JudgeEvidence, Note, NotedAnswer, ReadEvidence};
pub use self::grade::{GradeAnswer, GradeNugget};
pub use self::graph::{
    AskQuestions, MergeDescriptions, NameEntities, NamedEntity, RelateEntities, RelatedEntities,
};
pub use self::hypergraph::{AskSubquery, MergePoints, RaiseConcerns, UpdatePoints};
pub use self::navigation::{ChooseEntities, ElaborateQuery};
pub use self::rate::{Quality, RateAnswer};
pub use self::tree::{ChooseChild, LeafStep, LeafVerdict, ReadLeaf, Summarise};
pub use self::wording::{ImaginePassage, Reword};

/// Returns the prompt file of that name.
macro_rules! prompt_file {
    ($name:literal) => {
        $crate::prompted::PromptFile {
            name: $name,
            content: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/prompts/", $name, ".md")),
        }
    };
}
use prompt_file;

/// Maximum number of tokens of a reply that reasons and decides.
const DECISION_TOKENS: u32 = 512;
/// Maximum number of tokens of a reply that lists or answers. LongMemEval (appendix D) reads with
/// 800.
const LIST_TOKENS: u32 = 1024;
/// Maximum number of items in a reply's list if the caller sets no limit.
pub(super) const MAX_ITEMS: usize = 64;

/// Returns the first `most` items of a reply. The prompt told the model not to give more.
fn first<T>(mut items: Vec<T>, most: usize) -> Vec<T> {
    items.truncate(most);
    items
}
