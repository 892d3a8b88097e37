//! The common base of all tokenizers: special tokens around a text, a token window, byte ranges.

use clew_core::Span;
use tokenizers::Encoding;
use tokenizers::tokenizer::Tokenizer;

use crate::Error;
use crate::plain::{PlainWords, Stretch};

/// Maximum number of bytes of a text that are tokenised at once. The limit bounds the memory that a
/// long text takes, and tokenising stops at the piece that fills the encoder's window.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// Text as its encoder reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedText {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Whether the text was longer than the window, so that its end was left out.
    pub truncated: bool,
}

/// Two texts as an encoder of pairs reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPair {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Index of the first token of type 1: the start of the second text, or the number of ids if
    /// the tokenizer gives both texts the type 0.
    pub second_type_from: usize,
    /// Whether the second text was longer than the room left for it, so that its end was left out.
    pub truncated: bool,
}

/// Token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Byte range of the text that the token stands for.
    pub span: Span,
}

/// Tokenizer of the `tokenizers` library that accepts every text, with the special tokens that it
/// puts around one.
pub(crate) struct Framed {
    tokenizer: Tokenizer,
    /// Special tokens before a text.
    prefix: Vec<u32>,
    /// Special tokens after a text.
    suffix: Vec<u32>,
    largest_id: u32,
    /// Function that returns the length of the first piece of a text longer than the given limit.
    piece_length: fn(&str, usize) -> usize,
    /// Short way to the tokens of plain text, if there is one.
    plain: Option<PlainWords>,
}

/// Special tokens around two texts.
pub(crate) struct PairFrame {
    prefix: Vec<u32>,
    between: Vec<u32>,
    suffix: Vec<u32>,
    /// Whether the second text and what follows it are of type 1.
    has_second_type: bool,
}

/// Reads the content of a `tokenizer.json`. `file` names it in errors. Its truncation and padding
/// settings are ignored: a checkpoint keeps those of its training.
///
/// # Errors
/// Returns [`Error::Broken`] if the content is no tokenizer.
pub(crate) fn read(file: &str, bytes: &[u8]) -> Result<Tokenizer, Error> {
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| Error::Broken {
        file: file.to_owned(),
        expected: "a tokenizer of the `tokenizers` library".to_owned(),
        found: error.to_string(),
    })?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| unsupported(file, "a tokenizer", error))?;
    Ok(tokenizer)
}

impl PairFrame {
    pub(crate) fn has_second_type(&self) -> bool {
        self.has_second_type
    }
}

impl Framed {
    /// Creates a `Framed`; finds the special tokens by encoding a text.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the tokenizer cannot encode a single text, gives it a type
    /// other than 0, or puts special tokens elsewhere than around it.
    pub(crate) fn try_new(
        file: &str,
        tokenizer: Tokenizer,
        piece_length: fn(&str, usize) -> usize,
    ) -> Result<Self, Error> {
        let framed = tokenizer
            .encode_fast("a", true)
            .map_err(|error| unsupported(file, "a post-processor for single texts", error))?;
        if framed.get_type_ids().iter().any(|&kind| kind != 0) {
            return Err(unsupported(file, "token type 0 for a single text", "another one"));
        }
        let parts = parts(framed.get_ids(), framed.get_special_tokens_mask());
        let [prefix, _, suffix] = parts.as_slice() else {
            let found = format!("{} parts", parts.len());
            return Err(unsupported(file, "special tokens around a text", found));
        };
        let (prefix, suffix) = (prefix.clone(), suffix.clone());
        let largest_id = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        let plain = PlainWords::of(&tokenizer);
        Ok(Self { tokenizer, prefix, suffix, largest_id, piece_length, plain })
    }

