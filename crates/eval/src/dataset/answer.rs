//! Reference answers, as they are written in files.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Reference answer: a text or a number. Anything else is accepted as no answer, so that retrieval
/// can be measured on any data.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Text(String),
    Number(serde_json::Number),
    Other(IgnoredAny),
}

impl Answer {
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_answers() {
        let cases = [("\"7 May\"", Some("7 May")), ("2030", Some("2030")), ("0.5", Some("0.5"))];
        for (json, expected) in cases.into_iter().chain([("[1]", None), ("{\"a\":1}", None)]) {
            let answer: Answer = serde_json::from_str(json).unwrap();
            assert_eq!(answer.into_text().as_deref(), expected, "{json}");
        }
        assert!(serde_json::from_str::<Option<Answer>>("null").unwrap().is_none());
    }
}
