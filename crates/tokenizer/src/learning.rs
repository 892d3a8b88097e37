//! Learns a tokenizer from texts.

use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::tokenizer::{AddedToken, Tokenizer};
use tokenizers::{DecoderWrapper, ModelWrapper, PreTokenizerWrapper};

use crate::Error;

/// Learns byte pairs from `texts` and returns the content of a `tokenizer.json`.
///
/// The vocabulary has at most `tokens` tokens; those of `special` come first. The algorithm is that
/// of Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", section 3.2,
/// over bytes, so that the vocabulary can express every text.
///
/// # Errors
/// Returns [`Error::Unsupported`] if `tokens` is smaller than 256 plus the number of special
/// tokens, or if learning fails.
pub fn learn_byte_pairs(texts: &[&str], tokens: usize, special: &[&str]) -> Result<Vec<u8>, Error> {
    const FILE: &str = "tokenizer.json";
    let failed = |found: String| Error::Unsupported {
        file: FILE.to_owned(),
        expected: "texts that byte pairs can be learnt from".to_owned(),
        found,
    };
    let least = 256 + special.len();
    if tokens < least {
        return Err(failed(format!("room for {tokens} tokens, not for {least}")));
    }
    let mut tokenizer = Tokenizer::new(ModelWrapper::BPE(BPE::default()));
    let bytes = ByteLevel::new(false, true, true);
    tokenizer.with_pre_tokenizer(Some(PreTokenizerWrapper::ByteLevel(bytes)));
    tokenizer.with_decoder(Some(DecoderWrapper::ByteLevel(bytes)));
    let special = special.iter().map(|token| AddedToken::from(*token, true)).collect();
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(tokens)
        .special_tokens(special)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let mut trainer = tokenizers::models::TrainerWrapper::BpeTrainer(trainer);
    tokenizer.train(&mut trainer, texts.iter()).map_err(|error| failed(error.to_string()))?;
    let json = tokenizer.to_string(true).map_err(|error| failed(error.to_string()))?;
    Ok(json.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpecialTokens, TextTokenizer};

    #[test]
    fn what_is_learnt_reads_every_text_and_common_words_as_few_tokens() {
        let texts = ["the river and the reed ".repeat(50), "the river runs".repeat(50)];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let learn = || learn_byte_pairs(&texts, 300, &["<end>"]).unwrap();
        let json = learn();
        assert_eq!(json, learn());
        let tokenizer = TextTokenizer::try_new("tokenizer.json", &json).unwrap();
        assert_eq!(tokenizer.id("<end>"), Some(0));
        assert!(tokenizer.largest_id() < 300);
        for text in ["the river", "zwölf 🍵\n"] {
            let ids = tokenizer.encode(text);
            assert_eq!(tokenizer.decode(&ids, SpecialTokens::Written), text);
        }
        assert!(tokenizer.encode("the river").len() <= 3);
        assert!(matches!(
            learn_byte_pairs(&texts, 256, &["<end>"]),
            Err(Error::Unsupported { .. })
        ));
    }
}
