//! Cuts an answer to its words, and compares answers by them.

use clew_core::Span;
use clew_text::words;

use crate::extractive::plain::plain;

/// Marks that are not part of an answer at either end.
const MARKS: [char; 13] = [',', '.', ';', ':', '!', '?', '–', '—', '•', '*', '|', '>', '-'];
/// Marks that belong together.
const PAIRS: [(char, char); 8] = [
    ('(', ')'),
    ('[', ']'),
    ('{', '}'),
    ('“', '”'),
    ('«', '»'),
    ('‘', '’'),
    ('"', '"'),
    ('`', '`'),
];
/// Words that make no difference between two answers.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// Returns the part of `text[span]` without white space, marks and halves of pairs around it;
/// `None` if it has no letter or digit.
pub(super) fn cleaned(text: &str, span: Span) -> Option<Span> {
    let whole = span.of(text)?;
    let mut words = whole;
    loop {
        let shorter = without_halves(without_marks(words.trim()));
        if shorter.len() == words.len() {
            break;
        }
        words = shorter;
    }
    let start = span.start + (words.as_ptr() as usize - whole.as_ptr() as usize);
    let says_something = words.chars().any(char::is_alphanumeric);
    says_something.then(|| Span::new(start, start + words.len()))
}

fn without_marks(text: &str) -> &str {
    let mut rest = text;
    while let Some(shorter) = rest.strip_prefix(MARKS) {
        // The minus and the point of a number stay.
        if rest.starts_with(['-', '.']) && shorter.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        rest = shorter;
    }
    while let Some(shorter) = rest.strip_suffix(MARKS) {
        if rest.ends_with('.') && is_abbreviated(shorter) {
            break;
        }
        rest = shorter;
    }
    rest
}

/// Returns whether a full stop after `text` belongs to its last word: "U.S", "J", "Jr".
fn is_abbreviated(text: &str) -> bool {
    const SHORT: [&str; 6] = ["Jr", "Sr", "Inc", "Ltd", "Co", "etc"];
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_initial = last.chars().count() == 1 && last.starts_with(char::is_uppercase);
    let is_dotted = last.contains('.') && !last.contains(|c: char| c.is_numeric());
    is_initial || is_dotted || SHORT.contains(&last)
}

/// Removes marks at the ends whose other half is missing, and pairs around the whole.
fn without_halves(text: &str) -> &str {
    for (open, close) in PAIRS {
        let count = |mark: char| text.matches(mark).count();
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inner) = inner.filter(|inner| !inner.contains([open, close])) {
            return inner;
        }
        let (lacks_close, lacks_open) = match open == close {
            true => (count(open) == 1, count(open) == 1),
            false => (count(open) > count(close), count(close) > count(open)),
        };
        if let Some(rest) = text.strip_prefix(open).filter(|_| lacks_close) {
            return rest;
        }
        // A single mark after a letter is an apostrophe: "the Joneses’".
        if let Some(rest) = text.strip_suffix(close).filter(|_| lacks_open && close != '’') {
            return rest;
        }
    }
    text
}

/// Returns the words of an answer in one form, so that equal answers have equal keys: in lower
/// case, without articles and the ending of the possessive, with amounts in one form.
pub(super) fn key(text: &str) -> String {
    let plain = plain(text);
    let lower = words(&plain).filter_map(|word| word.of(&plain)).map(str::to_lowercase);
    let bare = |word: String| match word.strip_suffix("'s").or(word.strip_suffix("’s")) {
        Some(owner) => owner.to_owned(),
        None => word,
    };
    let lower: Vec<String> = lower.map(bare).collect();
    let content: Vec<&str> =
        lower.iter().map(String::as_str).filter(|word| !ARTICLES.contains(word)).collect();
    // "The The" is a name as well.
    if content.is_empty() { lower.join(" ") } else { content.join(" ") }
}

/// Returns whether two keys say the same, one of them perhaps in fewer words: "weber" and "jonas
/// weber".
pub(super) fn says_same(a: &str, b: &str) -> bool {
    let (shorter, longer) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let longer: Vec<&str> = longer.split(' ').collect();
    shorter.split(' ').all(|word| longer.contains(&word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(text: &str) -> Option<&str> {
        cleaned(text, Span::new(0, text.len()))?.of(text)
    }

    #[test]
    fn an_answer_is_its_words() {
        for (text, expected) in [
            (" Jonas Weber, ", "Jonas Weber"),
            ("(in Paris", "in Paris"),
            ("Paris)", "Paris"),
            ("Paris (Texas)", "Paris (Texas)"),
            ("“So What”", "So What"),
            ("\"So What", "So What"),
            ("- Ada.", "Ada"),
            ("-5 °C", "-5 °C"),
            (".5 mm;", ".5 mm"),
            ("in the U.S.", "in the U.S."),
            ("Hank Williams, Jr.", "Hank Williams, Jr."),
            ("in 1984.", "in 1984"),
            ("the Joneses’", "the Joneses’"),
            ("([“Ada”.", "Ada"),
            ("$5,000.", "$5,000"),
        ] {
            assert_eq!(clean(text), Some(expected), "{text}");
        }
        assert_eq!(clean(" (?) "), None);
    }

    #[test]
    fn equal_answers_have_equal_keys() {
        for [a, b] in [
            ["The Beatles", "beatles"],
            ["5,000 EUR", "€5000"],
            ["Maria's", "“Maria”"],
            ["3 May 2024", "3 may, 2024"],
        ] {
            assert_eq!(key(a), key(b));
        }
        assert_ne!(key("The The"), "");
        assert!(says_same("weber", "jonas weber") && !says_same("ada weber", "jonas weber"));
    }

    proptest! {
        #[test]
        fn any_text_is_cut_at_characters_and_only_once(
            text in "[a.,(“”\"’‘ )é-]{0,20}|\\PC{0,30}",
        ) {
            if let Some(span) = cleaned(&text, Span::new(0, text.len())) {
                let words = span.of(&text).unwrap();
                prop_assert_eq!(clean(words), Some(words));
                prop_assert_eq!(words.trim(), words);
            }
        }
    }
}
