//! The tokenizer of an encoder, whichever kind its file holds.

use clew_core::Span;
use tokenizers::ModelWrapper;

use crate::framed::{self, EncodedPair, EncodedText, Framed, PairFrame, Token};
use crate::{Error, TextTokenizer, WordPieceTokenizer};

/// Tokenizer of an encoder: word pieces for BERT, a unigram model for XLM-RoBERTa, byte pairs for
/// an encoder that was made from a language model.
pub enum EncoderTokenizer {
    /// Word pieces (BERT).
    WordPiece(WordPieceTokenizer),
    /// A unigram model or byte pairs.
    Text(TextTokenizer),
}

impl EncoderTokenizer {
    /// Reads the content of a `tokenizer.json`. `file` names it in errors.
    ///
    /// # Errors
    /// Returns the errors of [`WordPieceTokenizer::try_new`] and [`TextTokenizer::try_new`], and
    /// [`Error::Unsupported`] for a model of another kind.
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        let tokenizer = framed::read(file, bytes)?;
        match tokenizer.get_model() {
            ModelWrapper::WordPiece(_) => {
                WordPieceTokenizer::of(file, tokenizer).map(Self::WordPiece)
            }
            ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => {
                TextTokenizer::of(file, tokenizer).map(Self::Text)
            }
            ModelWrapper::WordLevel(_) => {
                let expected = "a WordPiece, BPE or Unigram model";
                Err(framed::unsupported(file, expected, "a WordLevel model"))
            }
        }
    }

    /// Returns the largest id that [`Self::encode`] can produce.
    pub fn largest_id(&self) -> u32 {
        self.framed().largest_id()
    }

    /// Returns the number of special tokens around a text. BERT and XLM-RoBERTa always have some.
    pub fn special_tokens(&self) -> usize {
        self.framed().special_tokens()
    }

    /// Returns the number of special tokens after a text.
    pub fn special_tokens_after(&self) -> usize {
        self.framed().frame().1
    }

    /// Returns the special tokens and between them the first tokens of `text`, `max_tokens` in all.
    /// If there is no room for more, returns only the special tokens.
    pub fn encode(&self, text: &str, max_tokens: usize) -> EncodedText {
        self.framed().encode(text, max_tokens)
    }

    /// Returns the length in bytes of the beginning of `text` that determines the result of
    /// [`Self::encode`]. The caller may drop the rest: if `text` is too long for the window, so is
    /// that beginning.
    pub fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        self.framed().read_bytes(text, max_tokens)
    }

    /// Returns the byte range of every token of `text` without special tokens.
    ///
    /// Ranges start and end between characters, and their starts do not decrease. Tokens that come
    /// from one character share its range.
    pub fn spans(&self, text: &str) -> Vec<Span> {
        self.framed().spans(text)
    }

    /// Returns the special tokens before and after a text.
    pub fn special_ids(&self) -> (&[u32], &[u32]) {
        self.framed().special_ids()
    }

    /// Returns the first tokens of `text`, at most `most`, without special tokens around it. Stops
    /// reading soon after the last of them. Their ranges are those of [`Self::spans`].
    pub fn tokens(&self, text: &str, most: usize) -> Vec<Token> {
        self.framed().tokens(text, most)
    }

    fn framed(&self) -> &Framed {
        match self {
            Self::WordPiece(tokenizer) => tokenizer.framed(),
            Self::Text(tokenizer) => tokenizer.framed(),
        }
    }
}

/// Tokenizer of an encoder that reads two texts at once.
pub struct PairTokenizer {
    tokenizer: EncoderTokenizer,
    frame: PairFrame,
}

