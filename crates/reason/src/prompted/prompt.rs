//! Prompt files and the function that renders them.
//!
//! A prompt is a file in `prompts/`: a header with its `version` and `source`, the system message,
//! and the user message.
//!
//! ```text
//! version: 1
//! source: MemWalker, section 3
//! === system ===
//! Who the model is and what it is to do.
//! === user ===
//! What it is given: {{question}}
//! ```
//!
//! A changed prompt needs a higher version, because replies are cached under it. A test checks the
//! files against `prompts/versions.txt`. Trees and graphs that were made with an earlier version
//! stay: `DERIVER_VERSION` in `crates/core/src/settings.rs` decides when they are due again.

use std::fmt;

use clew_core::{ChatMessage, ChatRole, Error};

const SYSTEM: &str = "=== system ===\n";
const USER: &str = "=== user ===\n";

/// A prompt file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptFile {
    /// Name of the file, without the extension.
    pub name: &'static str,
    /// Content of the file.
    pub content: &'static str,
}

/// A prompt with its values filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub version: u32,
    pub system: String,
    pub user: String,
}

/// Error in a prompt or in the values filled into it, which is always a programming error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The file has no version or lacks a part.
    Malformed,
    /// `{{` without `}}`.
    Unclosed,
    /// A placeholder without a value.
    Missing(String),
    /// A value without a placeholder.
    Unused(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("expected a version, a system part and a user part"),
            Self::Unclosed => f.write_str("a placeholder does not end"),
            Self::Missing(name) => write!(f, "placeholder `{name}` has no value"),
            Self::Unused(name) => write!(f, "value `{name}` has no placeholder"),
        }
    }
}

impl std::error::Error for Fault {}

impl Rendered {
    /// Returns the prompt as the messages that begin a conversation.
    pub fn into_messages(self) -> Vec<ChatMessage> {
        vec![
            ChatMessage { role: ChatRole::System, text: self.system },
            ChatMessage { role: ChatRole::User, text: self.user },
        ]
    }

    /// Returns the length of its texts in bytes.
    pub fn bytes(&self) -> usize {
        self.system.len() + self.user.len()
    }
}

/// Fills `values` into a prompt's placeholders.
///
/// Values are inserted unchanged, in one pass: a placeholder within a value stays text.
///
/// # Errors
/// Returns a [`Fault`] if the prompt or the values are wrong. A test renders every prompt, so
/// production should see none.
pub(crate) fn render(
    file: PromptFile,
    values: &[(&'static str, String)],
) -> Result<Rendered, Fault> {
    let (header, parts) = file.content.split_once(SYSTEM).ok_or(Fault::Malformed)?;
    let (system, user) = parts.split_once(USER).ok_or(Fault::Malformed)?;
    let version = header.lines().find_map(|line| line.strip_prefix("version: "));
    let version = version.and_then(|number| number.parse().ok()).ok_or(Fault::Malformed)?;
    let mut used = Vec::new();
    let system = filled(system.trim(), values, &mut used)?;
    let user = filled(user.trim(), values, &mut used)?;
    match values.iter().find(|(name, _)| !used.contains(name)) {
        Some((name, _)) => Err(Fault::Unused(name)),
        None => Ok(Rendered { version, system, user }),
    }
}

fn filled(
    template: &str,
    values: &[(&'static str, String)],
    used: &mut Vec<&'static str>,
) -> Result<String, Fault> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (wanted, behind) = after.split_once("}}").ok_or(Fault::Unclosed)?;
        let value = values.iter().find(|(name, _)| *name == wanted);
        let (name, value) = value.ok_or_else(|| Fault::Missing(wanted.to_owned()))?;
        text.push_str(before);
        text.push_str(value);
        used.push(name);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::internal("a prompt cannot be rendered").with_source(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &'static str) -> PromptFile {
        PromptFile { name: "test", content }
    }

    #[test]
    fn values_are_inserted_and_never_read() {
        let prompt = file("version: 7\n=== system ===\nBe brief.\n=== user ===\n{{a}}, {{b}}.\n");
        let values = [("a", "{{b}} {{".to_owned()), ("b", "}} two".to_owned())];
        let rendered = render(prompt, &values).unwrap();
        assert_eq!(rendered.version, 7);
        assert_eq!(rendered.system, "Be brief.");
        assert_eq!(rendered.user, "{{b}} {{, }} two.");
    }

    #[test]
    fn what_is_missing_unused_or_malformed_is_a_fault() {
        let value = |name| (name, String::new());
        let one = file("version: 1\n=== system ===\n=== user ===\n{{a}}");
        assert_eq!(render(one, &[]), Err(Fault::Missing("a".to_owned())));
        assert_eq!(render(one, &[value("a"), value("b")]), Err(Fault::Unused("b")));
        let open = file("version: 1\n=== system ===\n{{a\n=== user ===\n");
        assert_eq!(render(open, &[]), Err(Fault::Unclosed));
        for content in ["", "version: 1\n=== user ===\n", "=== system ===\n=== user ===\n"] {
            assert_eq!(render(file(content), &[]), Err(Fault::Malformed));
        }
    }
}
