//! Questions about one passage each.
//!
//! A file has records `{id, source, title, context, question, answers: [{text, start}]}`, one a
//! line or in an array, or is in SQuAD's own layout: `{data: [{title, paragraphs: [{context, qas:
//! [{id, question, answers: [{text}]}]}]}]}`. It may be packed with gzip. Without answers, the
//! passage does not answer the question. Several answers are alternatives; those of the sources in
//! [`LISTS`] are parts of one list.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::answers::{squad_exact_match, squad_f1};
use crate::dataset::records::Records;

/// Sources whose answers to a question are parts of one list: QASRL-GS and Quoref.
const LISTS: [&str; 2] = ["qasrl_gs", "quoref_dev"];

/// Question about a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingQuestion {
    /// Id, unique in its file.
    pub id: String,
    /// Name of the data set that it comes from; may be empty.
    pub source: String,
    /// Title of the passage; may be empty.
    pub title: String,
    /// Text of the passage.
    pub context: String,
    /// Text of the question.
    pub question: String,
    /// Right answers, each as good as the others; none if the passage does not answer.
    pub answers: Vec<String>,
}

#[derive(Deserialize)]
struct LineRecord {
    id: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    title: String,
    context: String,
    question: String,
    answers: Vec<AnswerText>,
}

#[derive(Deserialize)]
struct Article {
    title: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<QuestionRecord>,
}

#[derive(Deserialize)]
struct QuestionRecord {
    id: String,
    question: String,
    answers: Vec<AnswerText>,
}

#[derive(Deserialize)]
struct AnswerText {
    text: String,
}

impl ReadingQuestion {
    /// Returns whether the passage answers the question.
    pub fn is_answerable(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Returns the exact match and the F1 of `answer`, as in SQuAD, each 0 to 1. Both are 0 if the
    /// passage does not answer.
    pub fn score(&self, answer: &str) -> (f64, f64) {
        (squad_exact_match(answer, &self.answers), squad_f1(answer, &self.answers))
    }
}

/// Reads all questions of a file.
///
/// # Errors
/// Returns [`Error::Unreadable`] if the file system refuses, [`Error::Malformed`] if a record is
/// broken or an id occurs twice, and [`Error::NothingToScore`] if there is no question.
pub fn read_questions(path: &Path) -> Result<Vec<ReadingQuestion>, Error> {
    let mut questions: Vec<ReadingQuestion> = Vec::new();
    let mut known = HashSet::new();
    for record in Records::<Value>::open(path)? {
        let record = record?;
        let malformed = |problem: String| Error::malformed(path, record.line, problem);
        let read = questions_of(record.value).map_err(malformed)?;
        if let Some(twice) = read.iter().find(|question| !known.insert(question.id.clone())) {
            return Err(malformed(format!("the question `{}` occurs twice", twice.id)));
        }
        questions.extend(read);
    }
    if questions.is_empty() { Err(Error::NothingToScore) } else { Ok(questions) }
}

/// Returns the `most` questions with the lowest hashes of their ids, in their order: the same ones
/// on every machine, from all parts of the file.
pub fn sample(mut questions: Vec<ReadingQuestion>, most: usize) -> Vec<ReadingQuestion> {
    let hash = |question: &ReadingQuestion| *blake3::hash(question.id.as_bytes()).as_bytes();
    let mut hashes: Vec<_> = questions.iter().map(hash).collect();
    hashes.sort_unstable();
    if let Some(first_left_out) = hashes.get(most) {
        questions.retain(|question| hash(question) < *first_left_out);
    }
    questions
}

/// Returns the questions of a record, or what was expected.
fn questions_of(record: Value) -> Result<Vec<ReadingQuestion>, String> {
    match record {
        Value::Object(mut file) if file.contains_key("data") => {
            let articles: Vec<Article> = parsed(file.remove("data").unwrap_or_default())?;
            Ok(articles.into_iter().flat_map(questions_of_article).collect())
        }
        record => {
            let LineRecord { id, source, title, context, question, answers } = parsed(record)?;
            let is_list = LISTS.contains(&source.as_str());
            let answers = texts(answers);
            let answers = match is_list && !answers.is_empty() {
                true => vec![answers.join(" ")],
                false => answers,
            };
            Ok(vec![ReadingQuestion { id, source, title, context, question, answers }])
        }
    }
}

fn questions_of_article(article: Article) -> impl Iterator<Item = ReadingQuestion> {
    let Article { title, paragraphs } = article;
    paragraphs.into_iter().flat_map(move |paragraph| {
        let Paragraph { context, qas } = paragraph;
        let title = title.clone();
        qas.into_iter().map(move |QuestionRecord { id, question, answers }| ReadingQuestion {
            id,
            source: String::new(),
            title: title.clone(),
            context: context.clone(),
            question,
            answers: texts(answers),
        })
    })
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| {
        format!("expected a question with its passage, or SQuAD's layout: {error}")
    })
}