impl PairTokenizer {
    /// Reads the content of a `tokenizer.json`. `file` names it in errors.
    ///
    /// # Errors
    /// Returns the errors of [`EncoderTokenizer::try_new`], and [`Error::Unsupported`] if the
    /// tokenizer puts no special tokens around and between two texts.
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        let tokenizer = EncoderTokenizer::try_new(file, bytes)?;
        let frame = tokenizer.framed().pair_frame(file)?;
        Ok(Self { tokenizer, frame })
    }

    /// Returns the largest id that [`Self::encode`] can produce.
    pub fn largest_id(&self) -> u32 {
        self.tokenizer.largest_id()
    }

    /// Returns whether the tokens of a second text are of type 1.
    pub fn has_second_type(&self) -> bool {
        self.frame.has_second_type()
    }

    /// Returns all of `first` and as much of `second` as fits into `max_tokens`, special tokens
    /// included. Returns `None` if `first` leaves no room for `second`.
    pub fn encode(&self, first: &str, second: &str, max_tokens: usize) -> Option<EncodedPair> {
        self.tokenizer.framed().encode_pair(&self.frame, first, second, max_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpecialTokens, TextStream};

    #[test]
    fn the_kind_is_that_of_the_file() {
        let word_piece = clew_testkit::tiny_tokenizer().to_string();
        let word_piece = EncoderTokenizer::try_new("t.json", word_piece.as_bytes()).unwrap();
        assert!(matches!(word_piece, EncoderTokenizer::WordPiece(_)));
        let byte_pairs = include_bytes!("../tests/fixtures/byte_pairs.json");
        let byte_pairs = EncoderTokenizer::try_new("t.json", byte_pairs).unwrap();
        assert!(matches!(byte_pairs, EncoderTokenizer::Text(_)));
        assert_eq!((word_piece.special_tokens(), byte_pairs.special_tokens()), (2, 0));
    }

    #[test]
    fn tokens_have_the_ids_and_the_spans_of_the_text_and_end_where_enough_are_read() {
        let json = clew_testkit::tiny_tokenizer().to_string();
        let tokenizer = EncoderTokenizer::try_new("t.json", json.as_bytes()).unwrap();
        // More than is tokenised at once.
        let text = format!("née Zoë{}", " a".repeat(35_000));
        let spans = tokenizer.spans(&text);
        let (before, after) = tokenizer.special_ids();
        for most in [0, 1, 5, 33_000] {
            let tokens = tokenizer.tokens(&text, most);
            let ids = tokens.iter().map(|token| token.id);
            let framed = [before.to_vec(), ids.collect(), after.to_vec()].concat();
            assert_eq!(framed, tokenizer.encode(&text, most + 2).ids);
            assert!(tokens.iter().map(|token| &token.span).eq(&spans[..most]));
        }
        assert_eq!(tokenizer.tokens("a b", 5).len(), 2);
    }

    #[test]
    fn a_pair_is_framed_and_only_its_second_text_is_cut() {
        let json = clew_testkit::tiny_tokenizer().to_string();
        let tokenizer = PairTokenizer::try_new("t.json", json.as_bytes()).unwrap();
        let whole = tokenizer.encode("a b", "c d e", 8).unwrap();
        // [CLS] a b [SEP] c d e [SEP]
        assert_eq!((whole.ids.len(), whole.second_type_from, whole.truncated), (8, 4, false));
        let cut = tokenizer.encode("a b", "c d e", 6).unwrap();
        assert_eq!((&cut.ids[..5], cut.ids[5]), (&whole.ids[..5], whole.ids[7]));
        assert_eq!((cut.ids.len(), cut.second_type_from, cut.truncated), (6, 4, true));
        assert_eq!(tokenizer.encode("a b", "c d e", 5), None, "no room for the second");
        assert_eq!(tokenizer.encode("a b", "c d e", 2), None);
        assert!(tokenizer.encode("", "", 8).is_some());
    }

    #[test]
    fn an_xlm_roberta_reads_words_with_the_space_before_and_pairs_of_one_type() {
        let json = include_bytes!("../tests/fixtures/unigram.json");
        let tokenizer = EncoderTokenizer::try_new("t.json", json).unwrap();
        let text = "dog  dogs ü";
        assert_eq!(tokenizer.encode(text, 20).ids, [0, 5, 5, 6, 4, 3, 2]);
        let spans = tokenizer.spans(text).into_iter().map(|span| span.of(text).unwrap());
        // The space before `ü` is a token of its own and has the range of the character it
        // precedes.
        assert_eq!(spans.collect::<Vec<_>>(), ["dog", "dog", "s", "ü", "ü"]);
        let EncoderTokenizer::Text(text) = &tokenizer else { panic!("another kind") };
        let ids = text.encode("dog dogs");
        let mut stream = TextStream::new(SpecialTokens::Written);
        let given: Vec<String> = ids.iter().map(|id| stream.push(text, *id)).collect();
        assert_eq!(given, ["dog", " dog", "s"]);
        let pairs = PairTokenizer::try_new("t.json", json).unwrap();
        let pair = pairs.encode("dog", "dogs", 20).unwrap();
        assert_eq!((pair.ids.as_slice(), pair.second_type_from), (&[0, 5, 2, 2, 5, 6, 2][..], 7));
        assert!(!pairs.has_second_type());
    }

    #[test]
    fn a_tokenizer_without_special_tokens_reads_no_pairs() {
        let byte_pairs = include_bytes!("../tests/fixtures/byte_pairs.json");
        let refused = PairTokenizer::try_new("t.json", byte_pairs);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
    }
}
