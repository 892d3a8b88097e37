//! The tokenizer of BERT.

use clew_core::Span;
use tokenizers::tokenizer::Tokenizer;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use crate::Error;
use crate::framed::{self, EncodedText, Framed, unsupported};

/// Tokenizer of BERT: word pieces between special tokens.
///
/// Other kinds of tokenizer are refused, because the methods rely on two properties of this kind:
/// it accepts every text, and no token reaches across white space, so that a text may be cut there.
pub struct WordPieceTokenizer(Framed);

impl WordPieceTokenizer {
    /// Reads the content of a `tokenizer.json`. `file` names it in errors. Its truncation and
    /// padding settings are ignored: a checkpoint keeps those of its training.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if the content is no tokenizer. Returns [`Error::Unsupported`] if
    /// it is another kind of tokenizer, or has no special tokens before or after a text.
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        Self::of(file, framed::read(file, bytes)?)
    }

    pub(crate) fn of(file: &str, tokenizer: Tokenizer) -> Result<Self, Error> {
        check_kind(file, &tokenizer)?;
        let framed = Framed::try_new(file, tokenizer, piece_length)?;
        let (before, after) = framed.frame();
        if before == 0 || after == 0 {
            let found = format!("{before} before and {after} after");
            return Err(unsupported(file, "special tokens around a text", found));
        }
        Ok(Self(framed))
    }

    /// Returns the largest id that [`Self::encode`] can produce.
    pub fn largest_id(&self) -> u32 {
        self.0.largest_id()
    }

    /// Returns the number of special tokens around a text.
    pub fn special_tokens(&self) -> usize {
        self.0.special_tokens()
    }

    /// Returns the special tokens and between them the first tokens of `text`, `max_tokens` in all.
    /// If there is no room for more, returns only the special tokens.
    pub fn encode(&self, text: &str, max_tokens: usize) -> EncodedText {
        self.0.encode(text, max_tokens)
    }

    /// Returns the length in bytes of the beginning of `text` that determines the result of
    /// [`Self::encode`]. The caller may drop the rest: if `text` is too long for the window, so is
    /// that beginning.
    pub fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        self.0.read_bytes(text, max_tokens)
    }

    /// Returns the byte range of every token of `text` without special tokens.
    ///
    /// Ranges start and end between characters, and their starts do not decrease. Several tokens
    /// that come from one character (a Korean syllable) share its range.
    pub fn spans(&self, text: &str) -> Vec<Span> {
        self.0.spans(text)
    }

    pub(crate) fn framed(&self) -> &Framed {
        &self.0
    }
}

fn check_kind(file: &str, tokenizer: &Tokenizer) -> Result<(), Error> {
    let ModelWrapper::WordPiece(model) = tokenizer.get_model() else {
        return Err(unsupported(file, "a WordPiece model", "another one"));
    };
    if tokenizer.token_to_id(&model.unk_token).is_none() {
        let found = format!("none for `{}`", model.unk_token);
        return Err(unsupported(file, "an id for the unknown token", found));
    }
    if !matches!(tokenizer.get_normalizer(), Some(NormalizerWrapper::BertNormalizer(_))) {
        return Err(unsupported(file, "BertNormalizer as normalizer", "another one"));
    }
    if !matches!(tokenizer.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_))) {
        return Err(unsupported(file, "BertPreTokenizer as pre-tokenizer", "another one"));
    }
    Ok(())
}

/// Returns where to cut `text`: after white space where there is any, else after a character that
/// is a token of its own, else between characters.
///
/// A cut changes tokens only in a text without white space for `limit` bytes: a "word" of that
/// length, otherwise one unknown token, becomes one unknown token for each piece.
fn piece_length(text: &str, limit: usize) -> usize {
    let window = framed::window(text, limit);
    let after_last = |is_cut: fn(char) -> bool| {
        window.char_indices().rev().find(|(_, c)| is_cut(*c)).map(|(at, c)| at + c.len_utf8())
    };
    after_last(|c| c.is_ascii_whitespace())
        .or_else(|| after_last(|c| c.is_ascii_punctuation() || is_ideograph(c)))
        .unwrap_or(window.len())
}

