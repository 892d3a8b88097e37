//! Text processing without models: chunks, sentences, words, terms, key phrases, extractive
//! summaries and markup.
//!
//! Every function is pure: from texts to spans, words or summaries, without input or output, clock
//! or model.
//! Functions that need a tokenizer take it as an argument.

mod chunk;
mod cut;
mod markup;
mod number;
mod phrase;
mod sentence;
mod shape;
mod summary;
mod term;
mod word;

pub use chunk::{Chunks, chunk, segments};
pub use markup::{display_line, escaped};
pub use number::{MONTHS, month, spelt_number, spelt_ordinal};
pub use phrase::key_phrases;
pub use sentence::{passages, sentences, trimmed};
pub use shape::Shape;
pub use summary::summarise;
pub use term::{Term, is_stop_word, terms};
pub use word::{is_common_verb, is_grammar_word, one_line, words};
