//! Documents as clients send them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DocumentId, Error, Labels, Limits, Timestamp, Violations};

/// Format of a document's text. It decides where chunks may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaType {
    /// Plain text.
    Plain,
    /// CommonMark.
    Markdown,
}

impl MediaType {
    /// Returns the name that is stored in tables and sent on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "text/plain",
            Self::Markdown => "text/markdown",
        }
    }

    /// Parses the name of a media type. An empty name means plain text.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for any other name.
    pub fn try_from_name(name: &str) -> Result<Self, Error> {
        match name {
            "" | "text/plain" => Ok(Self::Plain),
            "text/markdown" => Ok(Self::Markdown),
            other => Err(Error::invalid(
                "document.media_type",
                format!("expected text/plain or text/markdown, got `{other}`"),
            )),
        }
    }
}

/// Name of an attribute: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttributeName(String);

impl AttributeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AttributeName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
            return Ok(Self(name));
        }
        Err(Error::invalid(
            "document.attributes",
            "expected attribute names of 1 to 64 letters, digits, `_`, `.` or `-`",
        ))
    }
}

impl From<AttributeName> for String {
    fn from(name: AttributeName) -> String {
        name.0
    }
}

/// Attributes of a document, chosen by the caller, on which searches can filter.
pub type Attributes = BTreeMap<AttributeName, String>;

/// Document to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Id chosen by the caller, unique in the corpus. A second document with the same id replaces
    /// the first.
    pub id: DocumentId,
    /// Text of the document. Spans of chunks and citations are byte ranges of it.
    pub text: String,
    /// Format of the text.
    pub media_type: MediaType,
    /// Title, shown with citations and prepended to what is embedded; may be empty.
    pub title: String,
    /// Attributes on which searches can filter.
    pub attributes: Attributes,
    /// Time when what the document tells of happened, as opposed to when it was accepted.
    pub event_time: Option<Timestamp>,
    /// Access labels that a caller must hold to see the document or anything derived from it. If
    /// there are none, every caller sees it.
    pub labels: Labels,
}

impl Document {
    /// Adds everything that is wrong with this document to `violations`.
    pub fn check(&self, limits: &Limits, violations: &mut Violations) {
        if self.text.trim().is_empty() {
            violations.push("document.text", "must contain something other than white space");
        }
        if self.text.len() > limits.document_bytes {
            violations.push(
                "document.text",
                format!(
                    "expected at most {} bytes, got {}; split the document",
                    limits.document_bytes,
                    self.text.len()
                ),
            );
        }
        if self.title.len() > limits.title_bytes || self.title.chars().any(char::is_control) {
            violations.push(
                "document.title",
                format!("expected at most {} bytes without control characters", limits.title_bytes),
            );
        }
        let labels = self.labels.iter().count();
        if labels > Labels::MOST {
            let problem = format!("expected at most {}, got {labels}", Labels::MOST);
            violations.push("document.labels", problem);
        }
        let attribute_bytes: usize =
            self.attributes.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if self.attributes.len() > limits.attributes || attribute_bytes > limits.attribute_bytes {
            violations.push(
                "document.attributes",
                format!(
                    "expected at most {} attributes of {} bytes in all, got {} of {attribute_bytes}",
                    limits.attributes,
                    limits.attribute_bytes,
                    self.attributes.len()
                ),
            );
        }
    }

    /// Returns a hash of everything that a caller can set except the id. Equal hashes mean that
    /// nothing changed.
    pub fn content_hash(&self) -> ContentHash {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(self.text.as_bytes());
        field(self.media_type.as_str().as_bytes());
        field(self.title.as_bytes());
        field(&self.event_time.map_or([0; 9], |time| {
            let mut bytes = [1; 9];
            bytes[1..].copy_from_slice(&time.as_micros().to_le_bytes());
            bytes
        }));
        for (name, value) in &self.attributes {
            field(name.as_str().as_bytes());
            field(value.as_bytes());
        }
        // No attribute can have the name `=label`, and documents without labels keep the hash that
        // they had before labels existed.
        for label in self.labels.iter() {
            field(b"=label");
            field(label.as_str().as_bytes());
        }
        ContentHash(*hasher.finalize().as_bytes())
    }
}

/// BLAKE3 hash of a document's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Parses a hash from hexadecimal digits. Returns `None` if `text` is not a hash.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// Version of a document. It grows with every accepted change, also across forgetting and a new
/// upload, so that a late write of an older version can always be told from the current one.
///
/// A version is the time of acceptance in microseconds, or the previous version plus one if the
/// clock did not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(pub u64);

impl Version {
    /// Returns the version of a document accepted at `now` after `previous`.
    pub fn next(now: Timestamp, previous: Option<Self>) -> Self {
        let by_clock = now.as_micros().max(1).unsigned_abs();
        let by_order = previous.map_or(0, |version| version.0.saturating_add(1));
        Self(by_clock.max(by_order))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document {
            id: "a".parse().unwrap(),
            text: text.to_owned(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
        }
    }

    #[test]
    fn the_hash_tells_fields_apart() {
        let base = document("one");
        let mut titled = document("one");
        titled.title = "one".to_owned();
        let mut dated = document("one");
        dated.event_time = Some(Timestamp::from_micros(0));
        let mut labelled = document("one");
        labelled.labels = Labels::parse(["one"]).unwrap();
        let all = [base, titled, dated, labelled, document("two")];
        let mut hashes = all.map(|d| d.content_hash().to_string());
        hashes.sort();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(ContentHash::from_hex(&hashes[0]).unwrap().to_string(), hashes[0]);
    }

    #[test]
    fn versions_grow_even_if_the_clock_stands_still_or_goes_back() {
        let first = Version::next(Timestamp::from_micros(10), None);
        let second = Version::next(Timestamp::from_micros(10), Some(first));
        let third = Version::next(Timestamp::from_micros(3), Some(second));
        assert!(first < second && second < third);
    }

    #[test]
    fn every_fault_of_a_document_is_named() {
        let mut bad = document(" \n");
        bad.title = "a\nb".to_owned();
        let mut violations = Violations::default();
        bad.check(&Limits::default(), &mut violations);
        let error = violations.into_result().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["document.text", "document.title"]);
    }
}