/// Returns whether `c` is in the main block of ideographs, which BERT tokenises one by one.
fn is_ideograph(c: char) -> bool {
    ('\u{4E00}'..='\u{9FFF}').contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::framed::PIECE_BYTES;

    fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
        framed::pieces(text, limit, piece_length)
    }

    fn tiny() -> WordPieceTokenizer {
        let json = clew_testkit::tiny_tokenizer().to_string();
        WordPieceTokenizer::try_new("tokenizer.json", json.as_bytes()).unwrap()
    }

    #[test]
    fn a_text_is_framed_and_cut_to_the_window_and_the_cut_is_reported() {
        let tokenizer = tiny();
        let whole = tokenizer.encode("a b c d", 6);
        assert_eq!((whole.ids.len(), whole.truncated), (6, false));
        let cut = tokenizer.encode("a b c d e", 6);
        assert_eq!((cut.ids.len(), cut.truncated), (6, true));
        assert_eq!(cut.ids, whole.ids);
        let empty = tokenizer.encode("", 6);
        assert_eq!((empty.ids.len(), empty.truncated), (2, false));
        assert_eq!(tokenizer.encode("a", 1).ids.len(), 2, "no room but for special tokens");
    }

    #[test]
    fn a_long_text_is_cut_after_its_first_pieces() {
        let tokenizer = tiny();
        let long = "a ".repeat(PIECE_BYTES);
        let encoded = tokenizer.encode(&long, 20);
        assert_eq!((encoded.ids.len(), encoded.truncated), (20, true));
        // Every word has a span, over all pieces.
        let spans = tokenizer.spans(&long);
        assert_eq!(spans.len(), PIECE_BYTES);
        assert_eq!(spans.last(), Some(&Span::new(long.len() - 2, long.len() - 1)));
        let read = tokenizer.read_bytes(&long, 20);
        assert!(read < long.len());
        assert_eq!(tokenizer.encode(&long[..read], 20), encoded);
    }

    #[test]
    fn spans_lead_back_to_the_text() {
        let text = "A cat — née Zoë!";
        let words: Vec<_> = tiny().spans(text).iter().map(|span| span.of(text).unwrap()).collect();
        assert_eq!(words.concat(), text.replace(' ', ""));
    }

    #[test]
    fn plain_text_between_other_text_has_the_tokens_of_the_library() {
        let tokenizer = tiny();
        let plain = "A cat sat, unbelievably, on [the] mat; CAT-like ##s and don't. ".repeat(3);
        let long_word = "x".repeat(120);
        for text in [
            plain.clone(),
            format!("{plain}née {plain}\u{301}a Zoë {plain}"),
            format!("é{plain}\u{7f}{plain}[SEP]{plain}[SEP"),
            format!("{plain}{long_word} {long_word}é {plain}"),
        ] {
            let library = tokenizer.0.tokenizer().encode(text.as_str(), false).unwrap();
            let spans = library.get_offsets().iter().map(|&(start, end)| Span::new(start, end));
            assert_eq!(tokenizer.spans(&text), spans.collect::<Vec<_>>(), "{text}");
            assert_eq!(tokenizer.0.ids(&text), library.get_ids(), "{text}");
        }
    }

    #[test]
    fn a_text_without_white_space_is_cut_beside_characters_that_stand_alone() {
        let text = "茶".repeat(10);
        assert!(pieces(&text, 8).all(|piece| piece.len() == 6));
        let text = "é".repeat(4);
        assert_eq!(pieces(&text, 3).collect::<String>(), text);
        assert_eq!(pieces("日", 1).collect::<Vec<_>>(), ["日"]);
    }

    proptest! {
        #[test]
        fn pieces_rebuild_the_text_within_the_limit(text in "\\PC{0,80}", limit in 4_usize..40) {
            let cut: Vec<&str> = pieces(&text, limit).collect();
            prop_assert_eq!(cut.concat(), text.as_str());
            prop_assert!(cut.iter().all(|piece| !piece.is_empty() && piece.len() <= limit));
        }

        #[test]
        fn cutting_after_white_space_changes_no_token(
            text in "([a-z]{1,6}[ .,!\n]|é |茶){0,60}",
        ) {
            let tokenizer = tiny();
            let mut spaced = String::new();
            let mut spans = Vec::new();
            for piece in pieces(&text, 9) {
                let offset = spaced.len();
                spans.extend(tokenizer.spans(piece).iter().map(|span| span.shifted(offset)));
                spaced.push_str(piece);
            }
            prop_assert_eq!(spans, tokenizer.spans(&text));
        }

        #[test]
        fn tokens_are_those_of_the_library(
            text in "([a-zA-Z]{1,9}|[ .,!#'\\[\n\t-]|\\[SEP\\]|[éİΣ茶ﬁ한]|[\u{b}\u{7f}\u{a0}\u{301}]|\\PC){0,90}",
        ) {
            let tokenizer = tiny();
            let library = tokenizer.0.tokenizer().encode(text.as_str(), false).unwrap();
            let spans = library.get_offsets().iter().map(|&(start, end)| Span::new(start, end));
            prop_assert_eq!(tokenizer.spans(&text), spans.collect::<Vec<_>>());
            let encoded = tokenizer.encode(&text, 1_000);
            prop_assert_eq!(&encoded.ids[1..encoded.ids.len() - 1], library.get_ids());
        }

        #[test]
        fn any_text_is_accepted_and_its_spans_are_in_order(text in any::<String>()) {
            let tokenizer = tiny();
            let spans = tokenizer.spans(&text);
            prop_assert!(spans.iter().all(|span| span.of(&text).is_some()));
            prop_assert!(spans.windows(2).all(|pair| pair[0].start <= pair[1].start));
            let encoded = tokenizer.encode(&text, 10_000);
            prop_assert_eq!(encoded.ids.len(), spans.len() + 2);
        }
    }
}
