//! JSON Lines: one object per line.
//!
//! The known fields are `id`, `text`, `title`, `media_type` and `event_time` (strings), `labels`
//! (an array of strings, or one string with commas), `source_version` (a whole number) and
//! `attributes` (an object of scalars). Other fields become attributes if they are scalars;
//! otherwise the line is refused. Numbers and truth values keep their type. `attribute_types` (an
//! object of strings) names the types of `attributes` that are written as strings, as an export has
//! them. `null` counts as absent, and blank lines are skipped.

use std::io::{self, BufRead, BufReader, Read};

use clew_core::AttributeValue;
use serde_json::{Map, Value as Json};

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
        Ok(Json::Object(mut object)) => {
            let types = match object.remove(TYPES) {
                None | Some(Json::Null) => Map::new(),
                Some(Json::Object(types)) => types,
                Some(_) => return Err(Problem::Malformed(format!("`{TYPES}` is no object"))),
            };
            let mut fields = Vec::with_capacity(object.len());
            for (name, json) in object {
                match json {
                    Json::Object(given) if name == "attributes" => {
                        fields.push((name, Value::Attributes(attributes(given, &types)?)));
                    }
                    json => fields.extend(value(json).map(|value| (name, value))),
                }
            }
            Ok(Row { number, fields })
        }
        Ok(_) => Err(Problem::Malformed("expected a JSON object on each line".to_owned())),
        Err(error) => Err(Problem::malformed("JSON", error)),
    }
}

/// Field with the types of attributes that are written as strings.
const TYPES: &str = "attribute_types";

/// Converts attributes, of which some are strings that stand for values of other types.
fn attributes(
    given: Map<String, Json>,
    types: &Map<String, Json>,
) -> Result<Vec<(String, Value)>, Problem> {
    let mut attributes = Vec::with_capacity(given.len());
    for (name, json) in given {
        let Some(mut value) = value(json) else { continue };
        if let (Some(kind), Value::Scalar(AttributeValue::Text(text))) = (types.get(&name), &value)
        {
            let typed = match kind.as_str() {
                Some("text") => Some(AttributeValue::from(text.as_str())),
                Some("integer") => text.parse().ok().map(AttributeValue::Integer),
                Some("number") => text.parse().ok().and_then(AttributeValue::number),
                Some("boolean") => text.parse().ok().map(AttributeValue::Boolean),
                _ => None,
            };
            value = Value::Scalar(typed.ok_or_else(|| {
                Problem::Malformed(format!("the attribute `{name}` is not what `{TYPES}` says"))
            })?);
        }
        attributes.push((name, value));
    }
    Ok(attributes)
}

/// Converts a field's value. Returns `None` for `null`.
fn value(json: Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(truth) => Value::Scalar(truth.into()),
        Json::Number(number) => Value::Scalar(match number.as_i64() {
            Some(integer) => AttributeValue::Integer(integer),
            // An integer beyond 64 bits with a sign would lose digits as a number.
            None if number.is_u64() => number.to_string().into(),
            None => match number.as_f64().and_then(AttributeValue::number) {
                Some(number) => number,
                None => number.to_string().into(),
            },
        }),
        Json::String(text) => Value::Scalar(text.into()),
        Json::Array(items) => match items.iter().map(|item| item.as_str()).collect() {
            Some::<Vec<&str>>(texts) => {
                Value::Texts(texts.into_iter().map(str::to_owned).collect())
            }
            None => Value::Nested("an array"),
        },
        Json::Object(_) => Value::Nested("an object"),
    })
}
