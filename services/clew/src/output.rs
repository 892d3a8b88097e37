//! Results on standard output: text for people, or one JSON document.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clew_core::{Error, ErrorKind, ShardIndex};
use clew_proto::ingest::v1 as ingest;
use clew_proto::query::v1 as query;
use serde::Serialize;
use serde_json::{Value, json};

pub use clew_client::receipt::timestamp;

/// Returns the numbers of shards.
pub fn shards<'s>(shards: impl IntoIterator<Item = &'s ShardIndex>) -> Vec<u32> {
    shards.into_iter().map(|shard| shard.0).collect()
}

/// Returns a line that names the shards that did not answer. Empty if all did.
pub fn missing(shards: &[u32]) -> String {
    let names: Vec<String> = shards.iter().map(u32::to_string).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("(shard {one} did not answer)\n"),
        _ => format!("(shards {} did not answer)\n", names.join(", ")),
    }
}

/// Warns on standard error of shards that did not answer, for results that cannot say so
/// themselves.
pub fn warn_of_missing(shards: &[u32]) {
    eprint!("{}", missing(shards));
}

/// Printer of results.
pub struct Output {
    json: bool,
    /// Whether the one JSON document is printed already. After a result that is not a full success,
    /// such as a receipt for a document that was not there, the error follows in words only.
    is_printed: AtomicBool,
}

impl Output {
    /// Creates a printer of JSON or text.
    pub fn new(json: bool) -> Self {
        Self { json, is_printed: AtomicBool::new(false) }
    }