/// Returns the texts, each once.
fn texts(answers: Vec<AnswerText>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for AnswerText { text } in answers {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<ReadingQuestion>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_questions(file.path())
    }

    fn line(id: &str, source: &str, answers: &str) -> String {
        format!(
            r#"{{"id":"{id}","source":"{source}","title":"Rome","context":"Bo saw Al.","question":"Who?","answers":{answers}}}"#
        )
    }

    #[test]
    fn lines_and_the_layout_of_squad_are_read_alike() {
        let answers =
            r#"[{"text":"Bo","start":0},{"text":"Bo","start":0},{"text":"Al","start":7}]"#;
        let lines = format!("{}\n{}\n", line("a", "", answers), line("b", "", "[]"));
        let whole = format!(
            r#"{{"version":"v2.0","data":[{{"title":"Rome","paragraphs":[{{"context":"Bo saw Al.","qas":[
                {{"id":"a","question":"Who?","answers":{answers},"is_impossible":false}},
                {{"id":"b","question":"Who?","answers":[],"plausible_answers":[{{"text":"Bo"}}]}}]}}]}}]}}"#
        );
        let questions = read(&lines).unwrap();
        assert_eq!(questions, read(&whole).unwrap());
        assert_eq!(questions[0].answers, ["Bo", "Al"]);
        assert!(questions[0].is_answerable() && !questions[1].is_answerable());
        assert_eq!(questions[0].score("the Al"), (1.0, 1.0));
        assert_eq!(questions[0].score("Al Bo"), (0.0, 2.0 / 3.0));
        assert_eq!(questions[1].score("Bo"), (0.0, 0.0));
    }

    #[test]
    fn parts_of_a_list_are_one_answer() {
        let answers = r#"[{"text":"Bo","start":0},{"text":"Al","start":7}]"#;
        let questions = read(&line("a", "quoref_dev", answers)).unwrap();
        assert_eq!(questions[0].answers, ["Bo Al"]);
        assert_eq!(questions[0].score("Bo"), (0.0, 2.0 / 3.0));
        assert!(!read(&line("a", "quoref_dev", "[]")).unwrap()[0].is_answerable());
    }

    #[test]
    fn broken_records_are_refused_with_their_line_and_what_was_expected() {
        let good = line("a", "", "[]");
        let cases = [
            (format!("{good}\n{}", line("b", "", "null")), "line 2: expected a question with"),
            (format!("{good}\n{good}"), "line 2: the question `a` occurs twice"),
            (r#"{"data":[{"title":"x"}]}"#.to_owned(), "missing field `paragraphs`"),
            (r#"{"id":"a"}"#.to_owned(), "missing field `context`"),
            ("7".to_owned(), "line 1: expected a question with"),
            (String::new(), "no question"),
            (r#"{"data":[]}"#.to_owned(), "no question"),
        ];
        for (text, expected) in cases {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_sample_has_its_size_keeps_the_order_and_grows(
            ids in prop::collection::hash_set("[a-z]{1,4}", 0..30), size in 0..35_usize,
        ) {
            let of = |id: &String| ReadingQuestion {
                id: id.clone(),
                source: String::new(),
                title: String::new(),
                context: String::new(),
                question: String::new(),
                answers: Vec::new(),
            };
            let all: Vec<_> = ids.iter().map(of).collect();
            let few = sample(all.clone(), size);
            prop_assert_eq!(few.len(), size.min(all.len()));
            let more = sample(all.clone(), size + 1);
            prop_assert!(few.iter().all(|question| more.contains(question)));
            let place = |question| all.iter().position(|of| of == question).unwrap();
            prop_assert!(few.iter().map(place).is_sorted());
        }
    }
}
