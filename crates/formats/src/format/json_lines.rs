//! JSON Lines: one object per line.
//!
//! The known fields are `id`, `text`, `title`, `media_type` and `event_time` (strings), `labels`
//! (an array of strings, or one string with commas) and `attributes` (an object of scalars). Other
//! fields become attributes if they are scalars; otherwise the line is refused. `null` counts as
//! absent, and blank lines are skipped.

use std::io::{self, BufRead, BufReader, Read};

use serde_json::Value as Json;

use super::Entry;
use crate::reader::{Reader, Rows};
use crate::row::{Row, Value};
use crate::{Options, Problem, Source, encoding};

pub(super) const ENTRY: Entry =
    Entry { name: "jsonl", extensions: &["jsonl", "ndjson"], reader: Reader::Rows(open) };

fn open(source: Source, options: &Options) -> Result<Rows, Problem> {
    let input = BufReader::new(encoding::utf8_stream(source.stream()?)?);
    // Escapes make a line longer than its text, and attributes come on top.
    let max_line_bytes = 2 * options.limits.document_bytes as u64 + (1 << 20);
    Ok(Box::new(Lines { input, number: 0, max_line_bytes, is_done: false }))
}

struct Lines<R> {
    input: BufReader<R>,
    number: u64,
    max_line_bytes: u64,
    is_done: bool,
}

impl<R: Read> Iterator for Lines<R> {
    type Item = (u64, Result<Row, Problem>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_done {
            self.number += 1;
            let row = match self.next_line() {
                Ok(None) => {
                    self.is_done = true;
                    return None;
                }
                Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Some(line)) => parse(&line, self.number),
                Err(problem) => {
                    self.is_done = matches!(problem, Problem::Io(_));
                    Err(problem)
                }
            };
            return Some((self.number, row));
        }
        None
    }
}

impl<R: Read> Lines<R> {
    /// Returns the next line, or `None` at the end. A line that is too long is skipped and
    /// reported.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let mut line = Vec::new();
        let limit = self.max_line_bytes;
        self.input.by_ref().take(limit).read_until(b'\n', &mut line)?;
        if line.len() as u64 == limit && !line.ends_with(b"\n") {
            self.skip_line()?;
            return Err(Problem::TooLarge { limit });
        }
        Ok((!line.is_empty()).then_some(line))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let ready = self.input.fill_buf()?;
            let line_end = ready.iter().position(|&b| b == b'\n');
            let length = line_end.map_or(ready.len(), |at| at + 1);
            self.input.consume(length);
            if line_end.is_some() || length == 0 {
                return Ok(());
            }
        }
    }
}

fn parse(line: &[u8], number: u64) -> Result<Row, Problem> {
    let text = std::str::from_utf8(line).map_err(|_| Problem::Encoding { encoding: "UTF-8" })?;
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => {
            let fields = object
                .into_iter()
                .filter_map(|(name, json)| match json {
                    Json::Object(attributes) if name == "attributes" => {
                        let fields = attributes
                            .into_iter()
                            .filter_map(|(name, json)| Some((name, value(json)?)))
                            .collect();
                        Some((name, Value::Attributes(fields)))
                    }
                    json => Some((name, value(json)?)),
                })
                .collect();
            Ok(Row { number, fields })
        }
        Ok(_) => Err(Problem::Malformed("expected a JSON object on each line".to_owned())),
        Err(error) => Err(Problem::malformed("JSON", error)),
    }
}

/// Converts a field's value. Returns `None` for `null`.
fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(truth) => Value::Scalar(truth.to_string()),
        Json::Number(number) => Value::Scalar(number.to_string()),
        Json::String(text) => Value::Scalar(text),
        Json::Array(items) => match items.iter().map(|item| item.as_str()).collect() {
            Some::<Vec<&str>>(texts) => {
                Value::Texts(texts.into_iter().map(str::to_owned).collect())
            }
            None => Value::Nested("an array"),
        },
        Json::Object(_) => Value::Nested("an object"),
    })
}
