//! Multi-hop questions over passages, in the protocol of HippoRAG (Gutiérrez et al., NeurIPS 2024).
//!
//! There are two layouts, each one haystack:
//!
//! - `corpus.jsonl` `{idx, title, text}` and `questions.jsonl` `{question_id, question, answer,
//!   answer_aliases, type, supporting: [idx]}`;
//! - the authors' files `<name>_corpus.json` and `<name>.json`. A corpus is an array of `{title,
//!   text}` or an object from title to sentences; a question marks its evidence by
//!   `supporting_facts: [[title, sentence]]` (HotpotQA, 2WikiMultihopQA) or by
//!   `paragraphs: [{title, paragraph_text, is_supporting}]` (MuSiQue).
//!
//! The answer and its aliases are references; without an `answer`, only retrieval can be measured.
//!
//! The title of a passage is [`Unit::title`]: the indexer decides how it joins the text.

mod original;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clew_core::DocumentId;
use serde::Deserialize;

use super::answer::Answer;
use super::files::{first_of, folder_of, name_of};
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "multihop",
    units: &[UnitKind::Passage],
    splits: &[],
    has_evidence: true,
    open,
};

const CORPUS: &str = "corpus.jsonl";
const QUESTIONS: &str = "questions.jsonl";

#[derive(Deserialize)]
struct PassageRecord {
    idx: u64,
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct QuestionRecord {
    question_id: String,
    #[serde(rename = "type")]
    kind: String,
    question: String,
    answer: Option<Answer>,
    answer_aliases: Option<Vec<String>>,
    supporting: Vec<u64>,
}

/// Files of a corpus and its questions.
struct Pair {
    corpus: PathBuf,
    questions: PathBuf,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let folder = folder_of(source.path);
    let name = name_of(source.path, FORMAT.name);
    if let Some(pair) = original::find(source.path)? {
        return Ok(Box::new(std::iter::once_with(move || original::read(name, &pair))));
    }
    let (Some(corpus), Some(questions)) =
        (first_of(folder, &[CORPUS]), first_of(folder, &[QUESTIONS]))
    else {
        let expected =
            format!("`{CORPUS}` and `{QUESTIONS}`, or `<name>_corpus.json` and `<name>.json`");
        return Err(source.unknown_layout(FORMAT.name, expected));
    };
    let name = if source.path.is_dir() { name } else { name_of(folder, FORMAT.name) };
    Ok(Box::new(std::iter::once_with(move || {
        let units = read_passages(&corpus)?;
        let questions = read_questions(&questions, &units)?;
        Ok(Haystack::new(name, units, questions))
    })))
}

fn read_passages(path: &Path) -> Result<Vec<Unit>, Error> {
    let mut units = Vec::new();
    let mut known = HashSet::new();
    for record in Records::<PassageRecord>::open(path)? {
        let record = record?;
        let PassageRecord { idx, title, text } = record.value;
        if !known.insert(idx) {
            return Err(Error::malformed(path, record.line, format!("`idx` {idx} occurs twice")));
        }
        units.push(Unit { id: passage_id(idx), title, text, event_time: None, said: Vec::new() });
    }
    Ok(units)
}

fn read_questions(path: &Path, units: &[Unit]) -> Result<Vec<EvalQuestion>, Error> {
    let known: HashSet<_> = units.iter().map(|unit| &unit.id).collect();
    let mut questions = Vec::new();
    for record in Records::<QuestionRecord>::open(path)? {
        let record = record?;
        let mut gold: Vec<_> = record.value.supporting.iter().copied().map(passage_id).collect();
        if let Some(unknown) = gold.iter().find(|id| !known.contains(id)) {
            let problem =
                format!("`supporting` names passage {unknown}, which is not in the corpus");
            return Err(Error::malformed(path, record.line, problem));
        }
        gold.sort();
        gold.dedup();
        let QuestionRecord { question_id, kind, question, answer, answer_aliases, .. } =
            record.value;
        let references = references(answer, answer_aliases);
        questions.push(self::question(question_id, question, kind, gold, references));
    }
    Ok(questions)
}

/// Returns the answer and its aliases, each once.
fn references(answer: Option<Answer>, aliases: Option<Vec<String>>) -> Vec<String> {
    let Some(answer) = answer.and_then(Answer::into_text) else { return Vec::new() };
    let mut references = vec![answer];
    for alias in aliases.into_iter().flatten() {
        if !references.contains(&alias) {
            references.push(alias);
        }
    }
    references
}

fn question(
    id: String,
    text: String,
    kind: String,
    gold: Vec<DocumentId>,
    references: Vec<String>,
) -> EvalQuestion {
    EvalQuestion {
        id,
        text,
        kind,
        groups: vec!["all".to_owned()],
        gold,
        asked_at: None,
        is_abstention: false,
        references,
        scoring: Scoring::Squad,
    }
}

fn passage_id(idx: u64) -> DocumentId {
    idx.to_string().parse().expect("digits are a valid document id")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids};

    const CORPUS: &str = r#"{"idx":0,"title":"Harbour","text":"Boats rest here."}
        {"idx":1,"title":"Lamp","text":"It shines at night."}"#;

    #[test]
    fn the_corpus_is_one_haystack() {
        let questions = r#"{"question_id":"q","question":"Where?","answer":"a port","answer_aliases":["port","a port"],"type":"2hop","supporting":[1,0,1]}"#;
        let files = Files::of(&[("corpus.jsonl", CORPUS), ("questions.jsonl", questions)]);
        for path in [files.folder(), &files.path("corpus.jsonl")] {
            let haystacks = files.read_at(path, "multihop", None, None).unwrap();
            let [haystack] = &haystacks[..] else { panic!("{haystacks:?}") };
            assert_eq!(ids(haystack), ["0", "1"]);
            assert_eq!(haystack.units[1].title, "Lamp");
            assert_eq!(haystack.units[1].text, "It shines at night.");
            assert_eq!(gold(haystack, "q"), ["0", "1"]);
            assert_eq!(haystack.questions[0].kind, "2hop");
            assert_eq!(haystack.questions[0].references, ["a port", "port"]);
        }
    }

    #[test]
    fn evidence_outside_the_corpus_is_refused_with_its_line() {
        let questions =
            "\n{\"question_id\":\"q\",\"question\":\"Where?\",\"type\":\"t\",\"supporting\":[7]}";
        let files = Files::of(&[("corpus.jsonl", CORPUS), ("questions.jsonl", questions)]);
        let error = files.read("multihop", None, None).unwrap_err().to_string();
        assert!(error.contains("questions.jsonl") && error.contains("line 2"), "{error}");
    }
}
