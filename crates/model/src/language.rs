//! Language of a decoder: its tokenizer, its chat template, and its end tokens.

use clew_tokenizer::TextTokenizer;
use serde::Deserialize;

use crate::chat::ChatTemplate;
use crate::decoder::Ends;
use crate::folder::TOKENIZER;
use crate::folder::reader::FolderReader;
use crate::{Error, LanguageModelOptions};

const GENERATION: &str = "generation_config.json";

/// Settings of a model folder for the texts of its decoder.
pub(crate) struct Language {
    pub(crate) tokenizer: TextTokenizer,
    pub(crate) tokenizer_json: Vec<u8>,
    pub(crate) template: ChatTemplate,
    /// Tokens that end a reply, sorted.
    pub(crate) ends: Vec<u32>,
    /// Repetition penalty of the sampler; 1 changes nothing.
    pub(crate) repetition_penalty: f32,
}

/// Fields read from `generation_config.json`.
#[derive(Default, Deserialize)]
struct Generation {
    eos_token_id: Option<Ends>,
    repetition_penalty: Option<f32>,
}

impl Language {
    /// Reads the folders that `options` name, for a decoder with `vocabulary` token ids, of which
    /// `ends` end a text.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] or [`Error::Broken`] if a file cannot be read or is invalid,
    /// and [`Error::Inconsistent`] if the tokenizer has ids beyond the decoder's vocabulary.
    pub(crate) fn read(
        options: &LanguageModelOptions,
        vocabulary: usize,
        ends: &[u32],
    ) -> Result<Self, Error> {
        let reader = FolderReader::new(options.tokenizer.as_ref().unwrap_or(&options.folder));
        let tokenizer_json = reader.read(TOKENIZER, "the model's tokenizer")?;
        let tokenizer = TextTokenizer::try_new(TOKENIZER, &tokenizer_json)?;
        if tokenizer.largest_id() as usize >= vocabulary {
            return Err(Error::Inconsistent {
                file: TOKENIZER.to_owned(),
                other: "config.json".to_owned(),
                expected: format!("token ids below `vocab_size`, {vocabulary}"),
                found: format!("id {}", tokenizer.largest_id()),
            });
        }
        let template = ChatTemplate::read(&reader, &tokenizer_json)?;
        let generation: Option<Generation> = FolderReader::new(&options.folder)
            .json_if_present(GENERATION, "how replies are generated")?;
        let Generation { eos_token_id, repetition_penalty } = generation.unwrap_or_default();
        let mut ends = ends.to_vec();
        ends.extend(eos_token_id.into_iter().flat_map(Ends::into_ids));
        ends.extend(tokenizer.id(template.end()));
        ends.sort_unstable();
        ends.dedup();
        let repetition_penalty = repetition_penalty.unwrap_or(1.0);
        Ok(Self { tokenizer, tokenizer_json, template, ends, repetition_penalty })
    }
}
