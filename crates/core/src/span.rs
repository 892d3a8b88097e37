//! Byte ranges of a document's text.

use serde::{Deserialize, Serialize};

/// Half-open byte range `start..end` of a document's UTF-8 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Creates the span `start..end`.
    ///
    /// # Panics
    /// Panics if `start > end`, which is a bug of the caller.
    pub fn new(start: usize, end: usize) -> Self {
        assert!(start <= end, "span {start}..{end} ends before it starts");
        Self { start, end }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether the span covers nothing.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the text that the span covers; `None` if it reaches beyond `text` or cuts a
    /// character.
    pub fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.get(self.start..self.end)
    }

    /// Returns this span moved right by `offset` bytes.
    pub fn shifted(&self, offset: usize) -> Self {
        Self { start: self.start + offset, end: self.end + offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_cuts_a_character_covers_no_text() {
        assert_eq!(Span::new(0, 1).of("é"), None);
        assert_eq!(Span::new(0, 2).of("é"), Some("é"));
        assert_eq!(Span::new(0, 9).of("é"), None);
    }
}
