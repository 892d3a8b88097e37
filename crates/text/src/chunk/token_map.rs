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

/// Bytes of a text whose tokens are counted together.
const BLOCK: usize = 64;

/// The places at which the tokens of a text begin, as one bit for each byte of the text. It takes a
/// fifth of the text's memory, and counts the tokens of a range in constant time.
pub(super) struct TokenMap {
    /// Bits of a block each. The bit of a byte says whether a token begins there.
    blocks: Vec<u64>,
    /// Number of tokens that begin before each block, by those in `blocks`.
    before: Vec<u32>,
    /// Places of further tokens where several begin, ascending.
    further: Vec<usize>,
}

impl TokenMap {
    pub(super) fn new(text: &str, token_spans: &dyn Fn(&str) -> Vec<Span>) -> Self {
        let blocks = vec![0; text.len() / BLOCK + 1];
        let mut map = Self { blocks, before: Vec::new(), further: Vec::new() };
        for lump in lumps(text, MAX_LUMP_BYTES) {
            let content = &text[lump.start..lump.end];
            for token in token_spans(content) {
                let opaque = token.of(content).filter(|t| t.len() > MAX_TOKEN_BYTES);
                match opaque.filter(|t| !t.trim().is_empty()) {
                    None => map.add(text, lump.start + token.start.min(content.len())),
                    Some(opaque) => {
                        let shift = lump.start + token.start;
                        parts(opaque, token_spans).for_each(|start| map.add(text, shift + start));
                    }
                }
            }
        }
        map.further.sort_unstable();
        map.before.reserve_exact(map.blocks.len());
        let mut before = 0;
        for block in &map.blocks {
            map.before.push(before);
            before += block.count_ones();
        }
        map
    }

    /// Adds a token that begins at a byte. Of several tokens that one character is made of, each
    /// takes another of its bytes: no range that is counted divides a character.
    fn add(&mut self, text: &str, start: usize) {
        let is_of_character = |place: &usize| *place == start || !text.is_char_boundary(*place);
        for place in (start..text.len()).take_while(is_of_character) {
            let bit = 1 << (place % BLOCK);
            if self.blocks[place / BLOCK] & bit == 0 {
                self.blocks[place / BLOCK] |= bit;
                return;
            }
        }
        self.further.push(start);
    }

    /// Counts the tokens that begin in `span`, which begins and ends between characters.
    pub(super) fn count(&self, span: Span) -> usize {
        self.up_to(span.end) - self.up_to(span.start)
    }

    /// Counts the tokens that begin before a byte.
    fn up_to(&self, end: usize) -> usize {
        let below = self.blocks[end / BLOCK] & ((1 << (end % BLOCK)) - 1);
        let in_blocks = self.before[end / BLOCK] + below.count_ones();
        in_blocks as usize + self.further.partition_point(|&start| start < end)
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
    fn tokens_that_begin_at_the_same_place_are_all_counted() {
        // Five tokens for each character of three bytes, and none for the others.
        let several = |text: &str| -> Vec<Span> {
            let of = |(at, one): (usize, char)| {
                let span = Span::new(at, at + one.len_utf8());
                vec![span; if one.len_utf8() == 3 { 5 } else { 0 }]
            };
            text.char_indices().flat_map(of).collect()
        };
        let text = "a語語b".repeat(50);
        let map = TokenMap::new(&text, &several);
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let expected = several(&text[..end]).len();
            assert_eq!(map.count(Span::new(0, end)), expected, "{end}");
            assert_eq!(map.count(Span::new(end, text.len())), 500 - expected, "{end}");
        }
    }

    #[test]
    fn lumps_end_after_lines_and_partition_the_text() {
        let text = "aaa bbb\ncccccccccccc dd";
        let lumps: Vec<&str> = lumps(text, 10).map(|span| span.of(text).unwrap()).collect();
        assert_eq!(lumps, ["aaa bbb\n", "cccccccccc", "cc dd"]);
    }
}
