//! A language model behind an endpoint.

use std::num::NonZeroU32;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ChatRole, Error, ErrorKind, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
    Usage,
};

use crate::chat::{BYTES_PER_TOKEN, Message, Reply, ReplyReader, body};
use crate::config::{ApiKey, EndpointConfig, StructuredOutput};
use crate::connection::{Connection, too_long};
use crate::format::Format;
use crate::prompts;
use crate::tokens::estimate_tokens;

/// Tokens that a chat template puts around each message, about.
const TOKENS_PER_MESSAGE: u32 = 4;
/// How often a reply may miss its format: once, and once more when told what was wrong.
const FORMAT_ROUNDS: usize = 2;
/// Most of a reply that is repeated to a model that is told what was wrong with it.
const MOST_QUOTED_BYTES: usize = 2 << 10;

/// A language model behind an OpenAI-compatible endpoint.
///
/// Up to `max_concurrency` requests are under way; `max_waiting` more wait for them until their deadlines,
/// and one more is refused at once. What may pass (no connection, status 408, 429 and 5xx, a response that
/// breaks off, is silent or is no chat completion) is tried again after a pause, as long as the attempts,
/// a budget of repetitions and the time last.
///
/// A text is heard as it comes. A reply of a format is heard when it is known to be in the format, whole.
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
    /// A model behind the endpoint of a valid configuration. Reads the system's certificates; connects to
    /// nothing yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a bad address; [`ErrorKind::WrongState`] if the system has no
    /// certificates.
    pub fn try_new(config: &EndpointConfig, key: Option<&ApiKey>) -> Result<Self, Error> {
        let identity = GeneratorIdentity { model: config.model.clone(), window: config.window };
        let connection = Connection::try_new(config, key, "chat/completions")?;
        let EndpointConfig { structured_output, thinking_tokens, .. } = *config;
        Ok(Self { identity, structured_output, thinking_tokens, connection })
    }

    /// Refuses what such a model does not do, and what is too long by any tokenizer; the rest is the
    /// server's to judge, who can count.
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
        let body = body(model, messages, request, format, self.thinking_tokens)
            .map_err(|_| Error::internal("cannot write a request as JSON"))?;
        // Others than OpenAI send the thoughts as well.
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
        // Of rounds whose text is not returned, told if none is: whoever pays for them is to know.
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
                // The server takes the conversation, but not with our remark.
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

/// How often the model may still be asked; `None` if nothing bounds it.
fn most_calls(request: &GenerationRequest, usage: &Usage) -> Result<Option<NonZeroU32>, Error> {
    let Some(most) = request.most_calls else { return Ok(None) };
    let left = NonZeroU32::new(most.get().saturating_sub(usage.calls));
    left.map(Some).ok_or_else(|| {
        let message =
            format!("the model did not reply as asked in {most} calls; no more are allowed");
        Error::new(ErrorKind::Unavailable, "MALFORMED_REPLY", message)
    })
}

/// What is asked of the model.
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

    /// An estimate, rather too high than too low.
    fn count_tokens(&self, text: &str) -> u32 {
        estimate_tokens(text)
    }

    /// # Errors
    /// Those of the seam, and by reason: `CONTEXT_TOO_LONG`, `REQUEST_REFUSED` and `CONTENT_FILTERED` are
    /// [`ErrorKind::InvalidInput`]; `ENDPOINT_REFUSED`, for a key, an address or a model that the server
    /// does not know, is [`ErrorKind::WrongState`]; `ENDPOINT_UNREACHABLE`, `ENDPOINT_FAILED` and
    /// `MALFORMED_REPLY`, for a reply that misses its format even when told so, are
    /// [`ErrorKind::Unavailable`]; a used-up rate or quota is [`ErrorKind::Exhausted`].
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

/// The conversation as it is sent. The instruction goes to the end of the last thing the user says, since
/// templates of some models want roles to alternate and take a system's word at the beginning only.
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
