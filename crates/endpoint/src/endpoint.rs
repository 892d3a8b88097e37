//! A language model behind an endpoint.

use std::num::NonZeroU32;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ChatRole, Error, ErrorKind, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
    Usage,
};
use clew_tokenizer::estimate_tokens;

use crate::chat::{BYTES_PER_TOKEN, Message, Reply, ReplyReader, body};
use crate::config::{EndpointConfig, EndpointKey, StructuredOutput};
use crate::connection::{Connection, too_long};
use crate::format::Format;
use crate::prompts;

/// Approximate number of tokens that a chat template puts around each message.
const TOKENS_PER_MESSAGE: u32 = 4;
/// Number of times that the model is asked for a reply in a format: once, and once more with a
/// description of the problem.
const FORMAT_ROUNDS: usize = 2;
/// Maximum number of bytes of a reply that are quoted to the model with the description of the
/// problem.
const MOST_QUOTED_BYTES: usize = 2 << 10;

/// Language model behind an OpenAI-compatible endpoint.
///
/// Up to `max_concurrency` requests run at once. `max_waiting` more wait for them until their
/// deadlines, and any further request is refused at once. Transient failures are retried after a
/// pause, within the attempts, a retry budget and the deadline. Transient are: no connection,
/// status 408, 429 and 5xx, and a response that breaks off, falls silent or is no chat completion.
///
/// Text is passed to the listener as it arrives. A reply in a format is passed on as a whole, once
/// it is known to have the format.
///
/// ```
/// use clew_endpoint::{Endpoint, EndpointConfig};
///
/// # fn main() -> Result<(), clew_core::Error> {
/// let config = EndpointConfig {
///     url: "http://localhost:8000/v1".to_owned(),
///     model: "Qwen/Qwen2.5-7B-Instruct".to_owned(),
///     window: 32_768,
///     ..EndpointConfig::default()
/// };
/// config.validate("generator")?;
/// let model = Endpoint::try_new(&config, config.load_key()?.as_ref())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Endpoint {
    identity: GeneratorIdentity,
    structured_output: StructuredOutput,
    thinking_tokens: u32,
    connection: Connection,
}

impl Endpoint {
    /// Creates a model behind the endpoint of a valid configuration. Reads the system's
    /// certificates, but does not connect yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, and [`ErrorKind::WrongState`]
    /// if the system has no certificates.
    pub fn try_new(config: &EndpointConfig, key: Option<&EndpointKey>) -> Result<Self, Error> {
        let identity = GeneratorIdentity { model: config.model.clone(), window: config.window };
        let connection = Connection::try_new(config, key, "chat/completions")?;
        let EndpointConfig { structured_output, thinking_tokens, .. } = *config;
        Ok(Self { identity, structured_output, thinking_tokens, connection })
    }

    /// Refuses requests that such a model does not support or that are too long by any tokenizer.
    /// The server, which can count exactly, judges the rest.
    fn check(&self, request: &GenerationRequest) -> Result<(), Error> {
        request.check()?;
        if self.thinking_tokens > 0 && !request.stop.is_empty() {
            let problem = "expected none for a model that thinks before it replies";
            return Err(Error::invalid("stop", problem));
        }
        let bytes: usize = request.messages.iter().map(|message| message.text.len()).sum();
        let said = request.max_tokens.saturating_add(self.thinking_tokens);
        let least_tokens = (bytes / BYTES_PER_TOKEN).saturating_add(said as usize);
        let window = self.identity.window;
        if least_tokens > window as usize { Err(too_long(window)) } else { Ok(()) }
    }

    async fn ask(
        &self,
        ask: &Ask<'_>,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
        usage: &mut Usage,
    ) -> Result<Reply, Error> {
        let Ask { request, messages, format } = ask;
        let response_format =
            format.and_then(|format| format.asked_of_server(self.structured_output));
        let (model, format) = (&self.identity.model, response_format.as_ref());
        let body = body(model, messages, request, format, self.thinking_tokens)?;
        // Servers other than OpenAI's send the thoughts as well.
        let most_tokens = request.max_tokens.saturating_add(self.thinking_tokens);
        let mut reader = ReplyReader::new(most_tokens, heard);
        let most = most_calls(request, usage)?;
        let called = self.connection.call(body, most, deadline, &mut reader).await?;
        let reply = called.reply;
        let (prompt, completion) = match reply.tokens {
            Some(tokens) => (tokens.prompt, tokens.completion),
            None => (estimated_prompt(messages), estimate_tokens(&reply.text).into()),
        };
        usage.calls = usage.calls.saturating_add(called.calls);
        usage.prompt_tokens = usage.prompt_tokens.saturating_add(prompt);
        usage.completion_tokens = usage.completion_tokens.saturating_add(completion);
        Ok(reply)
    }

