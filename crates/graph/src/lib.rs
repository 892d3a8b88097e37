//! Extraction of the entities of a passage and their relations by rules, and the graph of a corpus.
//!
//! The extraction is the counterpart of QRMeM's prompts (section 2.1, appendix D), for machines
//! without a language model. Everything that it returns stands in the passage, so it can be
//! incomplete or badly cut, but not invented.
//!
//! # Extraction
//!
//! 1. *Times* are found by their shape: dates, years after a preposition, decades, days of the
//!    week.
//! 2. *Names* are runs of capitalised words, joined over `of`, `de`, `van` and the like. A capital
//!    at the beginning of a sentence means nothing by itself. Such a word counts if there is
//!    another sign, for example if the passage capitalises it within a sentence, too, or if a verb
//!    follows. It never counts if the passage also writes it in lower case. In headings and
//!    shouting only names known from elsewhere count.
//! 3. *Topics of the question*, if there is one: a topic is an entity wherever the passage mentions
//!    it, capitalised or not. This makes a graph query-oriented.
//! 4. *The speaker*, if known, is the entity of "I", "me" and "my".
//! 5. *Entities* are names that share a form. A surname or first name alone stands for the full
//!    name, if only one full name of the passage has it. Kinds come from words such as "Dr.",
//!    "University" and "River", and from the words around a name.
//! 6. *Relations* are the words between two entities of a sentence, at most twelve: from its first
//!    entity to each later one, until another clause begins. So each reads as a clause of the
//!    sentence that states it, as QRMeM's descriptions do, and is not a class from a fixed list.
//!
//! # Graph
//!
//! A [`Graph`] combines the extractions of many documents, and answers queries with the part around
//! a question's entities. [`union()`] merges parts of several graphs. [`paths`] and [`pagerank()`]
//! walk over a part, [`svg`] draws it, and [`to_graphml`] and its siblings exchange it with other
//! tools.
//!
//! # Limits
//!
//! The extraction does not resolve pronouns other than the speaker's, does not find names in
//! scripts without capital letters, and does not see relations between sentences. It is made for
//! English first, like everything in `clew_text`.

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

use clew_core::{Cost, Extraction, ExtractionTask};
use clew_text::one_line;

pub use ask::{EntityPaths, connect, half_way, rank, reach};
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

/// Maximum number of key phrases of a passage.
const MAX_KEY_PHRASES: usize = 10;

/// Extracts the entities, relations and key phrases of a passage. Ignores the background.
///
/// Blocks. The cost is linear in the passage, times the topics of the question, of which there are
/// at most sixteen.
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
