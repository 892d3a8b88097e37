//! The JSON form of a trace.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::step::Step;

/// How a question ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not told.
    #[default]
    Unspecified,
    /// The answer is supported by its citations.
    Answered,
    /// Nothing that was found supports an answer.
    NotInMemory,
    /// Answered, but some shards could not be asked.
    AnsweredWithShardsMissing,
}

impl Outcome {
    /// The outcome for a person; empty if it was not told.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Answered => "answered",
            Self::NotInMemory => "not in memory",
            Self::AnsweredWithShardsMissing => "answered with shards missing",
        }
    }
}

/// A quoted byte range of a stored document. It may also be told as `"span": {"start", "end"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, from = "CitationForm")]
pub struct Citation {
    /// Id of the document.
    pub document_id: String,
    /// Its title; may be empty.
    pub title: String,
    /// Where it begins, in bytes of the document's text.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The text of that range.
    pub quote: String,
    /// The document's version.
    pub version: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CitationForm {
    document_id: String,
    title: String,
    start: u64,
    end: u64,
    span: Option<SpanForm>,
    quote: String,
    version: u64,
}

#[derive(Deserialize)]
struct SpanForm {
    start: u64,
    end: u64,
}

impl From<CitationForm> for Citation {
    fn from(form: CitationForm) -> Self {
        let CitationForm { document_id, title, start, end, span, quote, version } = form;
        let (start, end) = span.map_or((start, end), |span| (span.start, span.end));
        Self { document_id, title, start, end, quote, version }
    }
}

/// What answering cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Tokens that were embedded.
    pub embedded_tokens: u64,
    /// Tokens that a reranker read.
    pub reranked_tokens: u64,
    /// Calls of language models.
    pub model_calls: u64,
    /// Tokens sent to language models.
    pub prompt_tokens: u64,
    /// Tokens received from language models.
    pub completion_tokens: u64,
    /// Shards that were asked.
    pub shards_searched: u64,
}

/// How a question was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// The question.
    pub question: String,
    /// The name of the strategy that answered it.
    pub strategy: String,
    /// The corpus that was asked.
    pub corpus: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The answer's text; empty if it is not in memory.
    pub answer: String,
    /// Where its parts come from, in the order of the text.
    pub citations: Vec<Citation>,
    /// The steps, in the order in which they were taken.
    pub trace: Vec<Step>,
    /// What it cost.
    pub cost: Cost,
    /// Shards that could not be asked.
    pub shards_missing: Vec<u32>,
    /// How long it took.
    pub took_ms: f64,
}

impl Trace {
    /// Reads a trace from JSON. Only `trace` has to be there; unknown fields are passed over.
    ///
    /// # Errors
    /// [`Error::Syntax`] with its line when `json` is no JSON, and [`Error::Form`] with the field at
    /// fault when it is no trace, which includes steps of unknown kinds.
    pub fn read(json: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(json).map_err(|error| syntax(&error))?;
        let form = |field: &str, reason: &str| {
            Err(Error::Form { field: field.to_owned(), reason: reason.to_owned() })
        };
        let Value::Object(mut fields) = value else { return form("", "expected an object") };
        let steps = match fields.remove("trace") {
            Some(Value::Array(steps)) => steps,
            Some(_) => return form("trace", "expected an array of steps"),
            None => return form("trace", "it is missing"),
        };
        let mut trace: Self = typed(fields, "")?;
        for (at, step) in steps.into_iter().enumerate() {
            let field = format!("trace[{at}]");
            let Value::Object(step) = step else { return form(&field, "expected a step") };
            trace.trace.push(typed(step, &field)?);
        }
        Ok(trace)
    }
}

fn syntax(error: &serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let reason = error.to_string();
    let place = format!(" at line {line} column {column}");
    Error::Syntax { line, column, reason: reason.trim_end_matches(&place).to_owned() }
}

/// The value that `fields` of the object `name` tell.
fn typed<T: DeserializeOwned>(fields: Map<String, Value>, name: &str) -> Result<T, Error> {
    let read = |fields: &Map<String, Value>| {
        serde_json::from_value::<T>(Value::Object(fields.clone())).map_err(|e| e.to_string())
    };
    read(&fields).map_err(|reason| {
        // Serde tells what was wrong but not where: it is where leaving it out changes the complaint. Leaving
        // out the kind of a step always does, so that it is suspected last.
        let (kind, others): (Vec<&String>, Vec<&String>) =
            fields.keys().partition(|key| key.as_str() == "step");
        let at_fault = others.into_iter().chain(kind).find(|key| {
            let mut others = fields.clone();
            others.remove(key.as_str());
            read(&others).err().as_ref() != Some(&reason)
        });
        let missing = reason.strip_prefix("missing field `").and_then(|f| f.strip_suffix('`'));
        let parts = [name, missing.or(at_fault.map(|key| key.as_str())).unwrap_or_default()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let field = parts.collect::<Vec<_>>().join(".");
        let reason = if missing.is_some() { "it is missing".to_owned() } else { reason };
        Error::Form { field, reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        Trace::read(json).unwrap_err().to_string()
    }

    #[test]
    fn only_the_steps_have_to_be_there() {
        let trace = Trace::read(r#"{"trace": [], "more": 1}"#).unwrap();
        assert_eq!(trace, Trace::default());
    }

    #[test]
    fn a_refusal_tells_where() {
        let check = |json: &str, expected: &str| assert_eq!(refused(json), expected);
        check("{\n  \"a\": ,\n}", "the trace is no JSON at line 2, column 8: expected value");
        check("[]", "this is no trace: expected an object");
        check("{}", "this is no trace: `trace`: it is missing");
        check(r#"{"trace": [7]}"#, "this is no trace: `trace[0]`: expected a step");
        check(
            r#"{"trace": [], "took_ms": "long", "question": "q"}"#,
            "this is no trace: `took_ms`: invalid type: string \"long\", expected f64",
        );
        check(
            r#"{"trace": [{"step": "gathered", "segments": -1, "dropped": 0, "bytes": 9}]}"#,
            "this is no trace: `trace[0].segments`: invalid value: integer `-1`, expected u64",
        );
        check(
            r#"{"trace": [{"step": "turned_back", "node": "d"}]}"#,
            "this is no trace: `trace[0].reason`: it is missing",
        );
    }

    #[test]
    fn an_unknown_step_is_refused_by_its_name() {
        let refusal = refused(r#"{"trace": [{"step": "danced", "with": "a node"}]}"#);
        let expected =
            "this is no trace: `trace[0].step`: unknown variant `danced`, expected one of";
        assert!(refusal.starts_with(expected), "{refusal}");
    }

    #[test]
    fn a_citation_may_have_a_span() {
        let json =
            r#"{"trace": [], "citations": [{"document_id": "d", "span": {"start": 3, "end": 9}}]}"#;
        let trace = Trace::read(json).unwrap();
        assert_eq!((trace.citations[0].start, trace.citations[0].end), (3, 9));
    }
}
