//! Counting tokens, also where a model's tokenizer is not at hand.

use clew_core::Span;

use crate::{EncoderTokenizer, Error};

/// Bytes of a word's letters that count as one token: four ASCII letters, or two of those that UTF-8 has in two bytes, as
/// Cyrillic, Greek, Hebrew and Arabic ones and those with accents.
const LETTER_BYTES: usize = 4;

/// Tells the tokens of a text: by the model's tokenizer, or by an estimate where nobody has that.
pub enum TokenCounter {
    /// By the model's tokenizer.
    Exact(Box<EncoderTokenizer>),
    /// By [`estimated_spans`].
    Estimate,
}

impl TokenCounter {
    /// Reads the content of a `tokenizer.json`, which is called `file` in errors; of an empty one, an estimate.
    ///
    /// # Errors
    /// Those of [`EncoderTokenizer::try_new`].
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        match bytes {
            [] => Ok(Self::Estimate),
            bytes => {
                EncoderTokenizer::try_new(file, bytes).map(|exact| Self::Exact(Box::new(exact)))
            }
        }
    }

    /// The byte range of every token of `text`, special tokens left out, as [`EncoderTokenizer::spans`].
    pub fn spans(&self, text: &str) -> Vec<Span> {
        match self {
            Self::Exact(tokenizer) => tokenizer.spans(text),
            Self::Estimate => estimated_spans(text),
        }
    }

    /// How many special tokens are put around a text; two, by estimate.
    pub fn special_tokens(&self) -> usize {
        match self {
            Self::Exact(tokenizer) => tokenizer.special_tokens(),
            Self::Estimate => 2,
        }
    }

    /// How many bytes of `text` decide what a window of `max_tokens` holds of it, special tokens included: the rest may
    /// be left out, and what is left of a text that is too long still is.
    pub fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        match self {
            Self::Exact(tokenizer) => tokenizer.read_bytes(text, max_tokens),
            Self::Estimate => spans(text).nth(max_tokens).map_or(text.len(), |span| span.end),
        }
    }
}

/// The byte range of every token of `text`, about and rather too many than too few: up to four ASCII letters of a word,
/// two of other alphabets, and every other character by itself but white space. The vocabularies in use have longer tokens
/// than that of all scripts that they were made for, and shorter ones of others, and of what is no language.
pub fn estimated_spans(text: &str) -> Vec<Span> {
    spans(text).collect()
}

/// The beginning of `text` that has at most so many tokens, by the same estimate.
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

/// Whether a character is a letter of an alphabet, and not a word or a syllable by itself.
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
