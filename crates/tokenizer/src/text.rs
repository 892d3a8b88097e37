//! The tokenizer of a language model: byte-level or SentencePiece tokens, in both directions.

use clew_core::Span;
use tokenizers::ModelWrapper;
use tokenizers::tokenizer::Tokenizer;

use crate::Error;
use crate::framed::{self, EncodedText, Framed, unsupported};

/// Character of the last private-use plane, which no vocabulary has.
const UNKNOWN: &str = "\u{10FFFD}";

/// Tokenizer of a language model, or of an encoder made from one: byte pairs (Qwen, Llama, Mistral)
/// or a unigram model (XLM-RoBERTa).
///
/// It accepts every text. It reads special tokens that a text spells out, such as `<|im_end|>`, as
/// special tokens: callers that take untrusted texts must decide beforehand what these may contain.
pub struct TextTokenizer(Framed);

/// Treatment of special tokens in [`TextTokenizer::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Special tokens are written out.
    Written,
    /// Special tokens are left out.
    LeftOut,
}

impl TextTokenizer {
    /// Reads the content of a `tokenizer.json`. `file` names it in errors. Its truncation and
    /// padding settings are ignored: a checkpoint keeps those of its training.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if the content is no tokenizer. Returns [`Error::Unsupported`] if
    /// it is another kind of tokenizer, drops merges at random, has no token for unknown
    /// characters, or cannot frame a single text.
    pub fn try_new(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        Self::of(file, framed::read(file, bytes)?)
    }

    pub(crate) fn of(file: &str, tokenizer: Tokenizer) -> Result<Self, Error> {
        match tokenizer.get_model() {
            ModelWrapper::BPE(model) if model.dropout.is_some_and(|share| share > 0.0) => {
                return Err(unsupported(file, "`dropout` null", "a share of merges to drop"));
            }
            ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => {}
            ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => {
                return Err(unsupported(file, "a BPE or Unigram model", "another one"));
            }
        }
        if let Err(error) = tokenizer.encode_fast(UNKNOWN, false) {
            return Err(unsupported(file, "a token for unknown characters", error));
        }
        Ok(Self(Framed::try_new(file, tokenizer, piece_length)?))
    }

    /// Returns the largest id that a text can be encoded with.
    pub fn largest_id(&self) -> u32 {
        self.0.largest_id()
    }

    /// Returns the number of special tokens that [`Self::encode_within`] puts around a text.
    pub fn special_tokens(&self) -> usize {
        self.0.special_tokens()
    }

    /// Returns the id of a token, given as the vocabulary spells it: `<|im_end|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.tokenizer().token_to_id(token)
    }

    /// Returns all tokens of `text`. Adds no special token, but recognises those that the text
    /// spells out.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.0.ids(text)
    }

    /// Returns the special tokens of the tokenizer's post-processor and between them the first
    /// tokens of `text`, `max_tokens` in all. If there is no room for more, returns only the
    /// special tokens.
    pub fn encode_within(&self, text: &str, max_tokens: usize) -> EncodedText {
        self.0.encode(text, max_tokens)
    }

    /// Returns the length in bytes of the beginning of `text` that determines the result of
    /// [`Self::encode_within`]. The caller may drop the rest: if `text` is too long for the window,
    /// so is that beginning.
    pub fn read_bytes(&self, text: &str, max_tokens: usize) -> usize {
        self.0.read_bytes(text, max_tokens)
    }

    /// Returns the byte range of every token of `text`.
    ///
    /// Ranges start and end between characters, and their starts do not decrease. Tokens that are
    /// parts of one character each have the range of the whole character.
    pub fn spans(&self, text: &str) -> Vec<Span> {
        self.0.spans(text)
    }

    /// Returns the text of `ids`. Bytes that are not UTF-8 become U+FFFD; ids that are not in the
    /// vocabulary are left out.
    pub fn decode(&self, ids: &[u32], special: SpecialTokens) -> String {
        let decoded = self.0.tokenizer().decode(ids, special == SpecialTokens::LeftOut);
        decoded.expect("decoders of text accept every token")
    }

    pub(crate) fn framed(&self) -> &Framed {
        &self.0
    }
}

