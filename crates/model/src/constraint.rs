//! Constrained replies: a grammar over the model's own tokens decides which may come next.

use std::sync::Arc;

use clew_core::ReplyFormat;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use crate::Error;

/// Grammars over the tokens of one model.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

/// Grammar of one reply, with the state that the reply so far leads to.
pub(crate) struct Constraint {
    matcher: Matcher,
}

impl Grammars {
    /// Creates the grammars of a vocabulary. The token with id `i` stands for the bytes
    /// `tokens[i]`, which are empty for special tokens. The special token `end` ends a reply.
    ///
    /// # Errors
    /// Returns [`Error::Constraint`] if no grammar can be written in the vocabulary.
    pub(crate) fn new(tokens: &[Vec<u8>], end: u32) -> Result<Self, Error> {
        let count = u32::try_from(tokens.len()).map_err(failed)?;
        let trie = TokTrie::from(&TokRxInfo::new(count, end), tokens);
        let environment = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&(environment as _)).map_err(failed)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// Returns the constraint of a format, or `None` if the format allows everything.
    ///
    /// # Errors
    /// Returns [`Error::Constraint`] if the schema cannot be followed.
    pub(crate) fn constraint(&self, format: &ReplyFormat) -> Result<Option<Constraint>, Error> {
        let grammar = match format {
            ReplyFormat::Text => return Ok(None),
            ReplyFormat::Choice(choices) => {
                let choices: Vec<String> = choices.iter().map(|text| regex::escape(text)).collect();
                TopLevelGrammar::from_regex(&choices.join("|"))
            }
            ReplyFormat::JsonSchema(schema) => {
                let mut schema: serde_json::Value = serde_json::from_str(schema).map_err(failed)?;
                if let Some(schema) = schema.as_object_mut() {
                    // With flexible whitespace a model may go on with spaces for ever.
                    let options = serde_json::json!({ "whitespace_flexible": false });
                    schema.entry("x-guidance").or_insert(options);
                }
                TopLevelGrammar::from_json_schema(schema)
            }
        };
        let parser = self.factory.create_parser(grammar).map_err(failed)?;
        Ok(Some(Constraint { matcher: Matcher::new(Ok(parser)) }))
    }
}

impl Constraint {
    /// Returns the tokens that may come next: a bit for each, 32 a word.
    ///
    /// # Errors
    /// Returns [`Error::Constraint`] if the grammar grew beyond the limits of the parser.
    pub(crate) fn allowed(&mut self) -> Result<Vec<u32>, Error> {
        let allowed = self.matcher.compute_mask_or_eos().map_err(failed)?;
        Ok(allowed.as_slice().to_vec())
    }

    /// Accepts the next token. Returns whether the reply is complete and nothing may follow.
    ///
    /// # Errors
    /// Returns [`Error::Constraint`] if the token was not allowed.
    pub(crate) fn accept(&mut self, token: u32) -> Result<bool, Error> {
        self.matcher.consume_token(token).map_err(failed)?;
        Ok(self.matcher.is_stopped())
    }
}

fn failed(problem: impl std::fmt::Display) -> Error {
    Error::Constraint { reason: problem.to_string() }
}
