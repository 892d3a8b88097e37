//! Counts the tokens of texts, with a model's tokenizer or by an estimate without one.

use clew_core::Span;

use crate::{EncoderTokenizer, Error};

/// Bytes of letters that an estimated token has at most: four ASCII letters, or two letters of two
/// bytes each in UTF-8, such as accented, Cyrillic, Greek, Hebrew and Arabic ones.
const LETTER_BYTES: usize = 4;

/// Counter of a text's tokens: the model's tokenizer or, where there is none, an estimate.
pub enum TokenCounter {
    /// Counts with the model's tokenizer.
    Exact(Box<EncoderTokenizer>),
    /// Counts with [`estimated_spans`].
    Estimate,
}

impl TokenCounter {
    /// Reads the content of a `tokenizer.json`. Without content, the counter estimates. `file`
    /// names it in errors.
    ///
    /// # Errors
    /// Returns the errors of [`EncoderTokenizer::try_new`].
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        match bytes {
            [] => Ok(Self::Estimate),
            bytes => {
                EncoderTokenizer::try_new(file, bytes).map(|exact| Self::Exact(Box::new(exact)))
            }
        }
    }

    /// Returns the byte range of every token of `text` without special tokens, as
    /// [`EncoderTokenizer::spans`] does.
    pub fn spans(&self, text: &str) -> Vec<Span> {
        match self {
            Self::Exact(tokenizer) => tokenizer.spans(text),
            Self::Estimate => estimated_spans(text),
        }
    }

    /// Returns the number of special tokens around a text. The estimate is two.
    pub fn special_tokens(&self) -> usize {
        match self {
            Self::Exact(tokenizer) => tokenizer.special_tokens(),
            Self::Estimate => 2,
        }
    }

    /// Returns the length in bytes of the beginning of `text` that is enough to fill a window of
    /// `max_tokens`, special tokens included. The caller may drop the rest: if `text` is too long
    /// for the window, so is that beginning.
    pub fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        match self {
            Self::Exact(tokenizer) => tokenizer.read_bytes(text, max_tokens),
            Self::Estimate => spans(text).nth(max_tokens).map_or(text.len(), |span| span.end),
        }
    }
}

/// Returns the estimated byte range of every token of `text`.
///
/// A token is up to four ASCII letters of a word, up to two letters of other alphabets, or any
/// other character except white space. The estimate tends to count too many tokens. Vocabularies in
/// use have longer tokens than this for the scripts they were made for, and shorter ones for other
/// scripts and for text that is no language.
pub fn estimated_spans(text: &str) -> Vec<Span> {
    spans(text).collect()
}

/// Returns the beginning of `text` that has at most `tokens` tokens by the estimate of
/// [`estimated_spans`].
pub fn estimated_beginning(text: &str, tokens: usize) -> &str {
    spans(text).nth(tokens).map_or(text, |beyond| &text[..beyond.start])
}

fn spans(text: &str) -> impl Iterator<Item = Span> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, character)| !character.is_whitespace())?;
        let mut end = start + first.len_utf8();
        if is_letter(first) {
            let fits = |next: char, end: usize| {
                is_letter(next) && end - start + next.len_utf8() <= LETTER_BYTES
            };
            while let Some((_, next)) = rest.next_if(|(_, next)| fits(*next, end)) {
                end += next.len_utf8();
            }
        }
        Some(Span::new(start, end))
    })
}

/// Returns whether a character is a letter of an alphabet, not a word or a syllable by itself.
fn is_letter(character: char) -> bool {
    character.is_alphabetic() && character.len_utf8() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_cuts_words_and_counts_every_other_character() {
        let text = "Ariadne's  clew forêt Москва 東京 1999\n";
        let tokens: Vec<&str> =
            estimated_spans(text).into_iter().map(|span| span.of(text).unwrap()).collect();
        let expected = [
            "Aria", "dne", "'", "s", "clew", "for", "êt", "Мо", "ск", "ва", "東", "京", "1", "9",
            "9", "9",
        ];
        assert_eq!(tokens, expected);
        assert_eq!(estimated_beginning(text, 5), "Ariadne's  clew ");
        assert_eq!(estimated_beginning(text, 16), text);
        assert_eq!(estimated_beginning(text, 0), "");
        assert!(estimated_spans(" \n").is_empty());
    }

    #[test]
    fn what_is_left_of_a_text_that_is_too_long_still_is() {
        let tiny = clew_testkit::tiny_tokenizer().to_string();
        let long = "dog ".repeat(50_000);
        for json in [tiny.as_bytes(), b""] {
            let counter = TokenCounter::try_new("t.json", json).unwrap();
            let read = counter.read_bytes(&long, 10);
            assert!(read < long.len() && counter.spans(&long[..read]).len() > 10 - 2, "{read}");
            assert_eq!(counter.read_bytes("dog", 10), 3);
        }
    }

    #[test]
    fn an_estimate_is_not_below_what_a_vocabulary_makes_of_its_own_words() {
        let json = clew_testkit::tiny_tokenizer().to_string();
        let exact = TokenCounter::try_new("t.json", json.as_bytes()).unwrap();
        let text = "The old house in the city was sold to her mother, who lives by the river.";
        assert!(estimated_spans(text).len() >= exact.spans(text).len());
    }
}
