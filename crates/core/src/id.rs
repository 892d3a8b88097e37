//! Typed names of corpora, tenants, documents and shards.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Name of a corpus: 1 to 63 characters of `a-z`, `0-9`, `-`, `_`, beginning with a letter or
/// digit, so that it is valid as a folder name and a metric label everywhere. The name of a
/// tenant's corpus begins with the tenant and a dot, as in `acme.notes`; the tenant calls it
/// `notes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CorpusName(String);

/// Name of a tenant, spelled like the name of a corpus without a tenant. No other tenant can reach
/// their corpora.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantName(String);

/// Id of a document within its corpus, chosen by the caller: 1 to 512 bytes without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentId(String);

/// Index of a shard in its corpus, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardIndex(pub u32);

const MAX_NAME_BYTES: usize = 63;
const MAX_DOCUMENT_ID_BYTES: usize = 512;
/// Separator between the names of a tenant and of their corpus.
const OF_TENANT: char = '.';

/// Returns whether `name` can name a tenant, a corpus within a tenant, or a snapshot.
pub(crate) fn is_name(name: &str) -> bool {
    let is_name_byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let begins_well = name.bytes().next().is_some_and(is_name_byte);
    let all_well = name.bytes().all(|b| is_name_byte(b) || b == b'-' || b == b'_');
    begins_well && all_well && name.len() <= MAX_NAME_BYTES
}

fn not_a_name(field: &str, name: &str) -> Error {
    Error::invalid(
        field,
        format!(
            "expected 1 to {MAX_NAME_BYTES} of a-z, 0-9, `-`, `_` beginning with a letter or digit, \
             got {} bytes that do not fit",
            name.len()
        ),
    )
}

impl FromStr for CorpusName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all_are_names = match name.split_once(OF_TENANT) {
            Some((tenant, within)) => is_name(tenant) && is_name(within),
            None => is_name(name),
        };
        if all_are_names { Ok(Self(name.to_owned())) } else { Err(not_a_name("corpus", name)) }
    }
}

impl CorpusName {
    /// Returns the full name of the corpus that a tenant calls `name`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if `name` already contains a tenant.
    pub fn of_tenant(tenant: &TenantName, name: &Self) -> Result<Self, Error> {
        match name.tenant() {
            None => Ok(Self(format!("{tenant}{OF_TENANT}{name}"))),
            Some(_) => Err(not_a_name("corpus", name.as_str())),
        }
    }

    /// Returns the tenant; `None` if the corpus is the operator's own.
    pub fn tenant(&self) -> Option<&str> {
        self.0.split_once(OF_TENANT).map(|(tenant, _)| tenant)
    }

    /// Returns the key of the corpus in fair queues: its tenant, or the corpus itself if it is the
    /// operator's own.
    pub fn takes_turns_as(&self) -> &str {
        self.tenant().unwrap_or(self.as_str())
    }

    /// Returns the name that the tenant uses for the corpus.
    pub fn within_tenant(&self) -> &str {
        self.0.split_once(OF_TENANT).map_or(self.as_str(), |(_, name)| name)
    }
}

impl FromStr for TenantName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        if is_name(name) { Ok(Self(name.to_owned())) } else { Err(not_a_name("tenant", name)) }
    }
}

impl DocumentId {
    /// Returns a tag that stands for the document in logs, because its id is the tenant's text: 16
    /// hexadecimal digits of a hash of the id, the same in every corpus. Someone who knows the id
    /// can find its log lines by the tag, which `clew status` shows. Someone who reads the logs
    /// learns only ids that they can guess.
    pub fn log_tag(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("clew 2026 document in logs");
        hasher.update(self.0.as_bytes());
        hasher.finalize().to_hex()[..16].to_owned()
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

/// Implements the conversions of a checked name, which is a tuple of its text: to text, and from
/// text by its `FromStr`.
#[macro_export]
macro_rules! string_id {
    ($name:ident) => {
        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Error;

            fn try_from(text: String) -> Result<Self, $crate::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

string_id!(CorpusName);
string_id!(TenantName);
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
            assert!(good.parse::<TenantName>().is_ok(), "{good}");
        }
        for bad in
            ["", "-a", "_a", "A", "a/b", "..", "a b", "é", ".a", "a.", "a.b.c", &"x".repeat(64)]
        {
            assert!(bad.parse::<CorpusName>().is_err(), "{bad}");
            assert!(bad.parse::<TenantName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tenant_names_no_corpus_but_his_own() {
        let acme: TenantName = "acme".parse().unwrap();
        let notes: CorpusName = "notes".parse().unwrap();
        let full = CorpusName::of_tenant(&acme, &notes).unwrap();
        assert_eq!((full.as_str(), full.tenant()), ("acme.notes", Some("acme")));
        assert_eq!((full.within_tenant(), notes.within_tenant()), ("notes", "notes"));
        assert_eq!(
            (notes.tenant(), full.to_string().parse::<CorpusName>().unwrap()),
            (None, full.clone())
        );
        assert!(CorpusName::of_tenant(&acme, &full).is_err());
        assert!("acme.notes".parse::<TenantName>().is_err());
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