    /// Finds the special tokens around two texts by encoding a pair.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the tokenizer does not frame pairs as BERT and XLM-RoBERTa
    /// do.
    pub(crate) fn pair_frame(&self, file: &str) -> Result<PairFrame, Error> {
        let framed = self
            .tokenizer
            .encode_fast(("a", "a"), true)
            .map_err(|error| unsupported(file, "a post-processor for pairs", error))?;
        let parts = parts(framed.get_ids(), framed.get_special_tokens_mask());
        let [prefix, first, between, second, suffix] = parts.as_slice() else {
            let found = format!("{} parts", parts.len());
            return Err(unsupported(file, "special tokens around and between two texts", found));
        };
        if first != second || [prefix, between, suffix].iter().any(|special| special.is_empty()) {
            let expected = "special tokens around and between two texts";
            return Err(unsupported(file, expected, "another order"));
        }
        let (first_kinds, second_kinds) =
            framed.get_type_ids().split_at(prefix.len() + first.len() + between.len());
        let kind = second_kinds[0];
        if first_kinds.iter().any(|&kind| kind != 0)
            || second_kinds.iter().any(|&other| other != kind)
            || kind > 1
        {
            return Err(unsupported(file, "types 0 and 0, or 0 and 1, for two texts", "others"));
        }
        Ok(PairFrame {
            prefix: prefix.clone(),
            between: between.clone(),
            suffix: suffix.clone(),
            has_second_type: kind == 1,
        })
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(crate) fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// Returns the numbers of special tokens before and after a text.
    pub(crate) fn frame(&self) -> (usize, usize) {
        (self.prefix.len(), self.suffix.len())
    }

    /// Returns the special tokens before and after a text.
    pub(crate) fn special_ids(&self) -> (&[u32], &[u32]) {
        (&self.prefix, &self.suffix)
    }

    pub(crate) fn special_tokens(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Returns the tokens of `text`. Special tokens are among them only where the text spells them
    /// out.
    pub(crate) fn ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for stretch in self.stretches(text) {
            match stretch {
                Stretch::Plain(plain, range) => plain.tokens(&text[range], |id, _| ids.push(id)),
                Stretch::Other(range) => {
                    let encoding = self.tokenizer.encode_fast(&text[range], false);
                    ids.extend_from_slice(accepted(encoding).get_ids());
                }
            }
        }
        ids
    }

    /// Cuts a text into stretches of plain text, if there is a short way to its tokens, and others.
    fn stretches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Stretch<'a>> {
        let whole =
            (self.plain.is_none() && !text.is_empty()).then_some(Stretch::Other(0..text.len()));
        self.plain.iter().flat_map(|plain| plain.stretches(text)).chain(whole)
    }

    pub(crate) fn encode(&self, text: &str, max_tokens: usize) -> EncodedText {
        let room = max_tokens.saturating_sub(self.special_tokens());
        let mut ids = self.prefix.clone();
        let truncated = self.append(&mut ids, text, room);
        ids.extend_from_slice(&self.suffix);
        EncodedText { ids, truncated }
    }

    /// Encodes a pair and cuts the second text to the room that the first one leaves. Returns
    /// `None` if there is no room.
    pub(crate) fn encode_pair(
        &self,
        frame: &PairFrame,
        first: &str,
        second: &str,
        max_tokens: usize,
    ) -> Option<EncodedPair> {
        let mut ids = frame.prefix.clone();
        let around = frame.prefix.len() + frame.between.len() + frame.suffix.len();
        let room = max_tokens.checked_sub(around)?;
        if self.append(&mut ids, first, room) {
            return None;
        }
        ids.extend_from_slice(&frame.between);
        let start = ids.len();
        let room = max_tokens.checked_sub(start + frame.suffix.len()).filter(|&room| room > 0)?;
        let truncated = self.append(&mut ids, second, room);
        ids.extend_from_slice(&frame.suffix);
        let second_type_from = if frame.has_second_type { start } else { ids.len() };
        Some(EncodedPair { ids, second_type_from, truncated })
    }