/// Text that is decoded while its tokens arrive.
///
/// The concatenated results equal what [`TextTokenizer::decode`] returns for all tokens at once. A
/// token may end within a character. The stream holds such a token back until the character is
/// complete or [`TextStream::finish`] is called. It also holds back the character U+FFFD, which
/// looks the same.
#[derive(Debug)]
pub struct TextStream {
    special: SpecialTokens,
    /// Tokens of the last text returned, which some decoders need to decode the next one, followed
    /// by the tokens held back.
    ids: Vec<u32>,
    /// Number of leading `ids` whose text was returned.
    given: usize,
}

impl TextStream {
    /// Creates a stream without tokens.
    pub fn new(special: SpecialTokens) -> Self {
        Self { special, ids: Vec::new(), given: 0 }
    }

    /// Adds a token and returns the text that it completes, often none. Pass the same `tokenizer`
    /// for all tokens.
    pub fn push(&mut self, tokenizer: &TextTokenizer, id: u32) -> String {
        self.ids.push(id);
        let added = self.held(tokenizer);
        if added.is_empty() || added.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        self.ids.drain(..self.given);
        self.given = self.ids.len();
        added
    }

    /// Returns the text held back, since no more tokens follow.
    pub fn finish(self, tokenizer: &TextTokenizer) -> String {
        self.held(tokenizer)
    }

    fn held(&self, tokenizer: &TextTokenizer) -> String {
        let given = tokenizer.decode(&self.ids[..self.given], self.special);
        let all = tokenizer.decode(&self.ids, self.special);
        // `all` may not start with `given` while a character between them is incomplete.
        all.strip_prefix(&given).unwrap_or_default().to_owned()
    }
}

