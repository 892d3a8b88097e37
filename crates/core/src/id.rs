//! Typed names: a corpus, a document, a shard.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Name of a corpus: 1 to 63 of `a-z`, `0-9`, `-`, `_`, beginning with a letter or digit, so that it
/// is a folder name and a metric label everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CorpusName(String);

/// A caller's name for a document within its corpus: 1 to 512 bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentId(String);

/// Number of a shard of a corpus, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardIndex(pub u32);

const MAX_CORPUS_NAME_BYTES: usize = 63;
const MAX_DOCUMENT_ID_BYTES: usize = 512;

impl FromStr for CorpusName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let is_name_byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let begins_well = name.bytes().next().is_some_and(is_name_byte);
        let all_well = name.bytes().all(|b| is_name_byte(b) || b == b'-' || b == b'_');
        if begins_well && all_well && name.len() <= MAX_CORPUS_NAME_BYTES {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::invalid(
            "corpus",
            format!(
                "expected 1 to {MAX_CORPUS_NAME_BYTES} of a-z, 0-9, `-`, `_` beginning with a \
                 letter or digit, got {} bytes that do not fit",
                name.len()
            ),
        ))
    }
}

impl FromStr for DocumentId {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self, Error> {
        let problem = if id.is_empty() {
            "must not be empty".to_owned()
        } else if id.len() > MAX_DOCUMENT_ID_BYTES {
            format!("expected at most {MAX_DOCUMENT_ID_BYTES} bytes, got {}", id.len())
        } else if id.chars().any(char::is_control) {
            "must not contain control characters".to_owned()
        } else {
            return Ok(Self(id.to_owned()));
        };
        Err(Error::invalid("document.id", problem))
    }
}

macro_rules! string_id {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

string_id!(CorpusName);
string_id!(DocumentId);

impl fmt::Display for ShardIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_names_are_folder_names() {
        for good in ["a", "notes", "0-a_b", &"x".repeat(63)] {
            assert!(good.parse::<CorpusName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a/b", "..", "a b", "é", &"x".repeat(64)] {
            assert!(bad.parse::<CorpusName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn document_ids_may_be_paths_and_addresses_but_hold_no_control_characters() {
        for good in ["a", "docs/ü ñ.md", "https://example.org/?q='x'", &"x".repeat(512)] {
            assert!(good.parse::<DocumentId>().is_ok(), "{good}");
        }
        for bad in ["", "a\nb", "a\0", &"x".repeat(513)] {
            assert!(bad.parse::<DocumentId>().is_err(), "{bad:?}");
        }
    }
}
