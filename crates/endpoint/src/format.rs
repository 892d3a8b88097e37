//! Formats of replies: how a model is asked for one, and the check that it complied.

use clew_core::{Finish, ReplyFormat};
use serde_json::{Value, json};

use crate::config::StructuredOutput;
use crate::{prompts, repair, schema};

/// Format that a reply can miss.
#[derive(Debug)]
pub(crate) enum Format<'a> {
    /// One of these texts.
    Choice(&'a [String]),
    /// JSON that satisfies a schema. `text` is the schema as the caller wrote it.
    Json { schema: Value, text: &'a str },
}

impl<'a> Format<'a> {
    /// Returns the format to check, or `None` if any text is accepted.
    pub(crate) fn of(format: &'a ReplyFormat) -> Result<Option<Self>, serde_json::Error> {
        Ok(match format {
            ReplyFormat::Text => None,
            ReplyFormat::Choice(choices) => Some(Self::Choice(choices)),
            ReplyFormat::JsonSchema(text) => {
                Some(Self::Json { schema: serde_json::from_str(text)?, text })
            }
        })
    }

    /// Returns the `response_format` to ask the server for.
    pub(crate) fn asked_of_server(&self, output: StructuredOutput) -> Option<Value> {
        let json_schema = |name, schema: &Value| {
            let strict = schema::is_strict(schema);
            let named = json!({"name": name, "strict": strict, "schema": schema});
            json!({"type": "json_schema", "json_schema": named})
        };
        match (output, self) {
            (StructuredOutput::JsonSchema, Self::Json { schema, .. }) => {
                Some(json_schema("reply", schema))
            }
            (StructuredOutput::JsonSchema, Self::Choice(choices)) => {
                Some(json_schema("choice", &choice_schema(choices)))
            }
            (StructuredOutput::JsonObject, Self::Json { .. }) => {
                Some(json!({"type": "json_object"}))
            }
            (StructuredOutput::JsonObject, Self::Choice(_)) | (StructuredOutput::Prompt, _) => None,
        }
    }

    /// Returns the instruction to append to the prompt for the model.
    pub(crate) fn asked_of_model(&self, output: StructuredOutput) -> Option<String> {
        match (output, self) {
            // The server enforces the format, and the caller's prompt explains its parts.
            (StructuredOutput::JsonSchema, _) => None,
            (_, Self::Json { text, .. }) => Some(prompts::json(text)),
            (_, Self::Choice(choices)) => Some(prompts::choice(choices)),
        }
    }

    /// Returns the part of `reply` that has the format. `Err` describes the problem to the model.
    pub(crate) fn settle(&self, reply: &str, finish: Finish) -> Result<String, String> {
        match self {
            Self::Json { schema, .. } => {
                repair::find(reply, finish == Finish::Stop, |value| schema::problem(schema, value))
            }
            Self::Choice(choices) => {
                chosen(repair::without_thoughts(reply), choices).map(str::to_owned)
            }
        }
    }
}

/// Returns the schema of a choice. It is an object, because OpenAI's strict schemas have to be
/// objects.
fn choice_schema(choices: &[String]) -> Value {
    json!({
        "type": "object",
        "properties": {"choice": {"type": "string", "enum": choices}},
        "required": ["choice"],
        "additionalProperties": false
    })
}

/// Returns the only choice that a reply can mean. A reply names a choice as JSON, literally, in
/// different case, with its first words while it mentions no other choice, or by a prefix that only
/// one choice has.
fn chosen<'a>(reply: &str, choices: &'a [String]) -> Result<&'a str, String> {
    if let Ok(value) = serde_json::from_str::<Value>(reply.trim())
        && let Some(text) = value.get("choice").unwrap_or(&value).as_str()
        && let Some(choice) = choices.iter().find(|choice| *choice == text)
    {
        return Ok(choice);
    }
    let is_around = |c: char| c.is_whitespace() || "\"'`*.".contains(c);
    let bare = reply.trim_matches(is_around);
    let same = |choice: &&String| choice.as_str() == bare || choice.as_str() == reply.trim();
    if let Some(choice) = choices.iter().find(same) {
        return Ok(choice);
    }
    let said = bare.to_lowercase();
    let lowered: Vec<String> = choices.iter().map(|choice| choice.to_lowercase()).collect();
    let only = |matches: &dyn Fn(&str) -> bool| {
        let mut found = lowered.iter().zip(choices).filter(|(lowered, _)| matches(lowered));
        let (_, choice) = found.next()?;
        found.next().is_none().then_some(choice.as_str())
    };
    only(&|choice| choice == said)
        .or_else(|| only(&|choice| !said.is_empty() && choice.starts_with(&said)))
        .or_else(|| {
            let first = only(&|choice| begins_with(&said, choice))?;
            only(&|choice| has_words(&said, choice)).filter(|named| *named == first)
        })
        .ok_or_else(|| "it is not one of the texts to choose from".to_owned())
}

