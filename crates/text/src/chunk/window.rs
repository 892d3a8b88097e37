//! Overlapping windows of a fixed number of tokens.

use clew_core::Span;

use super::token_map::TokenMap;
use crate::cut;

/// Cuts `text` into windows of up to `max_tokens` tokens. Each begins up to `overlap_tokens` (at
/// most half of `max_tokens`) before the end of the previous one. Windows begin and end between
/// words, or between tokens within words that take more than a quarter of a window.
pub(super) fn windows(
    text: &str,
    tokens: &TokenMap,
    max_tokens: usize,
    overlap_tokens: usize,
) -> Vec<Span> {
    let overlap_tokens = overlap_tokens.min(max_tokens / 2);
    let words = words(text, tokens, (max_tokens / 4).max(1));
    let between = |first: usize, last: usize| Span::new(words[first].start, words[last].end);
    let fits = |first, last, limit| tokens.count(between(first, last)) <= limit;
    let mut windows = Vec::new();
    let mut first = 0;
    while first < words.len() {
        let mut next = first + 1;
        while next < words.len() && fits(first, next, max_tokens) {
            next += 1;
        }
        windows.push(between(first, next - 1));
        if next == words.len() {
            break;
        }
        // Step back for the overlap, but leave room for one new word, so that every window
        // advances.
        let mut begin = next;
        while overlap_tokens > 0
            && begin > first + 1
            && fits(begin - 1, next - 1, overlap_tokens)
            && fits(begin - 1, next, max_tokens)
        {
            begin -= 1;
        }
        first = begin;
    }
    windows
}

fn words(text: &str, tokens: &TokenMap, max_word_tokens: usize) -> Vec<Span> {
    cut::words(text, Span::new(0, text.len()))
        .into_iter()
        .flat_map(|word| {
            if tokens.count(word) <= max_word_tokens {
                vec![word]
            } else {
                cut::fill(text, word, |piece| tokens.count(piece) <= 1)
            }
        })
        .collect()
}
