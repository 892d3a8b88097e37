//! A short way to the word pieces of plain text, which most English is.
//!
//! The `tokenizers` library keeps for each character of a text where it came from, and allocates
//! memory for each token. That costs a microsecond a token. Plain text is ASCII without control
//! characters, so that each byte stays where it is: its tokens cost a tenth, and are the same.

use std::collections::HashMap;
use std::ops::Range;

use clew_core::Span;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::tokenizer::{Model, Tokenizer};
use tokenizers::{ModelWrapper, NormalizerWrapper};

/// Minimum number of bytes of plain text for which a stretch of other text ends. A call of the
/// library for each word would cost more than it saves.
const STRETCH: usize = 64;

/// Word pieces of plain text.
pub(crate) struct PlainWords {
    /// Ids of the pieces that may begin a word.
    beginnings: HashMap<Box<[u8]>, u32>,
    /// Ids of the pieces that may go on with a word, without the prefix that marks them.
    continuations: HashMap<Box<[u8]>, u32>,
    /// Length of the longest piece, in bytes.
    longest: usize,
    unknown: u32,
    /// Length of the longest word that is not unknown, in bytes.
    longest_word: usize,
    lowercases: bool,
    /// Whether a byte occurs in plain text.
    is_plain: [bool; 256],
}

/// Part of a text, which ends at the end of the text or after white space.
pub(crate) enum Stretch<'a> {
    /// Plain text, with the short way to its tokens.
    Plain(&'a PlainWords, Range<usize>),
    /// Text that only the library reads.
    Other(Range<usize>),
}

impl PlainWords {
    /// Returns the short way of a tokenizer of BERT. Returns `None` for one without: with added
    /// tokens that may be part of an ordinary text.
    pub(crate) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else { return None };
        let Some(NormalizerWrapper::BertNormalizer(normalizer)) = tokenizer.get_normalizer() else {
            return None;
        };
        let mut is_plain = [false; 256];
        for byte in (b' '..=b'~').chain(*b"\t\n\r") {
            is_plain[usize::from(byte)] = true;
        }
        // Special tokens such as `[SEP]` are looked for in the text itself.
        for token in tokenizer.get_added_tokens_decoder().values() {
            let first = token.content.bytes().next()?;
            let takes_space =
                token.lstrip || token.rstrip || token.content.contains(char::is_whitespace);
            if takes_space || !first.is_ascii_punctuation() {
                return None;
            }
            is_plain[usize::from(first)] = false;
        }
        Self::new(model, normalizer.lowercase, is_plain)
    }

    fn new(model: &WordPiece, lowercases: bool, is_plain: [bool; 256]) -> Option<Self> {
        let vocabulary = model.get_vocab();
        let unknown = *vocabulary.get(&model.unk_token)?;
        let prefix = &model.continuing_subword_prefix;
        let bytes = |text: &str| text.as_bytes().into();
        let continuations = vocabulary
            .iter()
            .filter_map(|(piece, id)| Some((bytes(piece.strip_prefix(prefix.as_str())?), *id)));
        Some(Self {
            continuations: continuations.collect(),
            beginnings: vocabulary.iter().map(|(piece, id)| (bytes(piece), *id)).collect(),
            longest: vocabulary.keys().map(String::len).max()?,
            unknown,
            longest_word: model.max_input_chars_per_word,
            lowercases,
            is_plain,
        })
    }

    /// Cuts a text into stretches of plain and of other text. No token reaches across white space,
    /// so that each has the tokens that it has in the whole text.
    pub(crate) fn stretches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Stretch<'a>> + 'a {
        let bytes = text.as_bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            let begin = at;
            if begin == bytes.len() {
                return None;
            }
            let Some(mut other) = self.other_from(bytes, begin) else {
                at = bytes.len();
                return Some(Stretch::Plain(self, begin..at));
            };
            let is_space = |byte: &u8| byte.is_ascii_whitespace();
            let word =
                bytes[begin..other].iter().rposition(is_space).map_or(begin, |it| begin + it + 1);
            if word > begin {
                at = word;
                return Some(Stretch::Plain(self, begin..word));
            }
            loop {
                let space = bytes[other..].iter().position(is_space);
                at = space.map_or(bytes.len(), |space| other + space + 1);
                match self.other_from(bytes, at) {
                    Some(next) if next - at < STRETCH => other = next,
                    _ => return Some(Stretch::Other(begin..at)),
                }
            }
        })
    }

    /// Returns the place of the first byte from `begin` on that does not occur in plain text.
    fn other_from(&self, bytes: &[u8], begin: usize) -> Option<usize> {
        let is_other = |byte: &u8| !self.is_plain[usize::from(*byte)];
        bytes[begin..].iter().position(is_other).map(|found| begin + found)
    }

    /// Calls `found` with the id and the byte range of each token of a plain text.
    pub(crate) fn tokens(&self, text: &str, mut found: impl FnMut(u32, Span)) {
        let lowered;
        let bytes = match self.lowercases {
            true => {
                lowered = text.to_ascii_lowercase();
                lowered.as_bytes()
            }
            false => text.as_bytes(),
        };
        let mut pieces = Vec::new();
        let mut start = 0;
        while let Some(&first) = bytes.get(start) {
            let rest = &bytes[start..];
            let is_border = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_punctuation();
            let length = match first {
                _ if first.is_ascii_whitespace() => {
                    start += 1;
                    continue;
                }
                // Each is a word.
                _ if first.is_ascii_punctuation() => 1,
                _ => rest.iter().position(is_border).unwrap_or(rest.len()),
            };
            self.pieces(&rest[..length], &mut pieces);
            for (id, piece) in &pieces {
                found(*id, Span::new(start + piece.start, start + piece.end));
            }
            start += length;
        }
    }

    /// Fills `pieces` with the longest pieces that a word begins with, one after the other.
    fn pieces(&self, word: &[u8], pieces: &mut Vec<(u32, Range<usize>)>) {
        pieces.clear();
        let mut start = 0;
        while start < word.len() && word.len() <= self.longest_word {
            let known = if start == 0 { &self.beginnings } else { &self.continuations };
            let ends = (start + 1..=word.len().min(start + self.longest)).rev();
            let mut longest = ends.filter_map(|end| Some((*known.get(&word[start..end])?, end)));
            let Some((id, end)) = longest.next() else { break };
            pieces.push((id, start..end));
            start = end;
        }
        if start < word.len() {
            pieces.clear();
            pieces.push((self.unknown, 0..word.len()));
        }
    }
}