    /// Returns whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a result: `document` as JSON, or the text that `text` makes of it.
    ///
    /// # Errors
    /// Returns an error if standard output is closed.
    pub fn print<T: Serialize>(
        &self,
        document: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            self.is_printed.store(true, Ordering::Relaxed);
            serde_json::to_writer_pretty(&mut out, document)?;
            writeln!(out)?;
        } else {
            let text = text(document);
            write!(out, "{text}")?;
            if !text.ends_with('\n') && !text.is_empty() {
                writeln!(out)?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Prints an error in words on standard error and, in JSON mode without a printed result, as a
    /// JSON document on standard output.
    pub fn error(&self, error: &anyhow::Error) {
        if self.json && !self.is_printed.load(Ordering::Relaxed) {
            // Nothing can be done if standard output is closed.
            drop(writeln!(std::io::stdout(), "{:#}", error_document(error)));
        }
        eprint!("{}", error_text(error));
    }
}

/// Reasons that say no more than the message beside them.
const PLAIN_REASONS: [&str; 9] = [
    "ALREADY_EXISTS",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "INVALID_INPUT",
    "NOT_FOUND",
    "OTHER",
    "RESOURCE_EXHAUSTED",
    "TRANSPORT",
    "UNAVAILABLE",
];

/// Returns an error in one line: its message and those of its causes, each once. Errors of gRPC
/// are left out, because they repeat the error that was made of them, in the transport's words.
pub fn message(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = String::new();
    for cause in anyhow::Chain::new(error) {
        let is_transport = cause.is::<tonic::Status>() || cause.is::<tonic::transport::Error>();
        if is_transport && !line.is_empty() {
            break;
        }
        let said = cause.to_string();
        if line.is_empty() {
            line = said;
        } else if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
    }
    line
}

/// Returns an error as JSON.
fn error_document(error: &anyhow::Error) -> Value {
    let mut document = json!({ "error": { "message": message(error.as_ref()) } });
    if let Some(domain) = error.downcast_ref::<Error>() {
        document["error"]["kind"] = json!(format!("{:?}", domain.kind()));
        document["error"]["reason"] = json!(domain.reason());
        document["error"]["violations"] = domain
            .violations()
            .iter()
            .map(|v| json!({ "field": v.field, "description": v.description }))
            .collect();
    }
    document
}

/// Returns an error in words: its message, what to do, the reason if it says more, and a line for
/// each further field at fault.
fn error_text(error: &anyhow::Error) -> String {
    let mut text = format!("error: {}", message(error.as_ref()));
    let domain = error.downcast_ref::<Error>();
    if let Some(domain) = domain {
        if domain.kind() == ErrorKind::NotFound && domain.message().starts_with("corpus `") {
            text.push_str("; `clew corpus list` shows those that exist");
        }
        if !PLAIN_REASONS.contains(&domain.reason()) {
            text.push_str(&format!(" [{}]", domain.reason()));
        }
    }
    text.push('\n');
    for violation in domain.map_or(&[][..], Error::violations).iter().skip(1) {
        text.push_str(&format!("  also `{}`: {}\n", violation.field, violation.description));
    }
    text
}

/// Returns a span as JSON.
fn span(span: Option<&query::Span>) -> Value {
    span.map_or(Value::Null, |span| json!({ "start": span.start, "end": span.end }))
}

/// Reads the text of a file; `-` is standard input.
pub fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file)
            .with_context(|| format!("cannot read `{}`", file.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

/// Writes a text to a file; `-` is standard output.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if file.as_os_str() == "-" {
        let mut out = std::io::stdout().lock();
        return out.write_all(text.as_bytes()).context("cannot write to standard output");
    }
    std::fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Returns evidence as JSON.
pub fn evidence(item: &query::Evidence) -> Value {
    json!({
        "chunk_id": item.chunk_id,
        "document_id": item.document_id,
        "version": item.version,
        "title": item.title,
        "span": span(item.span.as_ref()),
        "text": item.text,
        "event_time": item.event_time.as_ref().map(timestamp),
        "score": item.score,
        "dense_score": item.dense_score,
        "sparse_score": item.sparse_score,
    })
}

/// Returns a citation as JSON.
pub fn citation(citation: &query::Citation) -> Value {
    let mut document = json!({
        "document_id": citation.document_id,
        "version": citation.version,
        "title": citation.title,
        "span": span(citation.span.as_ref()),
        "quote": citation.quote,
    });
    if !citation.attributes.is_empty() {
        document["attributes"] = attributes(&citation.attributes);
    }
    document
}

/// Returns attributes as JSON: an object of texts, numbers and truth values.
pub fn attributes(attributes: &[ingest::Attribute]) -> Value {
    use ingest::value::Kind;
    let value = |attribute: &ingest::Attribute| match attribute
        .typed
        .as_ref()
        .and_then(|typed| typed.kind.clone())
    {
        None => attribute.value.clone().into(),
        Some(Kind::Text(text)) => text.into(),
        Some(Kind::Integer(integer)) => integer.into(),
        Some(Kind::Number(number)) => number.into(),
        Some(Kind::Boolean(boolean)) => boolean.into(),
    };
    let pairs = attributes.iter().map(|attribute| (attribute.name.clone(), value(attribute)));
    Value::Object(pairs.collect())
}

/// Describes a title and attributes in words, one indented line each.
pub fn attribute_lines(title: &str, attributes: &[ingest::Attribute]) -> String {
    let title = (!title.is_empty()).then(|| format!("     {}\n", one_line(title, 160)));
    let line = |attribute: &ingest::Attribute| {
        format!("     {} = {}\n", attribute.name, one_line(&attribute.value, 160))
    };
    title.into_iter().chain(attributes.iter().map(line)).collect()
}

/// Returns a cost as JSON.
pub fn cost(cost: Option<&query::Cost>) -> Value {
    let cost = cost.copied().unwrap_or_default();
    json!({
        "embedded_tokens": cost.embedded_tokens,
        "reranked_tokens": cost.reranked_tokens,
        "model_calls": cost.model_calls,
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "shards_searched": cost.shards_searched,
        "out_of_budget": cost.out_of_budget,
    })
}

/// Returns a duration in a form for people.
pub fn human(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// Returns a passage as one line, cut to `width` characters.
pub fn one_line(text: &str, width: usize) -> String {
    let line = clew_text::one_line(text);
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Violations;

    use super::*;

    /// Returns an error as a client makes it of the status that a server sends.
    fn sent(error: &Error) -> Error {
        let status = clew_proto::to_status(error);
        clew_proto::from_status(&status).with_source(status)
    }

    #[test]
    fn an_error_of_a_server_is_told_once_and_without_the_transport() {
        let absent = anyhow::Error::new(sent(&Error::not_found("corpus", "x")));
        let told = "error: corpus `x` does not exist; `clew corpus list` shows those that exist\n";
        assert_eq!(error_text(&absent), told);
        let expected = json!({ "error": {
            "kind": "NotFound",
            "message": "corpus `x` does not exist",
            "reason": "NOT_FOUND",
            "violations": [],
        } });
        assert_eq!(error_document(&absent), expected);

        let spent = Error::new(ErrorKind::Exhausted, "QUOTA_SPENT", "the quota is spent");
        let within = anyhow::Error::new(sent(&spent)).context("`notes.txt` was not read");
        assert_eq!(
            error_text(&within),
            "error: `notes.txt` was not read: the quota is spent [QUOTA_SPENT]\n"
        );
    }

    #[test]
    fn every_field_at_fault_is_told_once() {
        let mut violations = Violations::default();
        violations.push("query", "must not be empty");
        violations.push("k", "expected 1 to 1000, got 0");
        let error = anyhow::Error::new(sent(&violations.into_result().unwrap_err()));
        assert_eq!(
            error_text(&error),
            "error: `query`: must not be empty\n  also `k`: expected 1 to 1000, got 0\n"
        );
    }

    #[test]
    fn causes_outside_the_transport_are_told() {
        let refused = std::io::Error::other("connection refused");
        let away = Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "no server answers");
        let error = anyhow::Error::new(away.with_source(refused));
        assert_eq!(error_text(&error), "error: no server answers: connection refused\n");
    }

    #[test]
    fn durations_and_passages_are_shown_short() {
        assert_eq!(human(Duration::from_millis(12)), "12 ms");
        assert_eq!(human(Duration::from_secs(90)), "90.0 s");
        assert_eq!(human(Duration::from_secs(150)), "2 min 30 s");
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("ééé", 2), "éé…");
    }
}
