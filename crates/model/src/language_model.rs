//! A language model: a decoder with its tokenizer and its way to write conversations.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clew_core::{ChatMessage, ReplyFormat};
use clew_tokenizer::TextTokenizer;
use llguidance::token_bytes_from_tokenizer_json;

use crate::chat::ChatTemplate;
use crate::constraint::{Constraint, Grammars};
use crate::decoder::Decoder;
use crate::folder::folder_name;
use crate::folder::reader::FolderReader;
use crate::{DeviceChoice, Error, Precision};

const TOKENIZER: &str = "tokenizer.json";
const GENERATION: &str = "generation_config.json";

/// Where a language model lies and how it is to run.
#[derive(Clone, Debug)]
pub struct LanguageModelOptions {
    /// Folder in Hugging Face layout.
    pub folder: PathBuf,
    /// Folder of the tokenizer, if it is another.
    pub tokenizer: Option<PathBuf>,
    /// Its name; by default the folder's.
    pub name: Option<String>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which number format weights and states are kept.
    pub precision: Precision,
    /// Threads of the processor to compute on; 0: one per core.
    pub threads: usize,
}

/// A language model that is loaded.
pub struct LanguageModel {
    name: String,
    decoder: Decoder,
    tokenizer: TextTokenizer,
    tokenizer_json: Vec<u8>,
    template: ChatTemplate,
    /// Tokens that end a reply, sorted.
    ends: Vec<u32>,
    /// Made when a reply of a given form is first asked for.
    grammars: OnceLock<Result<Grammars, String>>,
}

/// What is read of `generation_config.json`.
#[derive(Default, serde::Deserialize)]
pub(crate) struct RawGeneration {
    eos_token_id: Option<crate::decoder::Ends>,
    pub(crate) repetition_penalty: Option<f32>,
}

impl RawGeneration {
    /// Ids that end a reply.
    pub(crate) fn ends(&mut self) -> Vec<u32> {
        self.eos_token_id.take().map(crate::decoder::Ends::into_ids).unwrap_or_default()
    }
}

impl LanguageModel {
    /// Loads a model.
    ///
    /// # Errors
    /// Any of the variants of [`Error`] about files; [`Error::OptionUnavailable`] for a device or number
    /// format that is not there.
    pub fn load(options: &LanguageModelOptions) -> Result<Self, Error> {
        let LanguageModelOptions { device, precision, threads, .. } = *options;
        let decoder = Decoder::load(&options.folder, device, precision, threads)?;
        let folder = FolderReader::new(&options.folder);
        let place: &Path = options.tokenizer.as_ref().unwrap_or(&options.folder);
        let reader = FolderReader::new(place);
        let tokenizer_json = reader.read(TOKENIZER, "the model's tokenizer")?;
        let tokenizer = TextTokenizer::try_new(TOKENIZER, &tokenizer_json)?;
        if tokenizer.largest_id() as usize >= decoder.vocabulary() {
            return Err(Error::Inconsistent {
                file: TOKENIZER.to_owned(),
                other: "config.json".to_owned(),
                expected: format!("token ids below `vocab_size`, {}", decoder.vocabulary()),
                found: format!("id {}", tokenizer.largest_id()),
            });
        }
        let template = ChatTemplate::read(&reader, &tokenizer_json)?;
        let generation: Option<RawGeneration> =
            folder.json_if_present(GENERATION, "how replies are generated")?;
        let mut ends = decoder.ends().to_vec();
        ends.extend(generation.unwrap_or_default().ends());
        ends.extend(tokenizer.id(template.end()));
        ends.sort_unstable();
        ends.dedup();
        Ok(Self {
            name: options.name.clone().unwrap_or_else(|| folder_name(&options.folder)),
            decoder,
            tokenizer,
            tokenizer_json,
            template,
            ends,
            grammars: OnceLock::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Most tokens of a conversation and its reply together.
    pub fn window(&self) -> usize {
        self.decoder.positions()
    }

    /// The tokens that a reply to `messages` continues.
    ///
    /// # Errors
    /// [`Error::Template`] if the model's template cannot write them.
    pub fn encode(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, Error> {
        Ok(self.tokenizer.encode(&self.template.write(messages)?))
    }

    /// How many tokens a text has.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.tokenizer.encode(text).len()
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.decoder.parameters()
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub(crate) fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// Whether a token ends a reply.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.binary_search(&token).is_ok()
    }

    /// What a form allows; `None` if everything.
    ///
    /// # Errors
    /// [`Error::Constraint`] for a form that cannot be followed.
    pub(crate) fn constraint(&self, format: &ReplyFormat) -> Result<Option<Constraint>, Error> {
        if *format == ReplyFormat::Text {
            return Ok(None);
        }
        let grammars = self.grammars.get_or_init(|| self.grammars().map_err(|e| e.to_string()));
        match grammars {
            Ok(grammars) => grammars.constraint(format),
            Err(reason) => Err(Error::Constraint { reason: reason.clone() }),
        }
    }

    fn grammars(&self) -> Result<Grammars, Error> {
        let reason = |reason: String| Error::Constraint { reason };
        let json = serde_json::from_slice(&self.tokenizer_json);
        let json: serde_json::Value = json.map_err(|error| reason(error.to_string()))?;
        let mut tokens =
            token_bytes_from_tokenizer_json(&json).map_err(|error| reason(error.to_string()))?;
        tokens.resize(self.decoder.vocabulary(), Vec::new());
        let end = self.ends.first();
        let end =
            *end.ok_or_else(|| reason("the model has no token that ends a reply".to_owned()))?;
        Grammars::new(&tokens, end)
    }
}
