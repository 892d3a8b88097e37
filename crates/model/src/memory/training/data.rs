//! Training sequences, from texts and from questions with clues.

use std::path::{Path, PathBuf};

use clew_tokenizer::TextTokenizer;
use serde::Deserialize;

use super::TrainingSequence;
use crate::Error;

/// Format in which a question about a text is written out, and the place of the clues in it.
///
/// Later requests to the model should use the same format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Written(String),
    Context,
    Question,
    Clues,
}

impl Form {
    /// Parses a text with the placeholders `{{context}}`, `{{question}}` and `{{clues}}`.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] if a placeholder does not occur exactly once, or if the clues
    /// do not come last.
    pub fn try_new(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let (written, place) = rest.split_at(at);
            let named = [
                ("{{context}}", Part::Context),
                ("{{question}}", Part::Question),
                ("{{clues}}", Part::Clues),
            ];
            let found = named.into_iter().find(|(name, _)| place.starts_with(name));
            match found {
                Some((name, part)) => {
                    parts.extend([Part::Written(written.to_owned()), part]);
                    rest = &place[name.len()..];
                }
                None => {
                    parts.push(Part::Written(rest[..at + 2].to_owned()));
                    rest = &rest[at + 2..];
                }
            }
        }
        parts.push(Part::Written(rest.to_owned()));
        let places = parts.iter().filter(|part| !matches!(part, Part::Written(_)));
        let places: Vec<&Part> = places.collect();
        let is_whole = matches!(
            places[..],
            [Part::Context, Part::Question, Part::Clues]
                | [Part::Question, Part::Context, Part::Clues]
        );
        if !is_whole {
            return Err(Error::Untrainable {
                expected: "`{{context}}` and `{{question}}`, then `{{clues}}`, each once"
                    .to_owned(),
                found: format!("{places:?}"),
            });
        }
        Ok(Self { parts })
    }
}

impl Default for Form {
    /// Returns the three parts with blank lines between them.
    fn default() -> Self {
        let line = |text: &str| Part::Written(text.to_owned());
        Self { parts: vec![Part::Context, line("\n\n"), Part::Question, line("\n\n"), Part::Clues] }
    }
}

/// Question about a text, as a line of JSON.
#[derive(Debug, Deserialize)]
struct Question {
    context: String,
    question: String,
    clues: Clues,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Clues {
    One(String),
    Several(Vec<String>),
}

/// Sequences, in the order of the files that they come from.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    all: Vec<TrainingSequence>,
    /// Number of sequences that were left out: too short for anything to be compressed, or
    /// questions that are too long.
    pub left_out: usize,
}

/// Inputs for making sequences.
pub(super) struct Making<'a> {
    pub(super) tokenizer: &'a TextTokenizer,
    /// Id that ends a text.
    pub(super) end: Option<u32>,
    /// Maximum number of tokens in a sequence.
    pub(super) longest: usize,
    /// Number of tokens that a sequence has to exceed.
    pub(super) longer_than: usize,
    pub(super) form: &'a Form,
}

impl Sequences {
    /// Wraps sequences that the caller has made.
    pub fn new(all: Vec<TrainingSequence>) -> Self {
        Self { all, left_out: 0 }
    }

    /// Returns all sequences.
    pub fn all(&self) -> &[TrainingSequence] {
        &self.all
    }

    /// Returns the number of tokens in all sequences.
    pub fn tokens(&self) -> usize {
        self.all.iter().map(|sequence| sequence.tokens.len()).sum()
    }

    /// Reads text files, which are cut, and files of questions (`.jsonl`), which are not.
    pub(super) fn read(files: &[PathBuf], making: &Making<'_>) -> Result<Self, Error> {
        let mut sequences = Self::default();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(file).map_err(|source| Error::Unreadable {
                file: name.clone(),
                expected: "text in UTF-8 to train with".to_owned(),
                source,
            })?;
            if is_of_questions(file) {
                sequences.add_questions(&name, &text, making)?;
            } else {
                sequences.add_text(&text, making);
            }
        }
        if sequences.all.is_empty() {
            return Err(Error::Untrainable {
                expected: format!(
                    "texts of {} to {} tokens",
                    making.longer_than + 1,
                    making.longest
                ),
                found: format!("none; {} were left out", sequences.left_out),
            });
        }
        Ok(sequences)
    }

    /// Cuts a text into pieces, and ends the last piece with the end token.
    fn add_text(&mut self, text: &str, making: &Making<'_>) {
        let mut ids = making.tokenizer.encode(text);
        ids.extend(making.end);
        for piece in ids.chunks(making.longest.max(1)) {
            self.add(TrainingSequence::of(piece.to_vec()), making);
        }
    }

    fn add_questions(&mut self, name: &str, text: &str, making: &Making<'_>) -> Result<(), Error> {
        for (line, at) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let question: Question = serde_json::from_str(line).map_err(|error| {
                let expected = "a line of JSON with `context`, `question` and `clues`";
                crate::weights::broken(name, expected, format!("line {at}: {error}"))
            })?;
            self.add(question.sequence(making), making);
        }
        Ok(())
    }

    fn add(&mut self, sequence: Result<TrainingSequence, Error>, making: &Making<'_>) {
        let is_good = |sequence: &TrainingSequence| {
            let length = sequence.tokens.len();
            making.longer_than < length && length <= making.longest
        };
        match sequence.ok().filter(is_good) {
            Some(sequence) => self.all.push(sequence),
            None => self.left_out += 1,
        }
    }
}

fn is_of_questions(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

impl Question {
    /// Returns the sequence of a question. Only the clues and the end token after them are labels.
    fn sequence(self, making: &Making<'_>) -> Result<TrainingSequence, Error> {
        let clues = match self.clues {
            Clues::One(clues) => clues,
            Clues::Several(clues) => clues.join("\n"),
        };
        let (mut tokens, mut counted) = (Vec::new(), Vec::new());
        for part in &making.form.parts {
            let (text, counts) = match part {
                Part::Written(text) => (text, false),
                Part::Context => (&self.context, false),
                Part::Question => (&self.question, false),
                Part::Clues => (&clues, true),
            };
            let mut ids = making.tokenizer.encode(text);
            if counts {
                ids.extend(making.end);
            }
            counted.extend(ids.iter().map(|_| counts));
            tokens.extend(ids);
        }
        TrainingSequence::masked(tokens, counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_each_place_once_and_clues_last() {
        let form = Form::try_new("a {{ b {{context}}c{{question}}{{clues}}\n").unwrap();
        let written = |text: &str| Part::Written(text.to_owned());
        let nothing = || written("");
        let expected = [
            written("a {{"),
            written(" b "),
            Part::Context,
            written("c"),
            Part::Question,
            nothing(),
            Part::Clues,
            written("\n"),
        ];
        assert_eq!(form.parts, expected);
        for wrong in ["", "{{context}}{{clues}}{{question}}", "{{context}} {{question}}"] {
            assert!(matches!(Form::try_new(wrong), Err(Error::Untrainable { .. })), "{wrong}");
        }
    }
}
