//! Chunks: the parts of a document that are embedded and indexed.

use std::fmt;
use std::str::FromStr;

use crate::{Attributes, CorpusName, DocumentId, Error, Span, Version};

/// Deterministic id of a chunk. Writing the chunk again writes the same row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId([u8; 16]);

impl ChunkId {
    /// Returns the id of the `ordinal`-th chunk of a document version.
    pub fn derive(
        corpus: &CorpusName,
        document: &DocumentId,
        version: Version,
        ordinal: u32,
    ) -> Self {
        Self::of_kind("clew chunk id v1", corpus, document, version, ordinal)
    }

    /// Returns the id of the `ordinal`-th segment of a document version, for showing the segment as
    /// a passage.
    pub fn of_segment(
        corpus: &CorpusName,
        document: &DocumentId,
        version: Version,
        ordinal: u32,
    ) -> Self {
        Self::of_kind("clew segment id v1", corpus, document, version, ordinal)
    }

    fn of_kind(
        kind: &'static str,
        corpus: &CorpusName,
        document: &DocumentId,
        version: Version,
        ordinal: u32,
    ) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(kind);
        for part in [corpus.as_str(), document.as_str()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&version.0.to_le_bytes());
        hasher.update(&ordinal.to_le_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("chunk-")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ChunkId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let digits = text.strip_prefix("chunk-").filter(|digits| digits.len() == 32)?;
            let mut id = [0; 16];
            for (byte, at) in id.iter_mut().zip((0..32).step_by(2)) {
                *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
            }
            Some(Self(id))
        };
        parse().ok_or_else(|| {
            Error::invalid("chunk_id", "expected `chunk-` and 32 hexadecimal digits")
        })
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Part of a document, before it is embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Position among the chunks of its document, from 0.
    pub ordinal: u32,
    /// Range of the document's text.
    pub span: Span,
    /// Text that is embedded and text-indexed: the passage, preceded by the document's title and
    /// the headings above it where there are any.
    pub key_text: String,
    /// Number of tokens of `key_text` by the corpus' encoder, special tokens included.
    pub tokens: u32,
    /// Attributes for filters, in addition to those of its document.
    pub attributes: Attributes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_ids_depend_on_every_part() {
        let id = |corpus: &str, document: &str, version, ordinal| {
            let (corpus, document) = (corpus.parse().unwrap(), document.parse().unwrap());
            ChunkId::derive(&corpus, &document, Version(version), ordinal)
        };
        let base = id("ab", "c", 1, 0);
        assert_eq!(base, id("ab", "c", 1, 0));
        for other in
            [id("a", "bc", 1, 0), id("ab", "d", 1, 0), id("ab", "c", 2, 0), id("ab", "c", 1, 1)]
        {
            assert_ne!(base, other);
        }
        assert_eq!(base.to_string().parse::<ChunkId>().unwrap(), base);
        for bad in ["", "chunk-", "chunk-é", "12", "chunk-zz345678901234567890123456789012"] {
            assert!(bad.parse::<ChunkId>().is_err(), "{bad}");
        }
    }
}
