//! Words of a question.

use std::collections::BTreeSet;
use std::ops::BitOr;

use clew_text::{Term, is_grammar_word};

use super::plain::plain_terms;

/// Maximum number of distinct words of a question that are looked for: the capacity of a
/// [`WordSet`].
const MAX_WORDS: usize = u64::BITS as usize;

/// The distinct words of a question, without those that carry only grammar.
#[derive(Debug)]
pub(crate) struct Question {
    words: Vec<Word>,
}

/// A word that an answer is expected to contain.
#[derive(Debug)]
pub(crate) struct Word {
    term: Term,
    /// The word as the asker wrote it, without punctuation around it.
    pub(crate) written: String,
    /// Whether it looks like a name or contains a digit. A text that answers can hardly do without
    /// it, while other words have synonyms.
    pub(crate) is_name: bool,
}

/// A set of a question's words, by their places in the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordSet(u64);

impl Question {
    /// Takes the words of `text`, at most the first 64.
    pub(crate) fn new(text: &str) -> Self {
        let mut seen = BTreeSet::new();
        let words = text
            .split_whitespace()
            .enumerate()
            .flat_map(|(place, token)| words_of(token, place == 0))
            .filter(|word| seen.insert(word.term.clone()))
            .take(MAX_WORDS)
            .collect();
        Self { words }
    }

    /// Returns the words, in the order of the question.
    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    /// Returns the words that `text` contains in some form.
    pub(crate) fn words_in(&self, text: &str) -> WordSet {
        let mut found = WordSet::default();
        for term in plain_terms(text) {
            if let Some(place) = self.words.iter().position(|word| word.term == term) {
                found.0 |= 1 << place;
            }
        }
        found
    }

    /// Returns at most `most` of the words that are not in `covered`, as written, each once, with
    /// names and numbers first.
    pub(crate) fn written_without(&self, covered: WordSet, most: usize) -> Vec<String> {
        let places = 0..self.words.len();
        let open = places.filter(|place| !covered.holds(*place)).map(|place| &self.words[place]);
        let (names, others): (Vec<_>, Vec<_>) = open.partition(|word| word.is_name);
        let mut written: Vec<String> = Vec::new();
        for word in names.into_iter().chain(others) {
            if written.len() < most && !written.contains(&word.written) {
                written.push(word.written.clone());
            }
        }
        written
    }
}

impl WordSet {
    /// Returns whether the word at `place` is in the set.
    pub(crate) fn holds(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    /// Returns the number of words in the set.
    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the words of this set that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for WordSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Returns the words of a run without white space; several if punctuation joins them.
fn words_of(token: &str, begins_question: bool) -> Vec<Word> {
    let written = token.trim_matches(|c: char| !c.is_alphanumeric());
    let written = written.strip_suffix("'s").or(written.strip_suffix("’s")).unwrap_or(written);
    // "I'm" and "what's" count as the words before the apostrophe, which carry only grammar.
    let subject = written.split(['\'', '’']).next().unwrap_or(written);
    if [written, subject].iter().any(|word| is_grammar_word(&word.to_lowercase())) {
        return Vec::new();
    }
    let is_name = looks_like_a_name(written, begins_question);
    // A sign of a currency alone is a word too.
    let written = if written.is_empty() { token } else { written };
    let word = |term| Word { term, written: written.to_owned(), is_name };
    plain_terms(token).into_iter().map(word).collect()
}

/// Returns whether a word has capital letters or digits. A single capital at the start of the
/// question does not count.
fn looks_like_a_name(written: &str, begins_question: bool) -> bool {
    let first_that_tells = usize::from(begins_question);
    written.chars().any(|c| c.is_numeric())
        || written.chars().skip(first_that_tells).any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(question: &str) -> Vec<String> {
        Question::new(question).words.into_iter().map(|word| word.written).collect()
    }

    #[test]
    fn words_of_grammar_are_not_looked_for() {
        assert_eq!(written("What did she do about the broken harp?"), ["broken", "harp"]);
        assert!(written("Who are you?").is_empty());
        assert_eq!(written("It seems I'm late, what’s O'Brien's?"), ["seems", "late", "O'Brien"]);
    }

    #[test]
    fn names_and_numbers_are_told_from_other_words() {
        let names = |question: &str| -> Vec<String> {
            let words = Question::new(question).words;
            words.into_iter().filter(|word| word.is_name).map(|word| word.written).collect()
        };
        assert_eq!(names("Where was Ada’s friend in 1840?"), ["Ada", "1840"]);
        assert_eq!(names("Bridges over the Rhine?"), ["Rhine"]);
        assert_eq!(names("NASA: when?"), ["NASA"]);
        assert!(names("Bridges over which river?").is_empty());
    }

    #[test]
    fn a_word_is_found_in_any_of_its_forms() {
        let question = Question::new("Which connections did Zoë lose?");
        let found = question.words_in("zoe was connecting it");
        assert_eq!([0, 1, 2].map(|place| found.holds(place)), [true, true, false]);
    }

    #[test]
    fn an_amount_is_found_however_it_is_written() {
        let question = Question::new("Who approves purchases above 5000 euros?");
        let found = question.words_in("Purchases over 5,000 EUR need approval by Jonas Weber.");
        assert_eq!(question.written_without(found, 9), ["above"]);
        let question = Question::new("What costs $1,200?");
        assert_eq!(question.words_in("It costs 1200 dollars."), question.words_in("$1,200 costs"));
    }

    #[test]
    fn a_long_question_is_cut_at_the_words_a_set_can_hold() {
        let text: String = (0..100).map(|n| format!("word{n} ")).collect();
        let question = Question::new(&text);
        assert_eq!(question.words().len(), MAX_WORDS);
        assert!(question.words_in(&text).holds(MAX_WORDS - 1));
    }
}
