//! Terms: words reduced to what they have in common, for counting overlap.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// A word in its reduced form: lower-case, without accents, stemmed by Snowball's English rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(String);

impl Term {
    /// The reduced form, as in `connect` for "Connections".
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The terms of `text` in order, repeats included, stop words left out.
///
/// Identifiers come apart: `max_tokens` and `path::join` are two terms each, `3.5` is one.
pub fn terms(text: &str) -> impl Iterator<Item = Term> + '_ {
    let stemmer = Stemmer::create(Algorithm::English);
    text.unicode_words().flat_map(word_parts).filter_map(move |word| {
        let folded = fold(word);
        (!folded.is_empty() && !is_stop_word(&folded))
            .then(|| Term(stemmer.stem(&folded).into_owned()))
    })
}

/// Whether a lower-case word is so common in English that sharing it tells nothing. The list is
/// the short one that full-text engines of the Lucene family leave out.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Sorted.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// The parts of a word that `_`, `:` or a full stop between letters joins.
fn word_parts(word: &str) -> impl Iterator<Item = &str> {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    word.split(move |c| matches!(c, '_' | ':') || (c == '.' && !is_number))
        .filter(|part| !part.is_empty())
}

/// Lower-case, with compatibility forms unified, accents dropped and joined letters written out.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.nfkd().flat_map(char::to_lowercase) {
        match c {
            // Accents of Latin, Greek and Cyrillic; the marks of other scripts are letters to them.
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
