//! Reads the entities of a passage and the relations between them out of its words.
//!
//! This is the extractive counterpart of QRMeM's prompts (section 2.1, appendix D), for machines
//! without a language model: what it says stands in the passage, so it can be incomplete or badly cut
//! but not invented.
//!
//! # How it reads
//!
//! 1. *Times* are found by their shape: dates, years after a preposition, decades, days of the week.
//! 2. *Names* are runs of capitalised words, joined over `of`, `de`, `van` and the like. A capital that
//!    begins a sentence tells nothing by itself: such a word counts if the passage capitalises it within
//!    a sentence too, or if a verb follows it, and never if the passage also writes it in lower case. In
//!    headings and shouting only names known from elsewhere count.
//! 3. *Topics of the question*, where there is one: what it asks about counts as an entity wherever the
//!    passage mentions it, capitalised or not. That is what makes a graph query-oriented.
//! 4. *The speaker*, where one is known, is meant by "I", "me" and "my".
//! 5. *Entities* are names that share a form: a surname alone is the full name before it, if there is only
//!    one such. Kinds come from words such as "Dr.", "University", "River" and from what stands around.
//! 6. *Relations* are the words between two entities of a sentence, at most twelve: from its first entity to
//!    each later one, until another clause begins. So each reads as a clause of the sentence that states
//!    it, as QRMeM's descriptions do, and not as a class of a fixed list.
//!
//! What was found in many documents becomes one [`Graph`], which tells what is around a question's entities;
//! [`paths`] and [`pagerank()`] walk over what one or several graphs tell ([`union()`]), [`svg`] draws it,
//! [`to_graphml`] and its siblings exchange it with other tools.
//!
//! What it cannot do: resolve pronouns other than the speaker's, tell names in scripts without capital
//! letters, see relations between sentences. English first, as everything in `clew_text`.

mod ask;
mod described;
mod entity;
mod exchange;
mod key;
mod memory;
mod name;
mod near;
mod pagerank;
mod path;
mod picture;
mod relation;
mod time;
mod union;
mod word;
mod xml;

use clew_core::{Cost, Extraction, ExtractionTask};
use clew_text::one_line;

pub use ask::{Connection, connect, half_way, rank, reach};
pub use described::{DescribedEntity, describe, entity_text};
pub use exchange::{
    Imported, ImportedPassage, from_graphml, from_openie, import, to_graphml, to_json,
};
pub use key::entity_key;
pub use memory::{Graph, GraphDocument, GraphSegment, GraphView};
pub use pagerank::{Ranking, Seed, pagerank};
pub use path::{PathLimits, paths};
pub use picture::svg;
pub use union::union;

use crate::entity::Found;
use crate::word::Words;

/// Most key phrases of a passage.
const MAX_KEY_PHRASES: usize = 10;

/// The entities, relations and key phrases of a passage. The background is not looked at.
///
/// Cost is linear in the passage, but for a question's topics, of which there are at most sixteen; it
/// blocks.
pub fn extract(task: &ExtractionTask) -> Extraction {
    let words = Words::of(&task.text);
    let mut found = time::times(&words);
    name::names(&words, &mut found);
    entity::topics(&words, &task.question, &mut found);
    entity::speaker(&words, &task.speaker, &mut found);
    let named = entity::unite(&task.text, found);
    let key_phrases = clew_text::key_phrases(&task.text, MAX_KEY_PHRASES);
    Extraction {
        relations: relation::relations(&words, &named),
        entities: named.entities,
        key_phrases: key_phrases.into_iter().map(one_line).collect(),
        vectors: None,
        cost: Cost::default(),
    }
}

#[cfg(test)]
mod tests;
