//! Token positions of a text, which count the tokens of any range without running the tokenizer
//! again.

use clew_core::Span;

/// Maximum number of bytes passed to the tokenizer at once. Bounds the cost of a tokenizer whose
/// cost grows faster than its input.
const MAX_LUMP_BYTES: usize = 8 << 10;
/// Maximum length, in bytes, of a token that is counted as one. A longer token stands for text that
/// the tokenizer gave up on, such as a word of thousands of letters that becomes one unknown token.
/// It is counted in parts of this size, so that a chunk of few tokens cannot be megabytes long.
const MAX_TOKEN_BYTES: usize = 64;

/// The offset of the first byte of every token of a text, ascending.
pub(super) struct TokenMap {
    starts: Vec<usize>,
}

impl TokenMap {
    pub(super) fn new(text: &str, token_spans: &dyn Fn(&str) -> Vec<Span>) -> Self {
        let mut starts = Vec::with_capacity(text.len() / 4);
        for lump in lumps(text, MAX_LUMP_BYTES) {
            let content = &text[lump.start..lump.end];
            for token in token_spans(content) {
                let opaque = token.of(content).filter(|t| t.len() > MAX_TOKEN_BYTES);
                match opaque.filter(|t| !t.trim().is_empty()) {
                    None => starts.push(lump.start + token.start.min(content.len())),
                    Some(opaque) => {
                        let shift = lump.start + token.start;
                        starts.extend(parts(opaque, token_spans).map(|start| shift + start));
                    }
                }
            }
        }
        starts.sort_unstable();
        Self { starts }
    }

    /// Counts the tokens that begin in `span`.
    pub(super) fn count(&self, span: Span) -> usize {
        let before = |offset| self.starts.partition_point(|&start| start < offset);
        before(span.end) - before(span.start)
    }
}

/// Returns the token starts of an opaque token, tokenised in parts. Each part counts as at least
/// one token.
fn parts<'a>(
    opaque: &'a str,
    token_spans: &'a dyn Fn(&str) -> Vec<Span>,
) -> impl Iterator<Item = usize> + 'a {
    lumps(opaque, MAX_TOKEN_BYTES).flat_map(move |part| {
        let mut starts: Vec<usize> = token_spans(&opaque[part.start..part.end])
            .into_iter()
            .map(|token| part.start + token.start.min(part.len()))
            .collect();
        if starts.is_empty() {
            starts.push(part.start);
        }
        starts
    })
}

/// Cuts `text` into lumps of at most `max_bytes`, which must be at least 4: after a line break if
/// possible, otherwise after a space, otherwise between any two characters.
fn lumps(text: &str, max_bytes: usize) -> impl Iterator<Item = Span> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let length = if rest.len() <= max_bytes {
            rest.len()
        } else {
            let window = &rest[..rest.floor_char_boundary(max_bytes)];
            let after = |found: Option<usize>| found.map(|at| at + 1).filter(|&at| at > 0);
            after(window.rfind('\n')).or_else(|| after(window.rfind(' '))).unwrap_or(window.len())
        };
        start += length;
        Some(Span::new(start - length, start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_token(text: &str) -> Vec<Span> {
        vec![Span::new(0, text.len())]
    }

    #[test]
    fn a_token_the_tokenizer_gave_up_on_counts_by_its_length() {
        let text = "é".repeat(320);
        let map = TokenMap::new(&text, &one_token);
        assert_eq!(map.count(Span::new(0, text.len())), 10);
        assert_eq!(map.count(Span::new(0, 64)), 1);
    }

    #[test]
    fn lumps_end_after_lines_and_partition_the_text() {
        let text = "aaa bbb\ncccccccccccc dd";
        let lumps: Vec<&str> = lumps(text, 10).map(|span| span.of(text).unwrap()).collect();
        assert_eq!(lumps, ["aaa bbb\n", "cccccccccc", "cc dd"]);
    }
}
