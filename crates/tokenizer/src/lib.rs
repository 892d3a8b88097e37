//! Text to token ids, and to the byte ranges of tokens, as embedding models read it.
//!
//! It is a crate of its own so that whoever cuts texts for an encoder elsewhere counts tokens as that
//! encoder does, without the tensor library that runs the model.

mod error;
mod word_piece;

pub use error::Error;
pub use word_piece::{EncodedText, WordPieceTokenizer};
