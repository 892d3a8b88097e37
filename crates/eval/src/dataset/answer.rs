//! Reference answers as the files write them.

use serde::Deserialize;

/// An answer: a text, or a number where the answer is one.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Text(String),
    Number(serde_json::Number),
}

impl Answer {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}