/// Returns whether `text` begins with `words`, followed by the end of a word.
fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Returns whether `text` has `words` anywhere, at word boundaries.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        !text[..at].ends_with(char::is_alphanumeric) && begins_with(&text[at..], words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_recognised_or_refused_and_never_guessed() {
        let choices = ["supported", "Not supported", "unsure"].map(str::to_owned);
        let cases = [
            ("supported", Some("supported")),
            (r#"{"choice": "Not supported"}"#, Some("Not supported")),
            ("\"unsure\"", Some("unsure")),
            (" **Supported**.\n", Some("supported")),
            ("NOT SUPPORTED", Some("Not supported")),
            ("<think>supported?</think>unsure", Some("unsure")),
            ("uns", Some("unsure")),
            ("Unsure, as the text does not say.", Some("unsure")),
            ("supportedly", None),
            ("supported, or rather unsure", None),
            ("It is supported.", None),
            ("", None),
            (".", None),
            (r#"{"choice": "yes"}"#, None),
            ("oui", None),
        ];
        for (reply, expected) in cases {
            let settled = Format::Choice(&choices).settle(reply, Finish::Stop);
            assert_eq!(settled.ok().as_deref(), expected, "{reply}");
        }
    }

    #[test]
    fn a_beginning_that_two_choices_have_is_none() {
        let choices = ["yes", "yes, partly", "no"].map(str::to_owned);
        for (reply, expected) in [("ye", None), ("yes", Some("yes")), ("yes, partly so", None)] {
            assert_eq!(chosen(reply, &choices).ok(), expected, "{reply}");
        }
    }

    #[test]
    fn who_is_asked_for_the_format_depends_on_the_server() {
        use StructuredOutput::{JsonObject, JsonSchema, Prompt};
        let format = ReplyFormat::JsonSchema(r#"{"type": "object"}"#.to_owned());
        let json = Format::of(&format).unwrap().unwrap();
        let choices = ["a".to_owned()];
        let choice = Format::Choice(&choices);
        let asked = |format: &Format<'_>, output| {
            let kind = format.asked_of_server(output).map(|asked| asked["type"].clone());
            let kind = kind.as_ref().and_then(Value::as_str).map(str::to_owned);
            (kind, format.asked_of_model(output).is_some())
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(asked(&json, JsonSchema), (name("json_schema"), false));
        assert_eq!(asked(&json, JsonObject), (name("json_object"), true));
        assert_eq!(asked(&json, Prompt), (None, true));
        assert_eq!(asked(&choice, JsonSchema), (name("json_schema"), false));
        assert_eq!(asked(&choice, JsonObject), (None, true));
        assert_eq!(asked(&choice, Prompt), (None, true));
        let asked = json.asked_of_server(JsonSchema).unwrap();
        assert_eq!(asked["json_schema"]["strict"], false);
    }
}
