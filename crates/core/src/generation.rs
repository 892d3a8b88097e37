//! What is asked of a language model, and what it answers.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{Error, Violations};

/// Who says something in a conversation with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatRole {
    /// Whoever sets the task.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

impl ChatRole {
    /// Its name in chat templates and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChatMessage {
    /// By whom.
    pub role: ChatRole,
    /// What.
    pub text: String,
}

/// What a reply has to look like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplyFormat {
    /// Anything.
    #[default]
    Text,
    /// One of these texts.
    Choice(Vec<String>),
    /// JSON that this JSON schema, itself a JSON text, admits.
    JsonSchema(String),
}

/// How the next token is chosen from what the model thinks likely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the likeliest; more lets less likely ones through. At most 2.
    pub temperature: f32,
    /// Only the likeliest tokens that together have this probability, above 0 and at most 1.
    pub top_p: f32,
    /// Only so many of the likeliest tokens; 0: all.
    pub top_k: u32,
    /// Divides the likelihood of what was said before; 1 does nothing. At least 1, at most 2.
    pub repetition_penalty: f32,
    /// Makes chance repeatable, where the model can.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, repetition_penalty: 1.0, seed: None }
    }
}

/// What is asked of a language model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationRequest {
    /// The conversation so far; the model speaks next.
    pub messages: Vec<ChatMessage>,
    /// Most tokens of the reply, at least 1.
    pub max_tokens: u32,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end the reply and are not part of it; at most 4, none empty.
    pub stop: Vec<String>,
    /// What the reply has to look like.
    pub format: ReplyFormat,
    /// Most calls of models for it, repeated ones included; `None` for as many as whoever is asked thinks right.
    pub most_calls: Option<NonZeroU32>,
}

/// Most texts that may end a reply: what remote endpoints take.
const MOST_STOPS: usize = 4;
/// Most replies to choose from.
const MOST_CHOICES: usize = 1000;

impl GenerationRequest {
    /// Refuses what no model can answer.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidInput`] naming every field at fault.
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

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model was done, or said one of the texts that end it.
    Stop,
    /// It had said as many tokens as it may; what it would have said more is not known.
    Length,
}

/// What a reply took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that the model was sent.
    pub prompt_tokens: u64,
    /// Tokens that it said.
    pub completion_tokens: u64,
    /// How long it took, waiting included.
    pub took: Duration,
    /// Calls of models, repeated ones included; 0 for a reply that was known already.
    pub calls: u32,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// What was said.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// What it took.
    pub usage: Usage,
    /// The model that said it.
    pub model: String,
}

/// What is heard of a reply while it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A model is sent a request, for the first time or again. Told by those only who may repeat theirs; for others it
    /// is one.
    Asked,
    /// More of its text.
    Text(&'a str),
    /// What was heard so far is void: the model failed in the midst and another begins anew.
    Anew,
}

/// Which model a generator asks, for caches and limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GeneratorIdentity {
    /// Its name; replies of differently named models are never taken for one another.
    pub model: String,
    /// Most tokens of a conversation and its reply together.
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
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
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
