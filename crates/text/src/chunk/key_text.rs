//! Key texts: the text that is embedded and indexed for a passage.

use clew_core::{Document, Span};

use super::outline::Outline;
use crate::cut;

/// Number of tokens that an encoder adds around a text.
pub(super) const SPECIAL_TOKENS: usize = 2;

/// Composer of the key texts of one document.
pub(super) struct KeyTexts<'a> {
    pub(super) document: &'a Document,
    pub(super) outline: &'a Outline,
    pub(super) token_spans: &'a dyn Fn(&str) -> Vec<Span>,
    pub(super) window_tokens: usize,
}

/// A key text and its number of tokens, without special tokens.
pub(super) struct KeyText {
    pub(super) text: String,
    pub(super) tokens: usize,
    /// Number of tokens of the passage alone.
    pub(super) passage_tokens: usize,
}

impl KeyTexts<'_> {
    /// Composes the key text of the passage at `span`.
    pub(super) fn compose(&self, span: Span) -> KeyText {
        let passage = self.document.text[span.start..span.end].trim();
        let lines = self.header_lines(span);
        let whole = self.under_header(&lines, passage);
        let free = self.window_tokens.saturating_sub(SPECIAL_TOKENS + whole.passage_tokens);
        let room = free.min(self.window_tokens / 4);
        if whole.header_tokens() <= room {
            return whole;
        }
        let shortened = self.under_header(&self.shorten(&lines, room), passage);
        if shortened.header_tokens() <= room {
            return shortened;
        }
        self.under_header::<&str>(&[], passage)
    }

    /// Returns the title and the headings above the passage, without headings that repeat the
    /// title.
    fn header_lines(&self, span: Span) -> Vec<&str> {
        let title = self.document.title.trim();
        let headings = self.outline.headings_above(span.start);
        let titles = Some(title).filter(|title| !title.is_empty());
        titles.into_iter().chain(headings.into_iter().filter(|heading| *heading != title)).collect()
    }

    fn under_header<S: AsRef<str>>(&self, lines: &[S], passage: &str) -> KeyText {
        let mut text = String::with_capacity(passage.len() + 64 * lines.len());
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        let passage_start = text.len();
        text.push_str(passage);
        let spans = (self.token_spans)(&text);
        let passage_tokens = spans.iter().filter(|token| token.start >= passage_start).count();
        KeyText { text, tokens: spans.len(), passage_tokens }
    }

    /// Returns the lines that fit in `room` tokens, in document order: the first line (the title,
    /// if there is one), truncated if necessary, then as many headings as fit, starting from the
    /// innermost.
    fn shorten(&self, lines: &[&str], room: usize) -> Vec<String> {
        let Some((title, headings)) = lines.split_first() else { return Vec::new() };
        let title_spans = (self.token_spans)(title);
        let mut left = room.saturating_sub(title_spans.len());
        let title = match title_spans.get(room) {
            None => (*title).to_owned(),
            Some(first_cut) => {
                title[..boundary_before(title, first_cut.start)].trim_end().to_owned()
            }
        };
        let mut kept = Vec::new();
        for heading in headings.iter().rev() {
            let tokens = (self.token_spans)(heading).len();
            if tokens > left {
                break;
            }
            left -= tokens;
            kept.push((*heading).to_owned());
        }
        kept.extend(Some(title).filter(|title| !title.is_empty()));
        kept.reverse();
        kept
    }
}

impl KeyText {
    fn header_tokens(&self) -> usize {
        self.tokens - self.passage_tokens
    }
}

fn boundary_before(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|&at| cut::is_grapheme_boundary(text, at)).unwrap_or(0)
}
