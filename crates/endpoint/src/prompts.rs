//! The texts that are added to a conversation.

const JSON: &str = include_str!("prompts/json.md");
const CHOICE: &str = include_str!("prompts/choice.md");
const AGAIN: &str = include_str!("prompts/again.md");

/// Returns the instruction to reply with JSON that satisfies a schema.
pub(crate) fn json(schema: &str) -> String {
    render(JSON, "{schema}", schema)
}

/// Returns the instruction to reply with one of `choices`.
pub(crate) fn choice(choices: &[String]) -> String {
    render(CHOICE, "{choices}", &choices.join("\n"))
}

/// Returns the request to reply again, with a description of the problem.
pub(crate) fn again(problem: &str) -> String {
    render(AGAIN, "{problem}", problem)
}

fn render(template: &str, place: &str, value: &str) -> String {
    template.trim_end().replacen(place, value, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_read_as_they_are_meant_to() {
        assert_eq!(
            json(r#"{"type": "{schema}"}"#),
            "Reply with one JSON value and nothing else: no explanation, no code fence. It has to \
             satisfy this JSON schema:\n{\"type\": \"{schema}\"}"
        );
        assert_eq!(
            choice(&["yes".to_owned(), "no".to_owned()]),
            "Reply with exactly one of the following lines, word for word, and nothing else:\nyes\nno"
        );
        assert_eq!(
            again("it is empty"),
            "That reply cannot be used: it is empty. Reply again, with nothing but what was asked for."
        );
    }
}
