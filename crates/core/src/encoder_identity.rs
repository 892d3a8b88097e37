//! Which embedding model vectors are of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// Identity of an embedding model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderIdentity {
    /// Name of the model, such as `all-MiniLM-L6-v2`.
    pub model: String,
    /// Fingerprint of its weights and tokenizer.
    pub revision: String,
    /// Dimension of its vectors.
    pub dimension: u32,
    /// Maximum number of tokens that it reads of a text, special tokens included.
    pub max_tokens: u32,
}

impl EncoderIdentity {
    /// Returns a fingerprint that tells it from every other model: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let Self { model, revision, dimension, max_tokens } = self;
        let identity = serde_json::json!([model, revision, dimension, max_tokens]).to_string();
        blake3::hash(identity.as_bytes()).to_hex()[..16].to_owned()
    }

    /// Returns the error for a call that needs vectors of this model where only `offered` are
    /// available. Vectors of two models cannot be compared.
    pub fn missing_among(&self, offered: &[Self]) -> Error {
        let offered: Vec<String> = offered.iter().map(Self::to_string).collect();
        let problem = format!(
            "vectors of encoder {self} are needed, but loaded is {}; configure the former (`encoder.model`, or \
             `encoder.next_model` beside another)",
            offered.join(" and ")
        );
        Error::new(ErrorKind::WrongState, "ENCODER_MISMATCH", problem)
    }
}

impl fmt::Display for EncoderIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, revision, dimension, max_tokens } = self;
        write!(f, "`{model}` (dimension {dimension}, window {max_tokens}, revision {revision})")
    }
}
