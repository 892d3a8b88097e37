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
    let cut = chunk(document, &Chunking::Sentences { max_tokens }, token_spans, usize::MAX);
    match cut.is_empty() {
        true => vec![Span::new(0, document.text.len())],
        false => cut.into_iter().map(|chunk| chunk.span).collect(),
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
    let text = document.text.as_str();
    if !cut::holds_ink(text) {
        return Vec::new();
    }
    let max_tokens =
        (chunking.max_tokens() as usize).min(window_tokens.saturating_sub(SPECIAL_TOKENS)).max(1);
    let tokens = TokenMap::new(text, token_spans);
    let outline = match chunking {
        Chunking::Sections { .. } => Outline::of(text, document.media_type),
        Chunking::Sentences { .. } | Chunking::Tokens { .. } => Outline::default(),
    };
    let packer = Packer { text, tokens: &tokens, outline: &outline, max_tokens };
    let spans = match *chunking {
        Chunking::Tokens { overlap_tokens, .. } => {
            window::windows(text, &tokens, max_tokens, overlap_tokens as usize)
        }
        Chunking::Sentences { .. } => packer.pack(
            sentences(text).into_iter().map(|span| Unit::new(span, Grain::Sentence)).collect(),
        ),
        Chunking::Sections { .. } => packer.pack(units(text, &outline)),
    };
    let keys = KeyTexts { document, outline: &outline, token_spans, window_tokens };
    chunks(text, spans, &keys, max_tokens)
}

/// Composes the key text of each span, and halves spans whose passage has too many tokens in it.
fn chunks(text: &str, spans: Vec<Span>, keys: &KeyTexts<'_>, max_tokens: usize) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::with_capacity(spans.len());
    let mut pending: Vec<Span> = spans.into_iter().rev().collect();
    while let Some(mut span) = pending.pop() {
        if let Some(last) = chunks.last() {
            // With overlap, a window may begin before the second half of the previous, halved
            // window.
            span.start = span.start.max(last.span.start);
            // In that case, the first half of this window may lie entirely within the previous
            // chunk.
            if span.end <= last.span.end {
                continue;
            }
        }
        let key = keys.compose(span);
        if key.passage_tokens > max_tokens
            && let Some((left, right)) = cut::halves(text, span)
        {
            pending.extend([right, left]);
            continue;
        }
        chunks.push(Chunk {
            ordinal: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
            span,
            key_text: key.text,
            tokens: u32::try_from(key.tokens + SPECIAL_TOKENS).unwrap_or(u32::MAX),
            attributes: Attributes::new(),
        });
    }
    chunks
}

#[cfg(test)]
mod tests;
