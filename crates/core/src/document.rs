//! Documents as clients send them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    AttributeValue, Attributes, DocumentId, Error, Labels, Limits, Timestamp, Violations, attribute,
};

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
    /// Number by which its source orders the states of the document, if the source has one. A
    /// document with a lower number than the stored one changes nothing.
    pub source_version: Option<SourceVersion>,
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
        attribute::check(&self.attributes, limits, violations);
    }

    /// Returns a hash of everything that a caller can set except the id and the source version.
    /// Equal hashes mean that nothing changed.
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
        // No attribute can have a name that begins with `=`. Documents without labels, or with
        // nothing but texts as attributes, keep the hash that they had before there was anything
        // else.
        for (name, value) in &self.attributes {
            let name = name.as_str().as_bytes();
            match value {
                AttributeValue::Text(text) => {
                    field(name);
                    field(text.as_bytes());
                }
                AttributeValue::Integer(integer) => {
                    field(b"=integer");
                    field(name);
                    field(&integer.to_le_bytes());
                }
                AttributeValue::Number(number) => {
                    field(b"=number");
                    field(name);
                    field(&number.get().to_le_bytes());
                }
                AttributeValue::Boolean(boolean) => {
                    field(b"=boolean");
                    field(name);
                    field(&[u8::from(*boolean)]);
                }
            }
        }
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

/// Number by which the source of a document orders its states: an offset in a log, a revision, or a
/// time of modification. A source counts it up with every change.
///
/// Deliveries may come out of order or twice. The stored document is that of the highest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceVersion(pub u64);

impl fmt::Display for SourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Consequence of sending a document while one of its id is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing changes: the content is the same, or the document is older than the stored one.
    Unchanged,
    /// The content is the same, and the stored document gets this higher number.
    Renumbered(SourceVersion),
    /// The document replaces the stored one.
    Replacing,
}

impl Delivery {
    /// Returns what becomes of a document with the number `sent`, whose content is that of the
    /// stored one or not. The stored document has the number `stored`.
    ///
    /// Without a number, the content alone decides. So a document without one replaces any other
    /// content, and a document that has one replaces any other content without one.
    pub fn of(
        sent: Option<SourceVersion>,
        stored: Option<SourceVersion>,
        is_same_content: bool,
    ) -> Self {
        match (sent, stored) {
            (Some(sent), Some(stored)) if sent < stored => Self::Unchanged,
            // No number is lower than any.
            (Some(higher), stored) if is_same_content && Some(higher) > stored => {
                Self::Renumbered(higher)
            }
            _ if is_same_content => Self::Unchanged,
            _ => Self::Replacing,
        }
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
            source_version: None,
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
        let attributed = |value: AttributeValue| {
            let name = "n".to_owned().try_into().unwrap();
            Document { attributes: [(name, value)].into(), ..document("one") }
        };
        let number = AttributeValue::number(1.0).unwrap();
        let [text, integer] = [attributed("1".into()), attributed(1.into())];
        let [number, boolean] = [attributed(number), attributed(true.into())];
        let all = [base, titled, dated, labelled, document("two"), text, integer, number, boolean];
        let mut hashes = all.map(|d| d.content_hash().to_string());
        hashes.sort();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(ContentHash::from_hex(&hashes[0]).unwrap().to_string(), hashes[0]);
    }

    /// Documents that were accepted before attributes had types must stay unchanged if they are
    /// sent again.
    #[test]
    fn texts_as_attributes_are_hashed_as_they_always_were() {
        let attributes = [("lang", "en"), ("year", "2020")]
            .map(|(name, value)| (name.to_owned().try_into().unwrap(), value.into()));
        let document = Document { attributes: attributes.into(), ..document("one") };
        assert_eq!(
            document.content_hash().to_string(),
            "939e700745c70acaeb4920f73fc953b9166311be7a7856d0b2c84d1b97c3998a"
        );
    }

    #[test]
    fn the_number_of_the_source_is_no_content() {
        let numbered = Document { source_version: Some(SourceVersion(7)), ..document("one") };
        assert_eq!(numbered.content_hash(), document("one").content_hash());
    }

    #[test]
    fn the_highest_number_wins_and_without_one_the_content_decides() {
        use Delivery::*;
        let number = |number: u64| Some(SourceVersion(number));
        // (sent, stored, with the same content, with other content)
        let cases = [
            (number(4), number(5), Unchanged, Unchanged),
            (number(0), number(u64::MAX), Unchanged, Unchanged),
            (number(5), number(5), Unchanged, Replacing),
            (number(6), number(5), Renumbered(SourceVersion(6)), Replacing),
            (number(0), None, Renumbered(SourceVersion(0)), Replacing),
            (None, number(5), Unchanged, Replacing),
            (None, None, Unchanged, Replacing),
        ];
        for (sent, stored, same, other) in cases {
            assert_eq!(Delivery::of(sent, stored, true), same, "{sent:?} on {stored:?}");
            assert_eq!(Delivery::of(sent, stored, false), other, "{sent:?} on {stored:?}");
        }
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
