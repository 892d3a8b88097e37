//! Text to token ids, and to the byte ranges of tokens, as models read it; and token ids to text.
//!
//! It is a crate of its own so that whoever cuts texts for an encoder elsewhere counts tokens as that
//! encoder does, without the tensor library that runs the model.

mod counted;
mod encoder;
mod error;
mod framed;
mod learning;
mod text;
mod word_piece;

pub use counted::{TokenCounter, estimated_beginning, estimated_spans};
pub use encoder::{EncoderTokenizer, PairTokenizer};
pub use error::Error;
pub use framed::{EncodedPair, EncodedText};
pub use learning::learn_byte_pairs;
pub use text::{SpecialTokens, TextStream, TextTokenizer};
pub use word_piece::WordPieceTokenizer;