    async fn ask_for(
        &self,
        format: &Format<'_>,
        ask: &mut Ask<'_>,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
        usage: &mut Usage,
    ) -> Result<Reply, Error> {
        // Text of rounds that missed the format. It is passed on only if no round succeeds, so that
        // the caller, who pays for it, learns about it.
        let mut said = String::new();
        for round in 1..=FORMAT_ROUNDS {
            let before = said.len();
            let mut hear = |part: Heard<'_>| match part {
                Heard::Asked => heard(part),
                Heard::Text(more) => said.push_str(more),
                Heard::Anew => {
                    heard(Heard::Text(&said[before..]));
                    heard(part);
                    said.truncate(before);
                }
            };
            let asked = self.ask(ask, deadline, &mut hear, usage).await;
            let mut reply = match asked {
                // The server takes the conversation, but not together with the remark.
                Err(error) if round > 1 && error.kind() == ErrorKind::InvalidInput => break,
                Err(error) => {
                    tell(&said, heard);
                    return Err(error);
                }
                Ok(reply) => reply,
            };
            match format.settle(&reply.text, reply.finish) {
                Ok(text) => {
                    reply.text = text;
                    return Ok(reply);
                }
                Err(problem) => {
                    reply.text.truncate(reply.text.floor_char_boundary(MOST_QUOTED_BYTES));
                    let role = ChatRole::Assistant.as_str();
                    ask.messages.push(Message { role, content: reply.text });
                    let (role, content) = (ChatRole::User.as_str(), prompts::again(&problem));
                    ask.messages.push(Message { role, content });
                }
            }
        }
        tell(&said, heard);
        let message = "the model did not keep to the format of the reply, though asked twice";
        Err(Error::new(ErrorKind::Unavailable, "MALFORMED_REPLY", message))
    }
}

fn tell(said: &str, heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send)) {
    if !said.is_empty() {
        heard(Heard::Text(said));
    }
}

/// Returns how many more calls the request allows; `None` if there is no limit.
fn most_calls(request: &GenerationRequest, usage: &Usage) -> Result<Option<NonZeroU32>, Error> {
    let Some(most) = request.most_calls else { return Ok(None) };
    let left = NonZeroU32::new(most.get().saturating_sub(usage.calls));
    left.map(Some).ok_or_else(|| {
        let message =
            format!("the model did not reply as asked in {most} calls; no more are allowed");
        Error::new(ErrorKind::Unavailable, "MALFORMED_REPLY", message)
    })
}

/// Request in the form in which the model gets it.
struct Ask<'a> {
    request: &'a GenerationRequest,
    messages: Vec<Message>,
    format: Option<&'a Format<'a>>,
}

#[async_trait]
impl Generator for Endpoint {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    /// Returns an estimate that tends to be too high.
    fn count_tokens(&self, text: &str) -> u32 {
        estimate_tokens(text)
    }

    /// # Errors
    /// Returns the errors that the trait names, and by reason:
    /// - [`ErrorKind::InvalidInput`]: `CONTEXT_TOO_LONG`, `REQUEST_REFUSED`, `CONTENT_FILTERED`
    /// - [`ErrorKind::WrongState`]: `ENDPOINT_REFUSED`, for a key, an address or a model that the
    ///   server does not accept
    /// - [`ErrorKind::Unavailable`]: `ENDPOINT_UNREACHABLE`, `ENDPOINT_FAILED`, and
    ///   `MALFORMED_REPLY`, for a reply that misses its format even after a second request
    /// - [`ErrorKind::Exhausted`]: a rate limit or a quota is used up
    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        self.check(request)?;
        let begun = Instant::now();
        let _place = self.connection.admit()?;
        let format = Format::of(&request.format)
            .map_err(|_| Error::invalid("format.json_schema", "expected JSON"))?;
        let instruction =
            format.as_ref().and_then(|format| format.asked_of_model(self.structured_output));
        let messages = messages(request, instruction);
        let mut ask = Ask { request, messages, format: format.as_ref() };
        let mut usage = Usage::default();
        let reply = match &format {
            None => self.ask(&ask, deadline, heard, &mut usage).await?,
            Some(format) => {
                let reply = self.ask_for(format, &mut ask, deadline, heard, &mut usage).await?;
                heard(Heard::Text(&reply.text));
                reply
            }
        };
        usage.took = begun.elapsed();
        let Reply { text, finish, .. } = reply;
        Ok(Generated { text, finish, usage, model: self.identity.model.clone() })
    }
}

/// Returns the conversation to send. The instruction goes to the end of the user's last message,
/// since the templates of some models want roles to alternate and take a system message only at the
/// beginning.
fn messages(request: &GenerationRequest, instruction: Option<String>) -> Vec<Message> {
    let messages = request.messages.iter();
    let mut messages: Vec<Message> = messages
        .map(|message| Message { role: message.role.as_str(), content: message.text.clone() })
        .collect();
    let user = ChatRole::User.as_str();
    match (instruction, messages.last_mut()) {
        (Some(instruction), Some(last)) if last.role == user => {
            last.content.push_str("\n\n");
            last.content.push_str(&instruction);
        }
        (Some(content), _) => messages.push(Message { role: user, content }),
        (None, _) => {}
    }
    messages
}

fn estimated_prompt(messages: &[Message]) -> u64 {
    messages
        .iter()
        .map(|message| {
            u64::from(estimate_tokens(&message.content).saturating_add(TOKENS_PER_MESSAGE))
        })
        .sum()
}
