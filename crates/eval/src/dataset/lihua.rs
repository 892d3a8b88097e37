//! LiHua-World (MiniRAG, Fan et al. 2025): one year of chats of one person.
//!
//! Files: `docs.jsonl` `{doc_id, text}`, where a text is `Time: 20260105_11:00` and then lines
//! `Name: message`; `questions.jsonl` `{question_id, type, question, answer, evidence_doc_ids}`.
//! All questions are about all chats. Questions that no chat answers are left out of retrieval. In
//! the paper, a model judges the answers.

use std::collections::HashSet;
use std::path::Path;

use clew_core::{DocumentId, GradingRule, Judging, Timestamp};
use serde::Deserialize;

use super::answer::Answer;
use super::files::{first_of, folder_of};
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind, dates};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "lihua",
    units: &[UnitKind::Chat],
    splits: &[],
    has_evidence: true,
    open,
};

const CHATS: &str = "docs.jsonl";
const QUESTIONS: &str = "questions.jsonl";

#[derive(Deserialize)]
struct ChatRecord {
    doc_id: DocumentId,
    text: String,
}

#[derive(Deserialize)]
struct QuestionRecord {
    question_id: String,
    #[serde(rename = "type")]
    kind: String,
    question: String,
    answer: Option<Answer>,
    evidence_doc_ids: Vec<DocumentId>,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let folder = folder_of(source.path);
    let (Some(chats), Some(questions)) =
        (first_of(folder, &[CHATS]), first_of(folder, &[QUESTIONS]))
    else {
        let expected = format!("`{CHATS}` and `{QUESTIONS}`");
        return Err(source.unknown_layout(FORMAT.name, expected));
    };
    Ok(Box::new(std::iter::once_with(move || {
        let units = read_chats(&chats)?;
        let questions = read_questions(&questions, &units)?;
        Ok(Haystack::new(FORMAT.name.to_owned(), units, questions))
    })))
}

fn read_chats(path: &Path) -> Result<Vec<Unit>, Error> {
    let mut units = Vec::new();
    let mut ids = HashSet::new();
    for record in Records::<ChatRecord>::open(path)? {
        let record = record?;
        let ChatRecord { doc_id, text } = record.value;
        if !ids.insert(doc_id.clone()) {
            let problem = format!("`doc_id` {doc_id} occurs twice");
            return Err(Error::malformed(path, record.line, problem));
        }
        units.push(Unit {
            id: doc_id,
            title: String::new(),
            event_time: time_of(&text),
            text,
            said: Vec::new(),
        });
    }
    Ok(units)
}

fn time_of(text: &str) -> Option<Timestamp> {
    dates::compact(text.lines().next()?.strip_prefix("Time:")?.trim())
}

fn read_questions(path: &Path, units: &[Unit]) -> Result<Vec<EvalQuestion>, Error> {
    let known: HashSet<_> = units.iter().map(|unit| &unit.id).collect();
    Records::<QuestionRecord>::open(path)?
        .map(|record| {
            let QuestionRecord { question_id, kind, question, answer, evidence_doc_ids } =
                record?.value;
            let mut gold = evidence_doc_ids;
            gold.retain(|id| known.contains(id));
            gold.sort();
            gold.dedup();
            Ok(EvalQuestion {
                id: question_id,
                text: question,
                is_abstention: kind == "Null",
                kind,
                groups: vec!["all".to_owned()],
                gold,
                asked_at: None,
                references: answer.and_then(Answer::into_text).into_iter().collect(),
                scoring: Scoring::Judged(Judging::Grade(GradingRule::Complete)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids};

    const DOCS: &str = concat!(
        r#"{"doc_id":"20300102_0900","text":"Time: 20300102_09:00\nAda: The kettle is broken."}"#,
        "\n",
        r#"{"doc_id":"20300103","text":"Bo: I bought a new one."}"#,
    );

    fn question(id: &str, kind: &str, evidence: &str) -> String {
        format!(
            r#"{{"question_id":"{id}","type":"{kind}","question":"Which?","answer":"The new one","evidence_doc_ids":[{evidence}]}}"#
        )
    }

    #[test]
    fn chats_are_units_and_unanswerable_questions_are_left_out() {
        let questions = [
            question("q1", "Single", r#""20300103""#),
            question("q2", "Multi", r#""20300103","20300102_0900","20300103""#),
            question("q3", "Null", ""),
        ]
        .join("\n");
        let files = Files::of(&[("docs.jsonl", DOCS), ("questions.jsonl", &questions)]);
        for path in [files.folder(), &files.path("questions.jsonl")] {
            let haystacks = files.read_at(path, "lihua", None, None).unwrap();
            let [haystack] = &haystacks[..] else { panic!("{haystacks:?}") };
            assert_eq!(ids(haystack), ["20300102_0900", "20300103"]);
            let times: Vec<_> = haystack.units.iter().map(|unit| unit.event_time).collect();
            assert_eq!(times, ["2030-01-02T09:00:00Z".parse().ok(), None]);
            assert_eq!(gold(haystack, "q1"), ["20300103"]);
            assert_eq!(gold(haystack, "q2"), ["20300102_0900", "20300103"]);
            assert_eq!((haystack.questions.len(), haystack.without_evidence.len()), (2, 1));
            let abstention = haystack.answerable().last().unwrap();
            assert!(abstention.is_abstention && abstention.has_answer());
        }
    }

    #[test]
    fn a_chat_that_occurs_twice_is_refused() {
        let files =
            Files::of(&[("docs.jsonl", &format!("{DOCS}\n{DOCS}")), ("questions.jsonl", "")]);
        let error = files.read("lihua", None, None).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("twice"), "{error}");
    }
}
