//! Words and sentences of a passage.

use std::collections::{HashMap, HashSet};

use clew_core::Span;
use clew_text::is_grammar_word;

/// Word of a passage.
#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    /// Text as written, without a possessive ending.
    pub text: &'a str,
    /// Text in lower case.
    pub lower: String,
    /// Byte range in the passage.
    pub span: Span,
    /// Index of its sentence.
    pub sentence: usize,
    /// Whether it begins a sentence, a quotation or an item, so that its capital means nothing.
    pub is_initial: bool,
    /// Whether it is written with a possessive ending, which ends a name.
    pub is_possessive: bool,
}

/// Words of a passage, and statistics of its spelling.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    pub passage: &'a str,
    /// Words, in order.
    pub words: Vec<Word<'a>>,
    /// Sentences, without white space around them.
    pub sentences: Vec<Sentence>,
    /// Words that the passage writes in lower case somewhere.
    lower: HashSet<String>,
    /// Number of times that each word is capitalised: within sentences, and at their beginning.
    capital: HashMap<String, (usize, usize)>,
}

/// Sentence of a passage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentence {
    /// Byte range in the passage.
    pub span: Span,
    /// Whether nearly all of it is capitalised, as in a heading.
    pub shouts: bool,
}

impl<'a> Words<'a> {
    pub fn of(passage: &'a str) -> Self {
        let (mut words, mut sentences) = (Vec::new(), Vec::new());
        for whole in clew_text::sentences(passage) {
            let span = clew_text::trimmed(passage, whole);
            let of_sentence = words_of(passage, span, sentences.len());
            let text = &passage[span.start..span.end];
            sentences.push(Sentence { span, shouts: shouts(text, &of_sentence) });
            words.extend(of_sentence);
        }
        let (mut lower, mut capital) = (HashSet::new(), HashMap::<String, (usize, usize)>::new());
        for word in &words {
            if !word.is_capitalised() {
                lower.insert(word.lower.clone());
            } else if !sentences[word.sentence].shouts {
                let (within, initial) = capital.entry(word.lower.clone()).or_default();
                *(if word.is_initial { initial } else { within }) += 1;
            }
        }
        Self { passage, words, sentences, lower, capital }
    }

    /// Returns whether the passage writes the word in lower case somewhere.
    pub fn is_seen_lower(&self, lower: &str) -> bool {
        self.lower.contains(lower)
    }

    /// Returns how often the passage capitalises the word within sentences, and at their beginning.
    pub fn seen_capital(&self, lower: &str) -> (usize, usize) {
        self.capital.get(lower).copied().unwrap_or_default()
    }

    /// Returns the text between two neighbouring words, or an empty text if one of them is missing.
    pub fn gap(&self, before: usize, after: usize) -> &'a str {
        match (self.words.get(before), self.words.get(after)) {
            (Some(before), Some(after)) => {
                self.passage.get(before.span.end..after.span.start).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// Returns the word after the one at `at`, if it is in the same sentence.
    pub fn next(&self, at: usize) -> Option<&Word<'a>> {
        let (word, next) = (self.words.get(at)?, self.words.get(at + 1)?);
        (word.sentence == next.sentence).then_some(next)
    }

    /// Returns the word before the one at `at`, if it is in the same sentence.
    pub fn previous(&self, at: usize) -> Option<&Word<'a>> {
        let (word, previous) = (self.words.get(at)?, self.words.get(at.checked_sub(1)?)?);
        (word.sentence == previous.sentence).then_some(previous)
    }
}

impl Word<'_> {
    pub fn is_capitalised(&self) -> bool {
        self.text.starts_with(char::is_uppercase)
    }

    /// Returns whether it has capitals that no ordinary word has, wherever it stands: `NASA`,
    /// `LanceDB`.
    pub fn is_acronym(&self) -> bool {
        self.text.chars().skip(1).any(char::is_uppercase)
    }

    /// Returns whether it is a number of at most `digits` digits.
    pub fn is_number(&self, digits: usize) -> bool {
        self.text.len() <= digits && self.text.bytes().all(|byte| byte.is_ascii_digit())
    }
}

fn words_of(passage: &str, sentence_span: Span, sentence: usize) -> Vec<Word<'_>> {
    let text = &passage[sentence_span.start..sentence_span.end];
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut has_letters = false;
    for span in clew_text::words(text) {
        let span = span.shifted(sentence_span.start);
        let written = &passage[span.start..span.end];
        let stem = ["'s", "’s", "'S", "’S"].iter().find_map(|end| written.strip_suffix(end));
        let text = stem.filter(|stem| !stem.is_empty()).unwrap_or(written);
        let gap_start = words.last().map_or(sentence_span.start, |last| last.span.end);
        let gap = &passage[gap_start..span.start];
        words.push(Word {
            text,
            lower: text.to_lowercase(),
            span: Span::new(span.start, span.start + text.len()),
            sentence,
            is_initial: !has_letters || gap.contains(OPENING),
            is_possessive: text.len() < written.len(),
        });
        has_letters |= text.contains(char::is_alphabetic);
    }
    words
}

/// Characters that begin a quotation, an aside or an explanation.
const OPENING: [char; 13] = ['"', '“', '”', '‘', '«', '»', '(', '[', ':', '—', '–', '|', '*'];

/// Returns whether capitals mean nothing in a sentence: nearly all of its words have one, and it is
/// not a list.
fn shouts(text: &str, words: &[Word<'_>]) -> bool {
    let mostly = |word_is: &dyn Fn(&Word<'_>) -> bool, counts: &dyn Fn(&Word<'_>) -> bool| {
        let all = words.iter().filter(|word| counts(word)).count();
        let such = words.iter().filter(|word| counts(word) && word_is(word)).count();
        all >= 3 && such * 10 > all * 7
    };
    let has_letters = |word: &Word<'_>| word.text.contains(char::is_alphabetic);
    let is_content = |word: &Word<'_>| has_letters(word) && !is_grammar_word(&word.lower);
    mostly(&|word| !word.text.contains(char::is_lowercase), &has_letters)
        || (mostly(&|word| word.is_capitalised(), &is_content)
            && !text.contains(['.', ',', '!', '?', ';', '。']))
}
