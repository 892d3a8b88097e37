//! JSON form of a trace.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::step::TraceStep;

/// The outcome of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// The trace does not say.
    #[default]
    Unspecified,
    /// The answer is supported by its citations.
    Answered,
    /// Nothing that was found supports an answer.
    NotInMemory,
    /// Answered, but some shards could not be asked.
    AnsweredWithShardsMissing,
}

impl TraceOutcome {
    /// Returns the outcome in words for a person. Empty if it is unspecified.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Answered => "answered",
            Self::NotInMemory => "not in memory",
            Self::AnsweredWithShardsMissing => "answered with shards missing",
        }
    }
}

/// A quoted byte range of a stored document. It can also be read from `"span": {"start", "end"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, from = "CitationForm")]
pub struct TraceCitation {
    /// Id of the document.
    pub document_id: String,
    /// Title of the document. May be empty.
    pub title: String,
    /// Beginning, in bytes of the document's text.
    pub start: u64,
    /// End, in bytes of the document's text.
    pub end: u64,
    /// Text of that range.
    pub quote: String,
    /// Version of the document.
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

impl From<CitationForm> for TraceCitation {
    fn from(form: CitationForm) -> Self {
        let CitationForm { document_id, title, start, end, span, quote, version } = form;
        let (start, end) = span.map_or((start, end), |span| (span.start, span.end));
        Self { document_id, title, start, end, quote, version }
    }
}

/// Cost of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceCost {
    /// Number of tokens that were embedded.
    pub embedded_tokens: u64,
    /// Number of tokens that a reranker read.
    pub reranked_tokens: u64,
    /// Number of calls of language models.
    pub model_calls: u64,
    /// Number of tokens sent to language models.
    pub prompt_tokens: u64,
    /// Number of tokens received from language models.
    pub completion_tokens: u64,
    /// Number of shards that were searched.
    pub shards_searched: u64,
}

/// A record of how a question was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// The question.
    pub question: String,
    /// Name of the strategy that answered it.
    pub strategy: String,
    /// Name of the corpus.
    pub corpus: String,
    /// Outcome of the question.
    pub outcome: TraceOutcome,
    /// Text of the answer. Empty if the answer is not in memory.
    pub answer: String,
    /// Citations of the answer, in the order of its text.
    pub citations: Vec<TraceCitation>,
    /// The steps, in the order in which they were taken.
    pub trace: Vec<TraceStep>,
    /// Cost of the answer.
    pub cost: TraceCost,
    /// Shards that could not be asked.
    pub shards_missing: Vec<u32>,
    /// Duration in milliseconds.
    pub took_ms: f64,
}

impl Trace {
    /// Reads a trace from JSON. Only `trace` is required. Unknown fields are ignored.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] with the line if `json` is not valid JSON, and [`Error::Form`]
    /// with the field if it is not a valid trace. A step of an unknown kind is not valid.
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

/// Parses the fields of the object `name`.
fn typed<T: DeserializeOwned>(fields: Map<String, Value>, name: &str) -> Result<T, Error> {
    let read = |fields: &Map<String, Value>| {
        serde_json::from_value::<T>(Value::Object(fields.clone())).map_err(|e| e.to_string())
    };
    read(&fields).map_err(|reason| {
        // Serde reports the problem but not its field. It is the field whose removal changes the
        // message. Removing the kind of a step always does, so that field is tried last.
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
