//! Import of triples as HippoRAG stores them: a line of JSON for each passage.

use clew_core::{EntityKind, Error};
use serde::Deserialize;

use super::{Imported, Passages};

/// Line of the file. Other fields are ignored.
#[derive(Deserialize)]
struct Line {
    idx: Number,
    #[serde(default)]
    title: String,
    entities: Vec<String>,
    triples: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

/// Reads lines of JSON, `{"idx": 0, "title": "...", "entities": ["..."], "triples": [["head",
/// "words", "tail"]]}`. Each line is a passage with the name `idx`. Triples that do not have three
/// parts are left out, as in HippoRAG.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] with the line and column that is not as expected.
pub fn from_openie(lines: &str) -> Result<Imported, Error> {
    let mut passages = Passages::default();
    for (at, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| {
            let (line, column) = (at + 1, error.column());
            let expected = "expected an object with `idx`, `entities` and `triples` of strings";
            Error::invalid("openie", format!("line {line}, column {column}: {expected}"))
                .with_source(error)
        })?;
        add(&mut passages, &line);
    }
    Ok(passages.imported)
}

fn add(passages: &mut Passages, line: &Line) {
    let name = match &line.idx {
        Number::Number(number) => number.to_string(),
        Number::Text(text) => text.clone(),
    };
    let passage = passages.passage(&name);
    passages.imported.passages[passage].title.clone_from(&line.title);
    for entity in line.entities.iter().map(|entity| entity.trim()).filter(|name| !name.is_empty()) {
        passages.entity(passage, entity, EntityKind::Other);
    }
    for triple in &line.triples {
        let parts: Vec<&str> =
            triple.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
        let [head, text, tail] = parts[..] else {
            passages.imported.left_out += 1;
            continue;
        };
        let [head, tail] = [head, tail].map(|end| passages.entity(passage, end, EntityKind::Other));
        passages.relate(passage, head, text, tail);
    }
}
