//! Requests to a language model and its replies.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{Error, Violations};

/// Author of a message in a conversation with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatRole {
    /// The program that sets the task.
    System,
    /// The user who asks.
    User,
    /// The model.
    Assistant,
}

impl ChatRole {
    /// Returns the name in chat templates and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChatMessage {
    /// Author of the message.
    pub role: ChatRole,
    /// Text of the message.
    pub text: String,
}

/// Format that a reply must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplyFormat {
    /// Any text.
    #[default]
    Text,
    /// One of these texts.
    Choice(Vec<String>),
    /// JSON that matches this JSON schema, which is itself a JSON text.
    JsonSchema(String),
}

/// Settings for choosing the next token from those that the model thinks likely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Temperature: 0 takes the likeliest token, higher values admit less likely ones. At most 2.
    pub temperature: f32,
    /// Total probability of the likeliest tokens to choose from, above 0 and at most 1.
    pub top_p: f32,
    /// Number of the likeliest tokens to choose from; 0 for all.
    pub top_k: u32,
    /// Divisor of the likelihood of tokens that occurred before; 1 has no effect. At least 1, at
    /// most 2.
    pub repetition_penalty: f32,
    /// Seed that makes the choice repeatable, where the model supports one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, repetition_penalty: 1.0, seed: None }
    }
}

/// Request to a language model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationRequest {
    /// The conversation so far; the model speaks next.
    pub messages: Vec<ChatMessage>,
    /// Maximum number of tokens of the reply, at least 1.
    pub max_tokens: u32,
    /// Settings for choosing tokens.
    pub sampling: Sampling,
    /// Texts that end the reply and are not part of it; at most 4, none empty.
    pub stop: Vec<String>,
    /// Format that the reply must have.
    pub format: ReplyFormat,
    /// Maximum number of calls to models, repeated ones included. With `None` the generator
    /// decides.
    pub most_calls: Option<NonZeroU32>,
}

/// Maximum number of texts that end a reply: the number that remote endpoints accept.
const MOST_STOPS: usize = 4;
/// Maximum number of replies to choose from.
const MOST_CHOICES: usize = 1000;

impl GenerationRequest {
    /// Checks that a model can answer the request.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] naming every field at fault.
    pub fn check(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if self.messages.is_empty() {
            violations.push("messages", "expected at least one message, got none");
        }
        if self.max_tokens == 0 {
            violations.push("max_tokens", "expected at least 1, got 0");
        }
        let Sampling { temperature, top_p, repetition_penalty, .. } = self.sampling;
        let bounds = [
            ("sampling.temperature", temperature, 0.0, 2.0),
            ("sampling.top_p", top_p, f32::MIN_POSITIVE, 1.0),
            ("sampling.repetition_penalty", repetition_penalty, 1.0, 2.0),
        ];
        for (field, value, low, high) in bounds {
            if !(low..=high).contains(&value) {
                violations.push(field, format!("expected {low} to {high}, got {value}"));
            }
        }
        if self.stop.len() > MOST_STOPS || self.stop.iter().any(String::is_empty) {
            let problem = format!("expected at most {MOST_STOPS} texts, none of them empty");
            violations.push("stop", problem);
        }
        if let ReplyFormat::Choice(choices) = &self.format
            && (!(1..=MOST_CHOICES).contains(&choices.len())
                || choices.iter().any(String::is_empty))
        {
            let problem = format!("expected 1 to {MOST_CHOICES} texts, none of them empty");
            violations.push("format.choice", problem);
        }
        if let ReplyFormat::JsonSchema(schema) = &self.format
            && let Err(error) = serde_json::from_str::<serde_json::Value>(schema)
        {
            violations.push("format.json_schema", format!("expected JSON, got: {error}"));
        }
        violations.into_result()
    }
}

/// Reason for the end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model was done or said one of the texts that end the reply.
    Stop,
    /// The reply reached its maximum number of tokens. The rest of it is not known.
    Length,
}

/// Resources that a reply took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of tokens that the model was sent.
    pub prompt_tokens: u64,
    /// Number of tokens that it said.
    pub completion_tokens: u64,
    /// Duration, waiting included.
    pub took: Duration,
    /// Number of calls to models, repeated ones included; 0 for a cached reply.
    pub calls: u32,
}

/// Reply of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Text of the reply.
    pub text: String,
    /// Reason for the end of the reply.
    pub finish: Finish,
    /// Resources that the reply took.
    pub usage: Usage,
    /// Name of the model that replied.
    pub model: String,
}

/// Event while a reply is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A model is sent a request, for the first time or again. Only generators that may repeat a
    /// request report this; for all others there is exactly one request.
    Asked,
    /// More text of the reply.
    Text(&'a str),
    /// The text so far is void: the model failed before its reply ended, and a new reply begins, by
    /// the same or another model.
    Anew,
}

/// Identity of the model that a generator asks, for caches and limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GeneratorIdentity {
    /// Name of the model. Replies of models with different names are never taken for one another.
    pub model: String,
    /// Maximum number of tokens of a conversation and its reply together.
    pub window: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_at_fault_is_named() {
        let sound = GenerationRequest {
            messages: vec![ChatMessage { role: ChatRole::User, text: "Hello".to_owned() }],
            max_tokens: 5,
            ..GenerationRequest::default()
        };
        assert!(sound.check().is_ok());
        let unsound = GenerationRequest {
            max_tokens: 0,
            messages: Vec::new(),
            sampling: Sampling { temperature: f32::NAN, top_p: 0.0, ..Sampling::default() },
            stop: vec![String::new()],
            format: ReplyFormat::JsonSchema("{".to_owned()),
            most_calls: None,
        };
        let error = unsound.check().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(
            fields,
            [
                "messages",
                "max_tokens",
                "sampling.temperature",
                "sampling.top_p",
                "stop",
                "format.json_schema"
            ]
        );
        let none = GenerationRequest { format: ReplyFormat::Choice(Vec::new()), ..sound };
        assert_eq!(none.check().unwrap_err().violations()[0].field, "format.choice");
    }
}
