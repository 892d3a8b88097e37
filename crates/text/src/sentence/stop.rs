//! Detection of sentence ends within a paragraph.

use super::abbreviation::{self, Abbreviation};

/// Returns the offsets at which the second and later sentences of `paragraph` begin, ascending.
pub(super) fn sentence_starts(paragraph: &str) -> impl Iterator<Item = usize> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(found) = paragraph[from..].find(is_terminator) {
            let stop = Stop::at(paragraph, from + found);
            from = stop.closed;
            let rest = &paragraph[stop.closed..];
            let next = rest.trim_start();
            if next.is_empty() {
                return None;
            }
            if stop.ends_sentence(paragraph, next, next.len() < rest.len()) {
                return Some(paragraph.len() - next.len());
            }
        }
        None
    })
}

/// A run of terminators, with the closing quotes and brackets after it.
struct Stop {
    /// Offset of the first terminator.
    start: usize,
    /// Offset after the last terminator.
    end: usize,
    /// Offset after the last closing quote or bracket.
    closed: usize,
}

impl Stop {
    fn at(paragraph: &str, start: usize) -> Self {
        let after = paragraph[start..].trim_start_matches(is_terminator);
        let end = paragraph.len() - after.len();
        let closed = paragraph.len() - after.trim_start_matches(is_closer).len();
        Self { start, end, closed }
    }

    fn ends_sentence(&self, paragraph: &str, next: &str, space_follows: bool) -> bool {
        let marks = &paragraph[self.start..self.end];
        if marks.contains(is_full_width) {
            return true;
        }
        if !space_follows {
            return false;
        }
        let next_is_lower = begins_lower(next);
        if marks.contains(['!', '?']) {
            // `"Why?" she asked` is one sentence; `What? no way` is two.
            return !(next_is_lower && self.closed > self.end);
        }
        if next_is_lower {
            return false;
        }
        marks != "." || self.full_stop_ends_sentence(paragraph, next)
    }

    fn full_stop_ends_sentence(&self, paragraph: &str, next: &str) -> bool {
        let before = &paragraph[..self.start];
        let word = last_word(before);
        let is_enumerator =
            before.trim_start().len() == word.len() && word.chars().all(char::is_alphanumeric);
        if is_enumerator && (word.chars().count() == 1 || word.parse::<u32>().is_ok()) {
            return false;
        }
        match abbreviation::of(word) {
            None => true,
            Some(Abbreviation::Open) => false,
            Some(Abbreviation::BeforeNumber) => !next.starts_with(|c: char| c.is_ascii_digit()),
            Some(Abbreviation::MayClose) => {
                let next_word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
                abbreviation::often_begins_sentence(next_word)
            }
        }
    }
}

/// Returns the last word of `text` without opening quotes. A word of more than 24 characters is cut
/// to its last 24, since no abbreviation is that long.
fn last_word(text: &str) -> &str {
    let start = text
        .char_indices()
        .rev()
        .take(24)
        .take_while(|(_, c)| !c.is_whitespace())
        .last()
        .map_or(text.len(), |(at, _)| at);
    text[start..].trim_start_matches(|c: char| !c.is_alphanumeric())
}

/// Returns whether the next word, after opening quotes and emphasis marks, begins with a lower-case
/// letter. A word after a bracket or a code mark gives no evidence and counts as not lower-case.
fn begins_lower(next: &str) -> bool {
    next.trim_start_matches(['"', '\'', '“', '‘', '*', '_']).starts_with(char::is_lowercase)
}

fn is_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…') || is_full_width(c)
}

fn is_full_width(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡')
}

fn is_closer(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | '”'
            | '’'
            | ')'
            | ']'
            | '}'
            | '*'
            | '_'
            | '`'
            | '»'
            | '」'
            | '』'
            | '）'
            | '】'
    )
}
