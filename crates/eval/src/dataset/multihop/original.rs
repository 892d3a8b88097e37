//! Files of the HippoRAG repository.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use clew_core::DocumentId;
use serde::Deserialize;

use super::super::answer::Answer;
use super::super::records::Records;
use super::super::{EvalQuestion, Haystack, Unit};
use super::{FORMAT, Pair, passage_id, question, references};
use crate::Error;

const CORPUS_ENDING: &str = "_corpus.json";

#[derive(Deserialize)]
#[serde(untagged)]
enum CorpusRecord {
    Passage { title: String, text: String },
    ByTitle(BTreeMap<String, Vec<String>>),
}

#[derive(Deserialize)]
struct QuestionRecord {
    #[serde(alias = "_id", alias = "question_id")]
    id: Option<String>,
    question: String,
    answer: Option<Answer>,
    answer_aliases: Option<Vec<String>>,
    #[serde(rename = "type")]
    kind: Option<String>,
    supporting_facts: Option<Vec<(String, u64)>>,
    paragraphs: Option<Vec<Paragraph>>,
}

#[derive(Deserialize)]
struct Paragraph {
    title: String,
    #[serde(alias = "paragraph_text")]
    text: String,
    is_supporting: bool,
}

/// Returns the pair of files that `path` names, or that is in the folder `path`.
pub(super) fn find(path: &Path) -> Result<Option<Pair>, Error> {
    let corpus = if path.is_dir() {
        match &corpora_in(path)?[..] {
            [] => return Ok(None),
            [corpus] => corpus.clone(),
            _ => {
                return Err(Error::UnknownLayout {
                    path: path.to_owned(),
                    format: FORMAT.name,
                    expected: format!("one `<name>{CORPUS_ENDING}`, or the path of one"),
                });
            }
        }
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(CORPUS_ENDING).or_else(|| name.strip_suffix(".json"));
        match stem {
            Some(stem) => path.with_file_name(format!("{stem}{CORPUS_ENDING}")),
            None => return Ok(None),
        }
    };
    let name = corpus.file_name().unwrap_or_default().to_string_lossy();
    let questions = corpus.with_file_name(name.replace(CORPUS_ENDING, ".json"));
    Ok((corpus.is_file() && questions.is_file()).then_some(Pair { corpus, questions }))
}

fn corpora_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::unreadable(folder, source);
    let mut corpora = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(CORPUS_ENDING)) {
            corpora.push(path);
        }
    }
    Ok(corpora)
}

pub(super) fn read(name: String, pair: &Pair) -> Result<Haystack, Error> {
    let units = read_corpus(&pair.corpus)?;
    let questions = read_questions(&pair.questions, &Passages::of(&units))?;
    Ok(Haystack::new(name, units, questions))
}

fn read_corpus(path: &Path) -> Result<Vec<Unit>, Error> {
    let mut units: Vec<Unit> = Vec::new();
    let mut push = |title, text| {
        let id = passage_id(units.len() as u64);
        units.push(Unit { id, title, text, event_time: None, said: Vec::new() });
    };
    for record in Records::<CorpusRecord>::open(path)? {
        match record?.value {
            CorpusRecord::Passage { title, text } => push(title, text),
            CorpusRecord::ByTitle(passages) => {
                for (title, sentences) in passages {
                    push(title, sentences.concat());
                }
            }
        }
    }
    Ok(units)
}

/// Index of the corpus by the titles and texts with which questions name passages.
struct Passages<'a> {
    by_title: HashMap<&'a str, Vec<&'a DocumentId>>,
    by_title_and_text: HashMap<(&'a str, &'a str), &'a DocumentId>,
}

impl<'a> Passages<'a> {
    fn of(units: &'a [Unit]) -> Self {
        let mut by_title: HashMap<_, Vec<_>> = HashMap::new();
        let mut by_title_and_text = HashMap::new();
        for unit in units {
            by_title.entry(&*unit.title).or_default().push(&unit.id);
            // Of equal passages, the first stands for all.
            by_title_and_text.entry((&*unit.title, &*unit.text)).or_insert(&unit.id);
        }
        Self { by_title, by_title_and_text }
    }

