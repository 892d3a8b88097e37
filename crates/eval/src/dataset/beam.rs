//! BEAM (Tavakoli et al., ICLR 2026): user-assistant chats of a hundred thousand to ten million
//! tokens.
//!
//! Files: `questions.jsonl` `{question_id, conversation_id, type, question, answer, rubric,
//! evidence_message_ids}` and for each conversation `<conversation_id>.messages.jsonl` `{id, batch,
//! role, time_anchor, content}`. Each conversation is a haystack. Its id begins with its size, such
//! as `100K-7`; the size is a split and, if all are read together, a group of the report. Evidence
//! that names no message of the conversation is dropped; questions without evidence, such as all
//! abstention questions, are left out of retrieval.
//!
//! Answers are judged by the points of the rubric, each of which counts as met, half met or not
//! met. BEAM's own script drops the halves except for event ordering, for which it reports the
//! order instead. Here the halves count, and no order is scored.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use clew_chat::rounds;
use clew_core::{Attributes, DocumentId, GradingRule, Judging, SpeakerRole, Turn, TurnId};
use serde::Deserialize;

use super::answer::Answer;
use super::files::{first_of, folder_of};
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind, dates};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "beam",
    units: &[UnitKind::Round, UnitKind::Turn],
    splits: &["100K", "500K", "1M", "10M"],
    has_evidence: true,
    open,
};

const QUESTIONS: &str = "questions.jsonl";
const MESSAGES_ENDING: &str = ".messages.jsonl";

/// Mark that the generator of the chats left at the end of some messages, before two numbers.
const GENERATOR_MARK: &str = "->->";

#[derive(Deserialize)]
struct QuestionRecord {
    question_id: String,
    conversation_id: String,
    #[serde(rename = "type")]
    kind: String,
    question: String,
    answer: Option<Answer>,
    rubric: Option<Vec<String>>,
    evidence_message_ids: Vec<u64>,
}

#[derive(Deserialize)]
struct MessageRecord {
    id: u64,
    /// Number of the batch, which comes closest to a session.
    #[serde(default)]
    batch: u32,
    role: String,
    time_anchor: Option<String>,
    content: String,
}

/// Conversation with its questions, before its messages are read.
struct Conversation {
    id: String,
    messages: PathBuf,
    questions: Vec<QuestionRecord>,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let folder = folder_of(source.path);
    let unknown_layout = |expected| source.unknown_layout(FORMAT.name, expected);
    let file = first_of(folder, &[QUESTIONS])
        .ok_or_else(|| unknown_layout(format!("`{QUESTIONS}` and `*{MESSAGES_ENDING}`")))?;
    let mut conversations: Vec<Conversation> = Vec::new();
    for record in Records::<QuestionRecord>::open(&file)? {
        let record = record?.value;
        if source.split.is_some_and(|split| split != size_of(&record.conversation_id)) {
            continue;
        }
        if let Some(known) = conversations.iter_mut().find(|c| c.id == record.conversation_id) {
            known.questions.push(record);
            continue;
        }
        let name = format!("{}{MESSAGES_ENDING}", record.conversation_id);
        let messages =
            first_of(folder, &[&name]).ok_or_else(|| unknown_layout(format!("`{name}`")))?;
        let id = record.conversation_id.clone();
        conversations.push(Conversation { id, messages, questions: vec![record] });
    }
    if conversations.is_empty() {
        let size = source.split.unwrap_or("any size");
        return Err(unknown_layout(format!("questions on conversations of {size}")));
    }
    let unit = source.unit;
    Ok(Box::new(conversations.into_iter().map(move |conversation| haystack(conversation, unit))))
}

/// Returns the size in the id of a conversation: `100K` for `100K-7`.
fn size_of(conversation_id: &str) -> &str {
    conversation_id.split('-').next().unwrap_or(conversation_id)
}

fn haystack(conversation: Conversation, unit: UnitKind) -> Result<Haystack, Error> {
    let messages = read_messages(&conversation.messages)?;
    let turns = messages.iter().map(|message| message.turn.clone());
    let mut parts: Vec<Vec<Turn>> = match unit {
        UnitKind::Round => rounds(turns).into_iter().map(|round| round.turns).collect(),
        UnitKind::Turn
        | UnitKind::Passage
        | UnitKind::Chat
        | UnitKind::Session
        | UnitKind::SessionAll
        | UnitKind::Document => turns.map(|turn| vec![turn]).collect(),
    };
    parts.sort_by_key(|part| part[0].id.number);
    let mut units = Vec::new();
    let mut part_of = HashMap::new();
    for (index, said) in parts.into_iter().enumerate() {
        let ids: Vec<u64> = said.iter().map(|turn| messages[turn.id.number as usize].id).collect();
        part_of.extend(ids.iter().map(|id| (*id, index)));
        let texts: Vec<_> = said.iter().map(|turn| turn.text.as_str()).collect();
        units.push(Unit {
            id: message_id(ids[0]),
            title: String::new(),
            text: texts.join("\n"),
            event_time: said[0].time,
            said,
        });
    }
    let size = size_of(&conversation.id);
    let questions = conversation.questions.into_iter().map(|record| {
        let evidence = record.evidence_message_ids.iter();
        let parts: BTreeSet<_> = evidence.filter_map(|id| part_of.get(id).copied()).collect();
        EvalQuestion {
            id: record.question_id,
            text: record.question,
            is_abstention: record.kind == "abstention",
            kind: record.kind,
            groups: vec!["all".to_owned(), size.to_owned()],
            gold: parts.into_iter().map(|part| units[part].id.clone()).collect(),
            asked_at: None,
            references: record.answer.and_then(Answer::into_text).into_iter().collect(),
            scoring: Scoring::Judged(match record.rubric {
                Some(rubric) if !rubric.is_empty() => Judging::Nuggets(rubric),
                _ => Judging::Grade(GradingRule::Complete),
            }),
        }
    });
    let questions = questions.collect();
    Ok(Haystack::new(conversation.id, units, questions))
}

