//! Terms: words reduced to a common form, for measuring overlap between texts.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// A word in reduced form: lower-case, without accents, stemmed by the Snowball rules for English.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(String);

impl Term {
    /// Returns the reduced form, such as `connect` for "Connections".
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the terms of `text` in order, with repeats and without stop words.
///
/// Identifiers are split: `max_tokens` and `path::join` are two terms each. Numbers are not: `3.5`
/// is one term.
pub fn terms(text: &str) -> impl Iterator<Item = Term> + '_ {
    let stemmer = Stemmer::create(Algorithm::English);
    text.unicode_words().flat_map(word_parts).filter_map(move |word| {
        let folded = fold(word);
        (!folded.is_empty() && !is_stop_word(&folded))
            .then(|| Term(stemmer.stem(&folded).into_owned()))
    })
}

/// Returns whether a lower-case word is so common in English that sharing it says nothing. The list
/// is the short default one of the Lucene family of full-text engines.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Sorted for binary search.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// Splits a word at `_`, `:` and full stops between letters.
fn word_parts(word: &str) -> impl Iterator<Item = &str> {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    word.split(move |c| matches!(c, '_' | ':') || (c == '.' && !is_number))
        .filter(|part| !part.is_empty())
}

/// Converts a word to lower case, unifies compatibility forms, removes accents and writes out
/// joined letters.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.nfkd().flat_map(char::to_lowercase) {
        match c {
            // Combining accents of Latin, Greek and Cyrillic. In other scripts combining marks are
            // letters.
            '\u{300}'..='\u{36f}' => {}
            '’' | '‘' => folded.push('\''),
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'đ' | 'ð' => folded.push('d'),
            'þ' => folded.push_str("th"),
            'ł' => folded.push('l'),
            'ı' => folded.push('i'),
            other => folded.push(other),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        terms(text).map(|term| term.0).collect()
    }

    #[test]
    fn forms_of_a_word_share_a_term() {
        assert_eq!(words("Connected connections, connecting"), ["connect"; 3]);
        assert_eq!(words("Straße STRASSE"), ["strass"; 2]);
        assert_eq!(words("Café naïve Ærø"), ["cafe", "naiv", "aero"]);
        assert_eq!(words("dog’s dog's dog"), ["dog"; 3]);
    }

    #[test]
    fn identifiers_come_apart_and_numbers_do_not() {
        assert_eq!(words("max_tokens file.rs 3.5"), ["max", "token", "file", "rs", "3.5"]);
    }

    #[test]
    fn stop_words_are_left_out() {
        assert!(words("The and of it, THIS!").is_empty());
        assert!(STOP_WORDS.is_sorted());
        assert!(!is_stop_word("who"));
    }
}
