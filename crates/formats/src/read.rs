//! Reads a file into documents.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clew_core::{Document, DocumentId, Violations};

use crate::reader::{Open, Reader, Rows, WholeText};
use crate::{FileFormat, FileLocation, Options, Problem, Source, Unreadable};

/// Iterator over the documents of a file, which are read on demand.
pub type FileDocuments = Box<dyn Iterator<Item = Result<Document, Unreadable>> + Send>;

/// Reads `source` as `format`.
///
/// Nothing is read before the first document is requested, and reading blocks. If a file is one
/// document, its id is the name of the source. The id of a row is its own if it has one, otherwise
/// the name of the source, `#` and the number of the row or line, from 1. A row that cannot be read
/// is reported with its number, and reading continues after it, unless the structure of the file
/// itself is broken.
pub fn read(source: Source, format: FileFormat, options: &Options) -> FileDocuments {
    let options = options.clone();
    let name = source.name().to_owned();
    match format.reader() {
        Reader::Whole { max_file_per_text, parse } => {
            let limit = (options.limits.document_bytes as u64).saturating_mul(*max_file_per_text);
            Box::new(
                std::iter::once_with(move || {
                    source
                        .load(limit)
                        .and_then(|bytes| contain_panic(|| parse(bytes, &name, &options))?)
                        .and_then(|text| {
                            text.map(|text| document(text, &name, &options)).transpose()
                        })
                        .map_err(|problem| unreadable(&name, None, problem))
                })
                .filter_map(Result::transpose),
            )
        }
        Reader::Rows(open) => {
            Box::new(RowDocuments { state: State::Closed(source, *open), name, options })
        }
    }
}

fn document(text: WholeText, name: &str, options: &Options) -> Result<Document, Problem> {
    if text.text.trim().is_empty() {
        return Err(Problem::NoText);
    }
    let document = Document {
        id: name.parse::<DocumentId>()?,
        text: text.text,
        media_type: text.media_type,
        title: plain_title(&text.title, options.limits.title_bytes),
        attributes: options.attributes.clone(),
        event_time: None,
        labels: options.labels.clone(),
        source_version: None,
    };
    let mut violations = Violations::default();
    document.check(&options.limits, &mut violations);
    violations.into_result()?;
    Ok(document)
}

/// Converts a title found in a file to one that is valid for a document.
fn plain_title(title: &str, max_bytes: usize) -> String {
    let words: Vec<&str> = title
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    let mut title = words.join(" ");
    title.truncate(title.floor_char_boundary(max_bytes));
    title
}

/// Catches panics: parsers of third-party formats may panic on broken input, which must not end the
/// process.
fn contain_panic<T>(parse: impl FnOnce() -> T) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(parse))
        .map_err(|_| Problem::Malformed("the file broke its parser; is it damaged?".to_owned()))
}

fn unreadable(file: &str, row: Option<u64>, problem: Problem) -> Unreadable {
    Unreadable { place: FileLocation { file: file.to_owned(), row }, problem }
}

struct RowDocuments {
    state: State,
    name: String,
    options: Options,
}

enum State {
    Closed(Source, Open),
    Open(Rows),
    Done,
}

impl Iterator for RowDocuments {
    type Item = Result<Document, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rows = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return None,
            State::Open(rows) => rows,
            State::Closed(source, open) => match contain_panic(|| open(source, &self.options)) {
                Ok(Ok(rows)) => rows,
                Ok(Err(problem)) | Err(problem) => {
                    return Some(Err(unreadable(&self.name, None, problem)));
                }
            },
        };
        match contain_panic(|| rows.next()) {
            Ok(None) => None,
            Ok(Some((number, row))) => {
                self.state = State::Open(rows);
                let document = row.and_then(|row| row.into_document(&self.name, &self.options));
                Some(document.map_err(|problem| unreadable(&self.name, Some(number), problem)))
            }
            Err(problem) => Some(Err(unreadable(&self.name, None, problem))),
        }
    }
}