struct Message {
    id: u64,
    /// Turn of the message. Its number is that of the message in the file, from 0. Its time is the
    /// last anchor so far: the chats have one where a new period begins.
    turn: Turn,
}

fn read_messages(path: &Path) -> Result<Vec<Message>, Error> {
    let mut messages: Vec<Message> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut time = None;
    for record in Records::<MessageRecord>::open(path)? {
        let record = record?;
        let MessageRecord { id, batch, role, time_anchor, content } = record.value;
        if !ids.insert(id) {
            return Err(Error::malformed(path, record.line, format!("`id` {id} occurs twice")));
        }
        time = time_anchor.as_deref().and_then(dates::dashed).or(time);
        let number = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let turn = Turn {
            id: TurnId { session: batch_id(batch), number },
            speaker: String::new(),
            role: if role == "user" { SpeakerRole::User } else { SpeakerRole::Assistant },
            text: without_mark(&content).to_owned(),
            time,
            attributes: Attributes::new(),
        };
        messages.push(Message { id, turn });
    }
    Ok(messages)
}

fn without_mark(content: &str) -> &str {
    match content.rsplit_once(GENERATOR_MARK) {
        Some((text, mark))
            if mark.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '\n')) =>
        {
            text.trim_end()
        }
        _ => content,
    }
}

fn batch_id(batch: u32) -> DocumentId {
    format!("batch-{batch}").parse().expect("letters and digits are a valid document id")
}

/// Returns the id of the unit whose first message has this id.
fn message_id(id: u64) -> DocumentId {
    format!("m{id}").parse().expect("letters and digits are a valid document id")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids, texts};
    use super::*;

    const MESSAGES: &str = r#"
        {"id":4,"batch":1,"role":"user","time_anchor":"May-02-2030","content":"I fly kites. ->-> 1,1"}
        {"id":5,"batch":1,"role":"assistant","time_anchor":null,"content":"High?"}
        {"id":6,"batch":2,"role":"user","time_anchor":"one day","content":"Very ->-> high."}
        {"id":7,"batch":2,"role":"assistant","content":"I see."}"#;

    fn question(id: &str, conversation: &str, kind: &str, evidence: &str) -> String {
        format!(
            r#"{{"question_id":"{id}","conversation_id":"{conversation}","type":"{kind}","question":"How high?","answer":"Very.","rubric":["says: very"],"evidence_message_ids":[{evidence}],"original":{{}}}}"#
        )
    }

    fn files() -> Files {
        let questions = [
            question("q1", "100K-1", "summarization", "7,6,4,99"),
            question("q2", "500K-1", "summarization", "5"),
            question("q3", "100K-1", "abstention", ""),
        ];
        Files::of(&[
            ("questions.jsonl", &questions.join("\n")),
            ("100K-1.messages.jsonl", MESSAGES),
            ("500K-1.messages.jsonl.gz", MESSAGES),
        ])
    }

    #[test]
    fn rounds_begin_with_the_user_and_lose_the_generator_mark() {
        let haystacks = files().read("beam", None, None).unwrap();
        let names: Vec<_> = haystacks.iter().map(|haystack| &*haystack.name).collect();
        assert_eq!(names, ["100K-1", "500K-1"]);
        assert_eq!(ids(&haystacks[0]), ["m4", "m6"]);
        assert_eq!(texts(&haystacks[0]), ["I fly kites.\nHigh?", "Very ->-> high.\nI see."]);
        assert_eq!(haystacks[0].units[1].event_time, "2030-05-02".parse().ok());
        assert_eq!(gold(&haystacks[0], "q1"), ["m4", "m6"]);
        assert_eq!(gold(&haystacks[1], "q2"), ["m4"]);
        assert_eq!((haystacks[0].questions.len(), haystacks[0].without_evidence.len()), (1, 1));
        assert_eq!(haystacks[1].questions[0].groups, ["all", "500K"]);
        let asked: Vec<_> = haystacks[0].answerable().map(|question| &*question.id).collect();
        assert_eq!(asked, ["q1", "q3"]);
        let rubric = vec!["says: very".to_owned()];
        assert_eq!(haystacks[0].questions[0].scoring, Scoring::Judged(Judging::Nuggets(rubric)));
    }

    #[test]
    fn turns_are_single_messages() {
        let haystacks = files().read("beam", Some("turn"), Some("500K")).unwrap();
        let [haystack] = &haystacks[..] else { panic!("{haystacks:?}") };
        assert_eq!(ids(haystack), ["m4", "m5", "m6", "m7"]);
        assert_eq!(gold(haystack, "q2"), ["m5"]);
    }

    #[test]
    fn missing_and_broken_conversations_are_refused() {
        let questions = question("q1", "1M-2", "summarization", "1");
        let files = Files::of(&[("questions.jsonl", &questions)]);
        let error = files.read("beam", None, None).unwrap_err().to_string();
        assert!(error.contains("1M-2.messages.jsonl"), "{error}");

        let error = files.read("beam", None, Some("10M")).unwrap_err().to_string();
        assert!(error.contains("conversations of 10M"), "{error}");

        let twice = format!("{MESSAGES}{MESSAGES}");
        let files = Files::of(&[("questions.jsonl", &questions), ("1M-2.messages.jsonl", &twice)]);
        let error = files.read("beam", None, None).unwrap_err().to_string();
        assert!(error.contains("line 6") && error.contains("twice"), "{error}");
    }
}