/// Returns where to cut `text`: before a space that follows a character other than white space. No
/// accepted tokenizer has a token that reaches from a character into the space after it. Without
/// such a space, cuts between characters, which may change the tokens beside the cut.
fn piece_length(text: &str, limit: usize) -> usize {
    let window = framed::window(text, limit);
    let is_cut = |at: &usize| !window[..*at].ends_with(char::is_whitespace);
    let mut spaces = window.rmatch_indices(' ').map(|(at, _)| at).take_while(|at| *at > 0);
    spaces.find(is_cut).unwrap_or(window.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::framed::{PIECE_BYTES, pieces};

    fn tiny() -> TextTokenizer {
        let json = include_bytes!("../tests/fixtures/byte_pairs.json");
        TextTokenizer::try_new("tokenizer.json", json).unwrap()
    }

    fn streamed(tokenizer: &TextTokenizer, ids: &[u32], special: SpecialTokens) -> String {
        let mut stream = TextStream::new(special);
        let mut text: String = ids.iter().map(|id| stream.push(tokenizer, *id)).collect();
        text.push_str(&stream.finish(tokenizer));
        text
    }

    #[test]
    fn a_character_is_given_when_its_last_byte_is_there() {
        let tokenizer = tiny();
        let ids = tokenizer.encode("a 🙂.");
        let mut stream = TextStream::new(SpecialTokens::Written);
        let given: Vec<String> = ids.iter().map(|id| stream.push(&tokenizer, *id)).collect();
        assert_eq!(given.concat(), "a 🙂.");
        assert_eq!(given.last().unwrap(), ".");
        assert!(given.iter().any(String::is_empty), "{given:?}");
        assert_eq!(stream.finish(&tokenizer), "");
    }

    #[test]
    fn an_end_within_a_character_is_given_at_the_end() {
        let tokenizer = tiny();
        let ids = tokenizer.encode("a🙂");
        let cut = &ids[..ids.len() - 1];
        assert_eq!(streamed(&tokenizer, cut, SpecialTokens::Written), "a\u{FFFD}");
    }

    #[test]
    fn special_tokens_are_added_to_no_text_and_recognised_in_one() {
        let tokenizer = tiny();
        let end = tokenizer.id("<|im_end|>").unwrap();
        let ids = tokenizer.encode("hi<|im_end|>");
        assert_eq!(ids.last(), Some(&end));
        assert_eq!(ids[..ids.len() - 1], tokenizer.encode("hi"));
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::Written), "hi<|im_end|>");
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::LeftOut), "hi");
        assert_eq!(tokenizer.id("<|no_such|>"), None);
    }

    #[test]
    fn a_long_text_is_cut_to_the_window_and_the_cut_is_reported() {
        let tokenizer = tiny();
        let long = "a the".repeat(PIECE_BYTES);
        let encoded = tokenizer.encode_within(&long, 20);
        assert_eq!((encoded.ids.len(), encoded.truncated), (20, true));
        let read = tokenizer.read_bytes(&long, 20);
        assert!(read < long.len());
        assert_eq!(tokenizer.encode_within(&long[..read], 20), encoded);
        let whole = tokenizer.encode_within("a the", 20);
        assert_eq!((whole.ids, whole.truncated), (tokenizer.encode("a the"), false));
    }

    #[test]
    fn other_kinds_are_refused() {
        let word_piece = clew_testkit::tiny_tokenizer().to_string();
        let refused = TextTokenizer::try_new("t.json", word_piece.as_bytes());
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
        assert!(matches!(TextTokenizer::try_new("t.json", b"{}"), Err(Error::Broken { .. })));
        let unknown =
            br#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "Unigram", "unk_id": null, "vocab": [["a", -1.0]]}}"#;
        let error = TextTokenizer::try_new("t.json", unknown).err().unwrap();
        assert!(error.to_string().contains("unknown characters"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_at_once_and_streamed(text in any::<String>()) {
            let tokenizer = tiny();
            let ids = tokenizer.encode(&text);
            prop_assert_eq!(tokenizer.decode(&ids, SpecialTokens::Written), text.as_str());
            prop_assert_eq!(streamed(&tokenizer, &ids, SpecialTokens::Written), text.as_str());
        }

        #[test]
        fn any_tokens_are_streamed_as_they_are_decoded(
            ids in proptest::collection::vec(0_u32..280, 0..40),
        ) {
            let tokenizer = tiny();
            for special in [SpecialTokens::Written, SpecialTokens::LeftOut] {
                let decoded = tokenizer.decode(&ids, special);
                prop_assert_eq!(streamed(&tokenizer, &ids, special), decoded);
            }
        }

        #[test]
        fn spans_lie_between_characters_in_order(text in any::<String>()) {
            let tokenizer = tiny();
            let spans = tokenizer.spans(&text);
            prop_assert_eq!(spans.len(), tokenizer.encode(&text).len());
            prop_assert!(spans.iter().all(|span| span.of(&text).is_some()));
            prop_assert!(spans.windows(2).all(|pair| pair[0].start <= pair[1].start));
            prop_assert_eq!(spans.first().map_or(0, |span| span.start), 0);
            prop_assert_eq!(spans.last().map_or(0, |span| span.end), text.len());
        }

        #[test]
        fn cutting_before_spaces_changes_no_token(
            text in "([a-z]{1,6}[ .,!\n]|é |茶|  ){0,60}",
        ) {
            let tokenizer = tiny();
            let cut: Vec<&str> = pieces(&text, 24, piece_length).collect();
            prop_assert_eq!(cut.concat(), text.as_str());
            prop_assert!(cut.iter().all(|piece| !piece.is_empty() && piece.len() <= 24));
            // A run without a place to cut, such as one of white space, may be cut within a token.
            let at_places = |pair: &[&str]| {
                pair[1].starts_with(' ') && !pair[0].ends_with(char::is_whitespace)
            };
            if cut.windows(2).all(at_places) {
                let ids: Vec<u32> = cut.iter().flat_map(|piece| tokenizer.encode(piece)).collect();
                prop_assert_eq!(ids, tokenizer.encode(&text));
            }
        }
    }
}
