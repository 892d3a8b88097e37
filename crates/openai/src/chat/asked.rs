//! What a chat completion asks: the body of the request, without what Clew has no use for.

use clew_proto::chat::v1::Role;
use serde::Deserialize;
use serde_json::Value;

use crate::model::ModelId;
use crate::refusal::Refusal;

/// Body of a request. What else a client sends is ignored.
#[derive(Deserialize)]
pub(super) struct Body {
    model: String,
    messages: Vec<Message>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
}

/// Question of a chat completion.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// Model that is asked.
    pub model: ModelId,
    /// The last message of the user, which is the question.
    pub question: String,
    /// What the user and the assistant said before, in order.
    pub history: Vec<Said>,
    /// Whether the answer is streamed.
    pub streams: bool,
    /// Whether the stream ends with the usage.
    pub with_usage: bool,
}

/// Turn of a history.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// Who said it.
    pub role: Role,
    /// The text.
    pub text: String,
}

impl Asked {
    /// Reads a request. Messages that are no turns of a conversation, such as those of the system
    /// and of tools, are left out, and so is what follows the question.
    ///
    /// # Errors
    /// Returns a refusal that names the message at fault.
    pub fn of(body: Body) -> Result<Self, Refusal> {
        let Body { model, messages, stream, stream_options } = body;
        let mut said = Vec::with_capacity(messages.len());
        for (place, message) in messages.into_iter().enumerate() {
            let role = match message.role.as_str() {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                "system" | "developer" | "tool" | "function" => continue,
                other => {
                    let problem =
                        format!("expected `user`, `assistant` or `system`, got `{other}`");
                    return Err(Refusal::param(format!("messages[{place}].role"), problem));
                }
            };
            let text = text(message.content, &format!("messages[{place}].content"))?;
            // An assistant that calls a tool says nothing.
            if !text.trim().is_empty() {
                said.push(Said { role, text });
            }
        }
        let Some(last) = said.iter().rposition(|said| said.role == Role::User) else {
            let problem = "expected a message of the user, which is the question";
            return Err(Refusal::param("messages", problem));
        };
        said.truncate(last + 1);
        let question = said.pop().map(|said| said.text).unwrap_or_default();
        Ok(Self {
            model: ModelId::of(&model),
            question,
            history: said,
            streams: stream.unwrap_or_default(),
            with_usage: stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or_default(),
        })
    }
}

/// Returns the text of a message: as it is, or the texts of its parts on lines of their own.
fn text(content: Value, param: &str) -> Result<String, Refusal> {
    let parts = match content {
        Value::Null => return Ok(String::new()),
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        _ => return Err(Refusal::param(param, "expected a text or a list of parts")),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (place, part) in parts.iter().enumerate() {
        let text = match part["type"].as_str() {
            Some("text" | "input_text") => &part["text"],
            Some("refusal") => &part["refusal"],
            other => {
                let got = other.unwrap_or("none");
                let problem = format!(
                    "expected a part of type `text`, got `{got}`; Clew reads texts only, so leave it out"
                );
                return Err(Refusal::param(format!("{param}[{place}].type"), problem));
            }
        };
        match text.as_str() {
            Some(text) => texts.push(text),
            None => {
                return Err(Refusal::param(format!("{param}[{place}].text"), "expected a text"));
            }
        }
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(messages: Value) -> Result<Asked, Value> {
        let body =
            json!({"model": "notes:direct", "messages": messages, "temperature": 0.2, "tools": []});
        let body = serde_json::from_value(body).unwrap();
        Asked::of(body).map_err(|refusal| refusal.body()["error"].clone())
    }

    fn said(role: Role, text: &str) -> Said {
        Said { role, text: text.to_owned() }
    }

    #[test]
    fn the_last_message_of_the_user_is_the_question() {
        let asked = asked(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "tool", "content": "42"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": [{"type": "text", "text": "Who"}, {"type": "text", "text": "am I?"}]},
        ]))
        .unwrap();
        assert_eq!(asked.question, "Who\nam I?");
        assert_eq!(asked.history, [said(Role::User, "Hello"), said(Role::Assistant, "Hi")]);
        assert_eq!((asked.model.to_string(), asked.streams), ("notes:direct".to_owned(), false));
    }

    #[test]
    fn what_follows_the_question_is_left_out() {
        let asked = asked(json!([
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "Because"},
        ]));
        let asked = asked.unwrap();
        assert_eq!((asked.question.as_str(), asked.history.len()), ("Why?", 0));
    }

    #[test]
    fn a_message_at_fault_is_named() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
        for (messages, param) in [
            (json!([]), "messages"),
            (json!([{"role": "system", "content": "x"}]), "messages"),
            (json!([{"role": "user", "content": "  "}]), "messages"),
            (json!([{"role": "bot", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user", "content": 7}]), "messages[0].content"),
            (json!([{"role": "user", "content": [image]}]), "messages[0].content[0].type"),
            (json!([{"role": "user", "content": ["x"]}]), "messages[0].content[0].type"),
            (
                json!([{"role": "user", "content": [{"type": "text"}]}]),
                "messages[0].content[0].text",
            ),
        ] {
            assert_eq!(asked(messages).unwrap_err()["param"], param);
        }
        let refused = asked(json!([{"role": "user", "content": [{"type": "image_url"}]}]));
        let message = refused.unwrap_err()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("`image_url`"), "{message}");
    }
}
