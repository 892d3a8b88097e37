//! Lines, and the paragraphs they form: decides which line breaks end a sentence regardless of
//! punctuation.

use clew_core::Span;

/// Maximum number of lines over which the width of a wrapped paragraph is estimated. Longer
/// paragraphs are processed in blocks of this many lines.
const MAX_BLOCK_LINES: usize = 1024;
/// Widths, in characters, at which text is commonly wrapped.
const WRAP_WIDTHS: std::ops::RangeInclusive<usize> = 50..=120;
/// Minimum width, in characters, of a line that counts as wrapped because a lower-case word follows
/// it.
const MIN_WRAPPED_WIDTH: usize = 20;

/// Splits `text` into stretches that no sentence crosses, in order; they partition `text`.
pub(super) fn paragraphs(text: &str) -> Vec<Span> {
    let mut paragraphs: Vec<Span> = Vec::new();
    let mut block: Vec<Line<'_>> = Vec::new();
    let mut start = 0;
    for content in text.split_inclusive('\n') {
        let line = Line::new(start, content);
        start = line.end;
        let is_blank = line.kind == Kind::Blank;
        if is_blank && block.is_empty() {
            match paragraphs.last_mut() {
                Some(last) => last.end = line.end,
                None => paragraphs.push(Span::new(0, line.end)),
            }
            continue;
        }
        block.push(line);
        if is_blank || block.len() == MAX_BLOCK_LINES {
            join_wrapped(&block, &mut paragraphs);
            block.clear();
        }
    }
    join_wrapped(&block, &mut paragraphs);
    paragraphs
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blank,
    /// May continue the line before it.
    Prose,
    /// Begins something new: a list item, a quotation, a speaker's turn.
    Entry,
    /// Stands alone: a heading, a table row, a code fence.
    Alone,
}

struct Line<'a> {
    start: usize,
    end: usize,
    text: &'a str,
    kind: Kind,
    /// Width in characters, without trailing white space.
    width: usize,
}

impl<'a> Line<'a> {
    fn new(start: usize, content: &'a str) -> Self {
        let text = content.trim();
        let width = content.trim_end().chars().count();
        Self { start, end: start + content.len(), text, kind: kind_of(text), width }
    }

    /// Returns whether the break after this line only wraps text at `width` and does not end a
    /// sentence.
    fn wraps_into(&self, next: &Self, width: usize) -> bool {
        if self.kind == Kind::Alone
            || next.kind != Kind::Prose
            || self.text.ends_with([';', '{', '}'])
        {
            return false;
        }
        let first_word = next.text.split_whitespace().next().unwrap_or("");
        let next_is_lower = first_word.starts_with(char::is_lowercase);
        let was_full = WRAP_WIDTHS.contains(&width)
            && self.width + 1 + first_word.chars().take(width).count() > width;
        was_full || (next_is_lower && self.width >= MIN_WRAPPED_WIDTH)
    }
}

fn join_wrapped(block: &[Line<'_>], paragraphs: &mut Vec<Span>) {
    let width = block.iter().map(|line| line.width).max().unwrap_or(0);
    let mut previous: Option<&Line<'_>> = None;
    for line in block {
        let joins = previous
            .is_some_and(|before| line.kind == Kind::Blank || before.wraps_into(line, width));
        match paragraphs.last_mut() {
            Some(last) if joins => last.end = line.end,
            _ => paragraphs.push(Span::new(line.start, line.end)),
        }
        previous = Some(line);
    }
}

fn kind_of(text: &str) -> Kind {
    let Some(first) = text.chars().next() else { return Kind::Blank };
    let marker_length = text.find(char::is_whitespace).unwrap_or(text.len());
    let marker = &text[..marker_length];
    match first {
        '|' => Kind::Alone,
        '#' if marker.len() <= 6 && marker.bytes().all(|b| b == b'#') => Kind::Alone,
        '`' | '~' if text.starts_with("```") || text.starts_with("~~~") => Kind::Alone,
        '-' | '*' | '+' | '•' | '>' if marker.chars().count() == 1 => Kind::Entry,
        '0'..='9' if is_enumerator(marker) => Kind::Entry,
        _ if names_speaker(text) => Kind::Entry,
        _ => Kind::Prose,
    }
}

/// Returns whether `marker` numbers a list item, such as `1.` or `12)`.
fn is_enumerator(marker: &str) -> bool {
    let number = marker.strip_suffix(['.', ')']).unwrap_or("");
    (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether a line begins with `Name: `, where the name has up to four words.
fn names_speaker(text: &str) -> bool {
    const MAX_NAME_BYTES: usize = 40;
    let Some(colon) = text.bytes().take(MAX_NAME_BYTES).position(|b| b == b':') else {
        return false;
    };
    let name = &text[..colon];
    let is_name_char = |c: char| c.is_alphanumeric() || " .'-_()*@[]".contains(c);
    text[colon + 1..].starts_with(|c: char| c.is_whitespace() || c == '*')
        && name.starts_with(|c: char| c.is_uppercase() || c == '*' || c == '[')
        && name.chars().all(is_name_char)
        && name.split_whitespace().count() <= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_how_they_begin() {
        for (text, kind) in [
            ("", Kind::Blank),
            ("plain words", Kind::Prose),
            ("-5 degrees", Kind::Prose),
            ("2024 was a year", Kind::Prose),
            ("#hashtag", Kind::Prose),
            ("note: lower case", Kind::Prose),
            ("- item", Kind::Entry),
            ("12) item", Kind::Entry),
            ("> quoted", Kind::Entry),
            ("Mary Ann: hello", Kind::Entry),
            ("**User**: hello", Kind::Entry),
            ("## Heading", Kind::Alone),
            ("| cell |", Kind::Alone),
            ("```rust", Kind::Alone),
        ] {
            assert_eq!(kind_of(text), kind, "{text:?}");
        }
    }

    #[test]
    fn paragraphs_partition_any_lines() {
        let text = "\n\n a\n\nb\nc\r\n\n\n";
        let spans = paragraphs(text);
        let rebuilt: String = spans.iter().map(|span| span.of(text).unwrap()).collect();
        assert_eq!(rebuilt, text);
    }
}
