//! Chat templates: write a conversation as the text that a model was trained to continue.

use std::collections::BTreeSet;

use clew_core::{ChatMessage, ChatRole};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use serde::Deserialize;

use crate::Error;
use crate::folder::reader::FolderReader;

const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const NAME: &str = "chat";
/// Limit on the work of a template, in minijinja's fuel: thousands of times what published
/// templates use.
const FUEL: u64 = 10_000_000;
/// Word joiner, which is invisible. It is inserted after the first character of a special token in
/// a message, so that the token is read as text.
const JOINER: char = '\u{2060}';

/// Chat template of a model.
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    begin: String,
    end: String,
    /// Special tokens, as text.
    special: BTreeSet<String>,
}

/// Fields read from `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct RawConfig {
    chat_template: Option<RawTemplates>,
    bos_token: Option<RawToken>,
    eos_token: Option<RawToken>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTemplates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawToken {
    Text(String),
    Described { content: String },
}

impl RawToken {
    fn text(self) -> String {
        match self {
            Self::Text(text) | Self::Described { content: text } => text,
        }
    }
}

/// Fields read from `tokenizer.json`.
#[derive(Deserialize)]
struct RawTokenizer {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    #[serde(default)]
    special: bool,
}

impl ChatTemplate {
    /// Reads the template beside a tokenizer. If there is none, the model was not trained on
    /// conversations. Then the messages are written as paragraphs of one text.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if a file cannot be read, and [`Error::Broken`] if a file or
    /// the template is invalid.
    pub(crate) fn read(folder: &FolderReader, tokenizer_json: &[u8]) -> Result<Self, Error> {
        let config: Option<RawConfig> =
            folder.json_if_present(CONFIG, "the tokenizer's settings")?;
        let config = config.unwrap_or_default();
        let (file, template) = match config.chat_template {
            _ if folder.has(TEMPLATE) => {
                let bytes = folder.read(TEMPLATE, "the chat template")?;
                let text = String::from_utf8(bytes)
                    .map_err(|error| folder.broken(TEMPLATE, "text in UTF-8", error))?;
                (TEMPLATE, Some(text))
            }
            None => (CONFIG, None),
            Some(RawTemplates::One(template)) => (CONFIG, Some(template)),
            Some(RawTemplates::Named(templates)) => {
                let default = templates.into_iter().find(|named| named.name == "default");
                (CONFIG, default.map(|named| named.template))
            }
        };
        let tokenizer: RawTokenizer = serde_json::from_slice(tokenizer_json)
            .map_err(|error| folder.broken("tokenizer.json", "the model's tokenizer", error))?;
        let special = tokenizer.added_tokens.into_iter().filter(|token| token.special);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment
            .set_syntax(syntax.map_err(|error| Error::Template { reason: error.to_string() })?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |problem: String| -> Result<Value, _> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, problem))
        });
        if let Some(template) = template {
            environment
                .add_template_owned(NAME, template)
                .map_err(|error| folder.broken(file, "a chat template", error))?;
        }
        Ok(Self {
            environment,
            begin: config.bos_token.map(RawToken::text).unwrap_or_default(),
            end: config.eos_token.map(RawToken::text).unwrap_or_default(),
            special: special.map(|token| token.content).filter(|text| !text.is_empty()).collect(),
        })
    }

    /// Returns the text that ends a reply, or an empty text if the tokenizer does not say.
    pub(crate) fn end(&self) -> &str {
        &self.end
    }

    /// Returns the text of `messages`, up to where the reply begins. Special tokens within messages
    /// become plain text.
    ///
    /// # Errors
    /// Returns [`Error::Template`] if the template cannot render the messages.
    pub(crate) fn write(&self, messages: &[ChatMessage]) -> Result<String, Error> {
        let messages: Vec<(ChatRole, String)> =
            messages.iter().map(|message| (message.role, self.as_text(&message.text))).collect();
        let Ok(template) = self.environment.get_template(NAME) else {
            let texts: Vec<&str> = messages.iter().map(|(_, text)| text.as_str()).collect();
            return Ok(format!("{}{}", self.begin, texts.join("\n\n")));
        };
        let write = |messages: &[(ChatRole, String)]| {
            let said = |(role, text): &(ChatRole, String)| {
                context! { role => role.as_str(), content => text }
            };
            template.render(context! {
                messages => messages.iter().map(said).collect::<Vec<Value>>(),
                add_generation_prompt => true,
                bos_token => self.begin.as_str(),
                eos_token => self.end.as_str(),
            })
        };
        // Some templates have no system role. Then the system's text goes before the user's first
        // message.
        let written = write(&messages).or_else(|error| match without_system(&messages) {
            Some(messages) => write(&messages).map_err(|_| error),
            None => Err(error),
        });
        written.map_err(|error| Error::Template { reason: error.to_string() })
    }

    /// Returns `text` with its special tokens turned into plain text.
    pub(crate) fn as_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for special in &self.special {
            if text.contains(special.as_str()) {
                let mut characters = special.chars();
                let first: String = characters.next().into_iter().collect();
                text = text.replace(special, &format!("{first}{JOINER}{}", characters.as_str()));
            }
        }
        text
    }
}

fn without_system(messages: &[(ChatRole, String)]) -> Option<Vec<(ChatRole, String)>> {
    let ((ChatRole::System, system), rest) = messages.split_first()? else { return None };
    let mut rest = rest.to_vec();
    let (_, first) = rest.iter_mut().find(|(role, _)| *role == ChatRole::User)?;
    *first = format!("{system}\n\n{first}");
    Some(rest)
}
