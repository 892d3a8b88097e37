//! Language models: a decoder with its tokenizer and its chat template.

use std::sync::OnceLock;

use clew_core::{ChatMessage, ReplyFormat};
use clew_tokenizer::TextTokenizer;
use llguidance::token_bytes_from_tokenizer_json;

use crate::Error;
use crate::constraint::{Constraint, Grammars};
use crate::decoder::Decoder;
use crate::folder::folder_name;
use crate::language::Language;
use crate::options::LanguageModelOptions;

/// Loaded language model.
pub struct LanguageModel {
    name: String,
    decoder: Decoder,
    language: Language,
    /// Built when the first constrained reply is requested.
    grammars: OnceLock<Result<Grammars, String>>,
}

impl LanguageModel {
    /// Loads a model.
    ///
    /// # Errors
    /// Returns any of the variants of [`Error`] about files, and [`Error::OptionUnavailable`] if
    /// the device or the number format is not available.
    pub fn load(options: &LanguageModelOptions) -> Result<Self, Error> {
        let LanguageModelOptions { device, precision, threads, .. } = *options;
        let decoder = Decoder::load(&options.folder, device, precision, threads)?;
        let language = Language::read(options, decoder.vocabulary(), decoder.ends())?;
        Ok(Self {
            name: options.name.clone().unwrap_or_else(|| folder_name(&options.folder)),
            decoder,
            language,
            grammars: OnceLock::new(),
        })
    }

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the maximum number of tokens of a conversation and its reply together.
    pub fn window(&self) -> usize {
        self.decoder.positions()
    }

    /// Returns the tokens of `messages`, up to where the reply begins.
    ///
    /// # Errors
    /// Returns [`Error::Template`] if the model's template cannot render the messages.
    pub fn encode(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, Error> {
        Ok(self.language.tokenizer.encode(&self.language.template.write(messages)?))
    }

    /// Returns the number of tokens in a text.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.language.tokenizer.encode(text).len()
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        self.decoder.parameters()
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub(crate) fn tokenizer(&self) -> &TextTokenizer {
        &self.language.tokenizer
    }

    /// Returns whether a token ends a reply.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.language.ends.binary_search(&token).is_ok()
    }

    /// Returns the constraint of a format, or `None` if the format allows everything.
    ///
    /// # Errors
    /// Returns [`Error::Constraint`] if the format cannot be followed.
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
        let json = serde_json::from_slice(&self.language.tokenizer_json);
        let json: serde_json::Value = json.map_err(|error| reason(error.to_string()))?;
        let mut tokens =
            token_bytes_from_tokenizer_json(&json).map_err(|error| reason(error.to_string()))?;
        tokens.resize(self.decoder.vocabulary(), Vec::new());
        let end = self.language.ends.first();
        let end =
            *end.ok_or_else(|| reason("the model has no token that ends a reply".to_owned()))?;
        Grammars::new(&tokens, end)
    }
}