    /// Returns the evidence of a question, or the title of a passage that the corpus does not have.
    fn evidence(&self, record: &QuestionRecord) -> Result<Vec<DocumentId>, String> {
        let mut gold = Vec::new();
        for (title, _) in record.supporting_facts.iter().flatten() {
            let passages = self.by_title.get(&**title).ok_or_else(|| title.clone())?;
            gold.extend(passages.iter().copied().cloned());
        }
        let supporting = |paragraph: &&Paragraph| paragraph.is_supporting;
        for paragraph in record.paragraphs.iter().flatten().filter(supporting) {
            let key = (&*paragraph.title, &*paragraph.text);
            let passage =
                self.by_title_and_text.get(&key).ok_or_else(|| paragraph.title.clone())?;
            gold.push(DocumentId::clone(passage));
        }
        gold.sort();
        gold.dedup();
        Ok(gold)
    }
}

fn read_questions(path: &Path, passages: &Passages<'_>) -> Result<Vec<EvalQuestion>, Error> {
    let mut questions = Vec::new();
    for record in Records::<QuestionRecord>::open(path)? {
        let record = record?;
        let (line, record) = (record.line, record.value);
        if record.supporting_facts.is_none() && record.paragraphs.is_none() {
            let problem = "expected `supporting_facts` or `paragraphs`";
            return Err(Error::malformed(path, line, problem));
        }
        let gold = passages.evidence(&record).map_err(|title| {
            let problem = format!("the supporting passage `{title}` is not in the corpus");
            Error::malformed(path, line, problem)
        })?;
        let id = record.id.unwrap_or_else(|| questions.len().to_string());
        let kind = record.kind.unwrap_or_else(|| kind_of(&id).to_owned());
        let references = references(record.answer, record.answer_aliases);
        questions.push(question(id, record.question, kind, gold, references));
    }
    Ok(questions)
}

/// Returns the type in the id of a question, where MuSiQue has it: `3hop1__...`.
fn kind_of(id: &str) -> &str {
    id.split_once("__").map_or("untyped", |(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Files, gold, ids};

    const CORPUS: &str = r#"[
        {"title":"Harbour","text":"Boats rest here."},
        {"title":"Lamp","text":"It shines at night."},
        {"title":"Lamp","text":"A novel."}
    ]"#;

    #[test]
    fn marked_paragraphs_are_found_by_title_and_text() {
        let questions = r#"[{"id":"2hop__1_2","question":"Where?","paragraphs":[
            {"idx":0,"title":"Lamp","paragraph_text":"A novel.","is_supporting":true},
            {"idx":1,"title":"Harbour","paragraph_text":"Boats rest here.","is_supporting":false}]}]"#;
        let files = Files::of(&[("port_corpus.json", CORPUS), ("port.json", questions)]);
        for path in [files.folder(), &files.path("port.json"), &files.path("port_corpus.json")] {
            let haystacks = files.read_at(path, "multihop", None, None).unwrap();
            assert_eq!(ids(&haystacks[0]), ["0", "1", "2"]);
            assert_eq!(gold(&haystacks[0], "2hop__1_2"), ["2"]);
            assert_eq!(haystacks[0].questions[0].kind, "2hop");
        }
    }

    #[test]
    fn supporting_facts_are_found_by_title_also_in_a_corpus_of_sentences() {
        let corpus = r#"{"Lamp":["It shines."," At night."],"Harbour":["Boats rest here."]}"#;
        let questions = r#"[{"_id":"x","question":"Where?","type":"bridge",
            "supporting_facts":[["Harbour",0],["Lamp",1],["Lamp",0]],"context":[]}]"#;
        let files = Files::of(&[("port_corpus.json", corpus), ("port.json", questions)]);
        let haystacks = files.read("multihop", None, None).unwrap();
        assert_eq!(haystacks[0].units[1].text, "It shines. At night.");
        assert_eq!(gold(&haystacks[0], "x"), ["0", "1"]);
    }

    #[test]
    fn questions_without_evidence_marks_and_foreign_passages_are_refused() {
        let cases = [
            (r#"[{"question":"Where?"}]"#, "supporting_facts"),
            (r#"[{"question":"Where?","supporting_facts":[["Mast",0]]}]"#, "Mast"),
        ];
        for (questions, problem) in cases {
            let files = Files::of(&[("port_corpus.json", CORPUS), ("port.json", questions)]);
            let error = files.read("multihop", None, None).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("line 1"), "{error}");
        }
    }

    #[test]
    fn a_folder_with_two_corpora_asks_which() {
        let files = Files::of(&[("a_corpus.json", CORPUS), ("b_corpus.json", CORPUS)]);
        let error = files.read("multihop", None, None).unwrap_err().to_string();
        assert!(error.contains("the path of one"), "{error}");
    }
}
