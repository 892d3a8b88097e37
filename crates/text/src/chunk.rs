//! Cuts documents into chunks.
//!
//! A chunker chooses spans by counting tokens in a map that is built once for the whole document.
//! The key text of each span is then tokenised as the encoder will read it, and a passage that
//! turns out too long there is halved. The limit therefore also holds for tokenizers whose count
//! for a whole text differs from the sum over its parts, and the text is tokenised about twice,
//! whatever its shape.

mod key_text;
mod outline;
mod pack;
mod token_map;
mod unit;
mod window;

use std::iter;
use std::ops::Deref;

use clew_core::{Attributes, Chunk, Chunking, Document, Span};

use crate::{cut, sentences};
use key_text::{KeyTexts, SPECIAL_TOKENS};
use outline::Outline;
use pack::Packer;
use token_map::TokenMap;
use unit::{Grain, Unit, units};

/// Cuts `document` into the segments that its tree is built over, each of at most `max_tokens`
/// tokens as `token_spans` counts them. Returns at least one segment.
pub fn segments(
    document: &Document,
    max_tokens: u32,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
) -> Vec<Span> {
    let chunking = Chunking::Sentences { max_tokens };
    let mut chunks = Chunks::of(document, &chunking, token_spans, usize::MAX);
    let cut: Vec<Span> =
        iter::from_fn(|| chunks.next(token_spans)).map(|chunk| chunk.span).collect();
    match cut.is_empty() {
        true => vec![Span::new(0, document.text.len())],
        false => cut,
    }
}

/// Cuts `document` into chunks.
///
/// `token_spans` returns the byte range of each token of a text in order, without special tokens.
/// `window_tokens` is the maximum number of tokens that the encoder reads, including special
/// tokens.
///
/// - Spans ascend and leave nothing out. Without overlap they partition the text. With overlap,
///   each begins at or before the end of the previous one.
/// - No chunk begins or ends inside a grapheme cluster, and none is only white space. A text of
///   only white space has no chunks.
/// - No passage has more tokens, counted in its key text, than the chunking allows or the window
///   holds, unless it is a single grapheme cluster.
/// - The key text is the title, the headings above the passage that the passage does not contain,
///   and the passage without surrounding white space, each on lines of its own. The lines before
///   the passage take at most a quarter of the window and are shortened to the room that the
///   passage leaves.
///
/// Cost is linear in the text: about two passes of the tokenizer. The call blocks.
pub fn chunk(
    document: &Document,
    chunking: &Chunking,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    window_tokens: usize,
) -> Vec<Chunk> {
    let mut chunks = Chunks::of(document, chunking, token_spans, window_tokens);
    iter::from_fn(|| chunks.next(token_spans)).collect()
}

/// The chunks of a document, one after the other. They are those of [`chunk`], and the key text of
/// each is composed when it is its turn. So a long document does not have all its key texts in
/// memory at once.
///
/// `D` is the document, borrowed or shared.
pub struct Chunks<D> {
    document: D,
    outline: Outline,
    max_tokens: usize,
    window_tokens: usize,
    /// Spans that are left, the next one last.
    pending: Vec<Span>,
    /// Number of chunks that were returned.
    count: usize,
    /// Span of the last one of them.
    last: Option<Span>,
}

impl<D: Deref<Target = Document>> Chunks<D> {
    /// Chooses the spans, for which it tokenises the document once. The arguments are those of
    /// [`chunk`]. Blocks.
    pub fn of(
        document: D,
        chunking: &Chunking,
        token_spans: &dyn Fn(&str) -> Vec<Span>,
        window_tokens: usize,
    ) -> Self {
        let max_tokens = (chunking.max_tokens() as usize)
            .min(window_tokens.saturating_sub(SPECIAL_TOKENS))
            .max(1);
        let text = document.text.as_str();
        let outline = match chunking {
            Chunking::Sections { .. } => Outline::of(text, document.media_type),
            Chunking::Sentences { .. } | Chunking::Tokens { .. } => Outline::default(),
        };
        let mut pending = match cut::holds_ink(text) {
            true => spans(text, chunking, &outline, token_spans, max_tokens),
            false => Vec::new(),
        };
        pending.reverse();
        Self { document, outline, max_tokens, window_tokens, pending, count: 0, last: None }
    }

    /// Returns the next chunk, or `None` after the last one. Pass the same `token_spans` each time.
    /// Blocks.
    pub fn next(&mut self, token_spans: &dyn Fn(&str) -> Vec<Span>) -> Option<Chunk> {
        let document = &*self.document;
        let window_tokens = self.window_tokens;
        let keys = KeyTexts { document, outline: &self.outline, token_spans, window_tokens };
        while let Some(mut span) = self.pending.pop() {
            if let Some(last) = self.last {
                // With overlap, a window may begin before the second half of the previous, halved
                // window.
                span.start = span.start.max(last.start);
                // In that case, the first half of this window may lie entirely within the previous
                // chunk.
                if span.end <= last.end {
                    continue;
                }
            }
            let key = keys.compose(span);
            if key.passage_tokens > self.max_tokens
                && let Some((left, right)) = cut::halves(&document.text, span)
            {
                self.pending.extend([right, left]);
                continue;
            }
            let ordinal = u32::try_from(self.count).unwrap_or(u32::MAX);
            self.count += 1;
            self.last = Some(span);
            return Some(Chunk {
                ordinal,
                span,
                key_text: key.text,
                tokens: u32::try_from(key.tokens + SPECIAL_TOKENS).unwrap_or(u32::MAX),
                attributes: Attributes::new(),
            });
        }
        None
    }

    /// Returns the document.
    pub fn document(&self) -> &D {
        &self.document
    }
}

/// Chooses the spans of a text that holds more than white space. Passages that turn out too long in
/// their key texts are halved later.
fn spans(
    text: &str,
    chunking: &Chunking,
    outline: &Outline,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    max_tokens: usize,
) -> Vec<Span> {
    let tokens = TokenMap::new(text, token_spans);
    let packer = Packer { text, tokens: &tokens, outline, max_tokens };
    match *chunking {
        Chunking::Tokens { overlap_tokens, .. } => {
            window::windows(text, &tokens, max_tokens, overlap_tokens as usize)
        }
        Chunking::Sentences { .. } => packer.pack(
            sentences(text).into_iter().map(|span| Unit::new(span, Grain::Sentence)).collect(),
        ),
        Chunking::Sections { .. } => packer.pack(units(text, outline)),
    }
}

#[cfg(test)]
mod tests;
