//! Records of L-Eval (An et al., ACL 2024): a long document with several questions each.
//!
//! A record is `{doc_id, document, questions, answers}` or, in the authors' files, `{input,
//! instructions, outputs}`. Each record is a haystack of one document.

use serde::Deserialize;

use super::files::name_of;
use super::records::Records;
use super::{EvalQuestion, Haystack, Haystacks, Source, long};
use crate::Error;
use crate::dataset::Scoring;

#[derive(Deserialize)]
struct Record {
    doc_id: Option<String>,
    #[serde(alias = "input")]
    document: String,
    #[serde(alias = "instructions")]
    questions: Vec<String>,
    #[serde(alias = "outputs")]
    answers: Vec<String>,
}

/// Question that a format reads from a question and its answer.
pub(super) struct Task {
    pub text: String,
    pub kind: &'static str,
    pub references: Vec<String>,
    pub scoring: Scoring,
}

/// Function that converts a question and its answer to a task, or returns what was expected and
/// what came.
pub(super) type ReadTask = fn(question: &str, answer: &str) -> Result<Task, String>;

/// Reads the file at the source, or the first of `files` if the source is a folder.
pub(super) fn open(
    source: Source<'_>,
    format: &'static str,
    files: &[&str],
    read: ReadTask,
) -> Result<Haystacks, Error> {
    let file = source.file(format, files)?;
    let name = name_of(&file, format);
    let records = Records::<Record>::open(&file)?;
    Ok(Box::new(records.enumerate().map(move |(index, record)| {
        let record = record?;
        haystack(record.value, || format!("{name}-{index}"), read)
            .map_err(|problem| Error::malformed(&file, record.line, problem))
    })))
}

fn haystack(
    record: Record,
    default_id: impl Fn() -> String,
    read: ReadTask,
) -> Result<Haystack, String> {
    let id = record.doc_id.unwrap_or_else(default_id);
    if record.questions.len() != record.answers.len() {
        let (questions, answers) = (record.questions.len(), record.answers.len());
        return Err(format!("expected an answer per question, got {answers} for {questions}"));
    }
    let mut questions: Vec<EvalQuestion> = Vec::new();
    for (index, (question, answer)) in record.questions.iter().zip(&record.answers).enumerate() {
        let Task { text, kind, references, scoring } =
            read(question, answer).map_err(|problem| format!("question {index}: {problem}"))?;
        questions.push(EvalQuestion {
            text,
            references,
            ..long::question(format!("{id}_q{index}"), kind, scoring)
        });
    }
    long::haystack(id, String::new(), record.document, questions)
}
