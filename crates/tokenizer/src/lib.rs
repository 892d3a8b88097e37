//! Tokenizers of encoders and language models: text to token ids and byte ranges, and ids to text.
//!
//! A separate crate, so that code that cuts texts for an encoder on another node counts tokens as
//! that encoder does, without the tensor library that runs the model.

mod counted;
mod encoder;
mod error;
mod estimate;
mod framed;
mod learning;
mod plain;
mod text;
mod word_piece;

pub use counted::{TokenCounter, estimated_beginning, estimated_spans};
pub use encoder::{EncoderTokenizer, PairTokenizer};
pub use error::Error;
pub use estimate::estimate_tokens;
pub use framed::{EncodedPair, EncodedText, Token};
pub use learning::learn_byte_pairs;
pub use text::{SpecialTokens, TextStream, TextTokenizer};
pub use word_piece::WordPieceTokenizer;