    /// Appends at most `room` tokens of `text`. Returns whether there were more.
    fn append(&self, ids: &mut Vec<u32>, text: &str, room: usize) -> bool {
        let mut body = 0;
        for piece in pieces(text, PIECE_BYTES, self.piece_length) {
            let piece_ids = self.ids(piece);
            let kept = piece_ids.len().min(room - body.min(room));
            ids.extend_from_slice(&piece_ids[..kept]);
            body += piece_ids.len();
            if body > room {
                return true;
            }
        }
        false
    }

    pub(crate) fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        let room = max_tokens.saturating_sub(self.special_tokens());
        let (mut body, mut read) = (0, 0);
        for piece in pieces(text, PIECE_BYTES, self.piece_length) {
            body += self.ids(piece).len();
            read += piece.len();
            if body > room {
                break;
            }
        }
        read
    }

    pub(crate) fn spans(&self, text: &str) -> Vec<Span> {
        self.tokens(text, usize::MAX).into_iter().map(|token| token.span).collect()
    }

    /// Returns the first tokens of `text`, at most `most`, without special tokens around it.
    pub(crate) fn tokens(&self, text: &str, most: usize) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut start = 0;
        for piece in pieces(text, PIECE_BYTES, self.piece_length) {
            if tokens.len() >= most {
                break;
            }
            self.add_tokens(&mut tokens, piece, start);
            start += piece.len();
        }
        tokens.truncate(most);
        tokens
    }

    /// Adds the tokens of a part of a text, which begins at the byte `start` of it.
    fn add_tokens(&self, tokens: &mut Vec<Token>, part: &str, start: usize) {
        for stretch in self.stretches(part) {
            match stretch {
                Stretch::Plain(plain, range) => {
                    let shift = start + range.start;
                    plain.tokens(&part[range], |id, span| {
                        tokens.push(Token { id, span: span.shifted(shift) });
                    });
                }
                Stretch::Other(range) => {
                    let shift = start + range.start;
                    let encoding = accepted(self.tokenizer.encode(&part[range], false));
                    let ids = encoding.get_ids().iter().zip(encoding.get_offsets());
                    tokens.extend(ids.map(|(&id, &(from, to))| Token {
                        id,
                        span: Span::new(shift + from, shift + to),
                    }));
                }
            }
        }
    }
}

fn accepted(encoding: tokenizers::Result<Encoding>) -> Encoding {
    encoding.expect("the kinds of tokenizer that are taken accept every text")
}

/// Splits `ids` into alternating runs of special and other tokens. The first and the last run are
/// special, and empty if there are no such tokens.
fn parts(ids: &[u32], special: &[u32]) -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new()];
    let mut is_special = true;
    for (id, special) in ids.iter().zip(special) {
        if (*special == 1) != is_special {
            parts.push(Vec::new());
            is_special = !is_special;
        }
        if let Some(part) = parts.last_mut() {
            part.push(*id);
        }
    }
    if !is_special {
        parts.push(Vec::new());
    }
    parts
}

pub(crate) fn unsupported(file: &str, expected: &str, found: impl ToString) -> Error {
    Error::Unsupported {
        file: file.to_owned(),
        expected: expected.to_owned(),
        found: found.to_string(),
    }
}

/// Cuts `text` into consecutive pieces of at most `limit` bytes. `piece_length` returns where the
/// first piece of a longer text ends.
pub(crate) fn pieces(
    text: &str,
    limit: usize,
    piece_length: fn(&str, usize) -> usize,
) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = if rest.len() <= limit { rest.len() } else { piece_length(rest, limit) };
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some(piece)
    })
}

/// Returns the longest beginning of `text` within `limit` bytes, but at least one character.
pub(crate) fn window(text: &str, limit: usize) -> &str {
    let first = text.chars().next().map_or(0, char::len_utf8);
    &text[..text.floor_char_boundary(limit).max(first)]
}
