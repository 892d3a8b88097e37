//! Pure text work: chunkers, sentences, terms.
//!
//! Everything here is a function from text to spans or words: no input or output, no clock, no
//! model. Where a tokenizer matters it is an argument.

mod chunk;
mod cut;
mod sentence;
mod term;

pub use chunk::chunk;
pub use sentence::sentences;
pub use term::{Term, is_stop_word, terms};
