//! LoCoMo (Maharana et al., ACL 2024): long chats of two people over many sessions.
//!
//! File: `locomo.json` or the authors' `locomo10.json`, an array of conversations `{sample_id,
//! conversation: {session_<n>: [turn], session_<n>_date_time}, qa: [{question, answer, evidence,
//! category}]}`. Each conversation is a haystack. Evidence names turns as `D<session>:<turn>`. Some
//! evidence is malformed (several names in one string, a missing number, a turn that does not
//! exist), so everything that reads as such a name is taken, and names of no turn are dropped.
//!
//! Answers are scored as in the authors' `task_eval/evaluation.py`: multi-hop answers by their
//! parts, and open-domain answers, which have a reason after a semicolon, by the text before it.
//! Adversarial questions have no answer; that in `adversarial_answer` is wrong.

use std::collections::BTreeMap;

use clew_core::{Attributes, DocumentId, SpeakerRole, Timestamp, Turn, TurnId};
use serde::Deserialize;
use serde_json::Value;

use super::answer::Answer;
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind, dates};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "locomo",
    units: &[UnitKind::Turn, UnitKind::Session],
    splits: &[],
    has_evidence: true,
    open,
};

const FILES: [&str; 2] = ["locomo.json", "locomo10.json"];

/// Names of the categories 1 to 5, in this order. The last has questions whose right answer is that
/// it was never said.
const CATEGORIES: [&str; 5] = [MULTI_HOP, "temporal", OPEN_DOMAIN, "single-hop", ADVERSARIAL];
const MULTI_HOP: &str = "multi-hop";
const OPEN_DOMAIN: &str = "open-domain";
const ADVERSARIAL: &str = "adversarial";
const WITHOUT_ADVERSARIAL: &str = "without-adversarial";

#[derive(Deserialize)]
struct ConversationRecord {
    sample_id: String,
    /// Sessions and their dates by name, among other keys.
    conversation: BTreeMap<String, Value>,
    qa: Vec<QuestionRecord>,
}

#[derive(Deserialize)]
struct QuestionRecord {
    question: String,
    answer: Option<Answer>,
    evidence: Vec<String>,
    category: usize,
}

#[derive(Deserialize)]
struct TurnRecord {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

/// Session and number of a turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TurnName {
    session: u32,
    turn: u32,
}

struct Session {
    number: u32,
    time: Option<Timestamp>,
    turns: Vec<(TurnName, Turn)>,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let file = source.file(FORMAT.name, &FILES)?;
    let unit = source.unit;
    let records = Records::<ConversationRecord>::open(&file)?;
    Ok(Box::new(records.map(move |record| {
        let record = record?;
        haystack(record.value, unit)
            .map_err(|problem| Error::malformed(&file, record.line, problem))
    })))
}

fn haystack(record: ConversationRecord, unit: UnitKind) -> Result<Haystack, String> {
    let sessions = read_sessions(&record.conversation)?;
    let mut session_of = BTreeMap::new();
    for session in &sessions {
        for (name, _) in &session.turns {
            if session_of.insert(*name, session.number).is_some() {
                return Err(format!("the turn {} occurs twice", turn_id(*name)));
            }
        }
    }
    let mut questions = Vec::new();
    for (index, qa) in record.qa.into_iter().enumerate() {
        let kind = *qa
            .category
            .checked_sub(1)
            .and_then(|index| CATEGORIES.get(index))
            .ok_or_else(|| format!("expected `category` 1 to 5, got {}", qa.category))?;
        let unit_of = |turn| {
            let session = *session_of.get(&turn)?;
            Some(if unit == UnitKind::Session { session_id(session) } else { turn_id(turn) })
        };
        let turns = qa.evidence.iter().flat_map(|text| turn_names(text));
        let mut gold: Vec<_> = turns.filter_map(unit_of).collect();
        gold.sort();
        gold.dedup();
        let is_abstention = kind == ADVERSARIAL;
        let groups = if is_abstention { &["all"][..] } else { &["all", WITHOUT_ADVERSARIAL] };
        questions.push(EvalQuestion {
            id: format!("{}_qa{index}", record.sample_id),
            text: qa.question,
            kind: kind.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            gold,
            asked_at: None,
            is_abstention,
            references: references(kind, qa.answer),
            scoring: if kind == MULTI_HOP { Scoring::LocomoSubAnswers } else { Scoring::Locomo },
        });
    }
    let units = sessions.into_iter().flat_map(|session| units_of(session, unit)).collect();
    Ok(Haystack::new(record.sample_id, units, questions))
}

fn references(kind: &str, answer: Option<Answer>) -> Vec<String> {
    let answer = answer.and_then(Answer::into_text).filter(|_| kind != ADVERSARIAL);
    let scored = |answer: String| match answer.split_once(';') {
        Some((said, _)) if kind == OPEN_DOMAIN => said.trim().to_owned(),
        _ => answer,
    };
    answer.map(scored).into_iter().collect()
}

fn read_sessions(conversation: &BTreeMap<String, Value>) -> Result<Vec<Session>, String> {
    let mut sessions = Vec::new();
    for (key, value) in conversation {
        let Some(number) = key.strip_prefix("session_").and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let records = Vec::<TurnRecord>::deserialize(value)
            .map_err(|error| format!("`conversation.{key}`: {error}"))?;
        let date_key = format!("{key}_date_time");
        let time = conversation
            .get(&date_key)
            .map(|date| {
                date.as_str().and_then(dates::spoken).ok_or_else(|| {
                    format!(
                        "`conversation.{date_key}`: expected `1:56 pm on 8 May, 2023`, got {date}"
                    )
                })
            })
            .transpose()?;
        let turns = records.into_iter().map(|record| read_turn(record, number, time));
        let turns = turns.collect::<Result<_, _>>()?;
        sessions.push(Session { number, time, turns });
    }
    sessions.sort_by_key(|session| session.number);
    Ok(sessions)
}

fn read_turn(
    record: TurnRecord,
    session: u32,
    time: Option<Timestamp>,
) -> Result<(TurnName, Turn), String> {
    let TurnRecord { speaker, dia_id, text, blip_caption } = record;
    let name = turn_names(&dia_id)
        .next()
        .ok_or_else(|| format!("expected `dia_id` such as `D1:3`, got `{dia_id}`"))?;
    let text = match blip_caption {
        Some(caption) => format!("{text} [shares {caption}]"),
        None => text,
    };
    let id = TurnId { session: session_id(session), number: name.turn };
    Ok((
        name,
        Turn { id, speaker, role: SpeakerRole::Other, text, time, attributes: Attributes::new() },
    ))
}

fn units_of(session: Session, unit: UnitKind) -> Vec<Unit> {
    let event_time = session.time;
    let cut = |id, said: Vec<Turn>| {
        let lines: Vec<_> = said.iter().map(Turn::line).collect();
        Unit { id, title: String::new(), text: lines.join("\n"), event_time, said }
    };
    if unit == UnitKind::Session {
        let turns = session.turns.into_iter().map(|(_, turn)| turn);
        return vec![cut(session_id(session.number), turns.collect())];
    }
    session.turns.into_iter().map(|(name, turn)| cut(turn_id(name), vec![turn])).collect()
}

fn session_id(number: u32) -> DocumentId {
    format!("D{number}").parse().expect("letters and digits are a valid document id")
}

fn turn_id(TurnName { session, turn }: TurnName) -> DocumentId {
    format!("D{session}:{turn}").parse().expect("letters and digits are a valid document id")
}

/// Returns everything in `text` that matches `D:?(\d+):(\d+)`.
fn turn_names(text: &str) -> impl Iterator<Item = TurnName> {
    text.split('D').skip(1).filter_map(|rest| {
        let (session, rest) = rest.strip_prefix(':').unwrap_or(rest).split_once(':')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_number = session.bytes().all(|byte| byte.is_ascii_digit());
        let session = session.parse().ok().filter(|_| is_number)?;
        Some(TurnName { session, turn: rest[..digits].parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids, texts};
    use super::*;

    const CHAT: &str = r#"[{"sample_id":"chat-1","conversation":{
        "speaker_a":"Ada","speaker_b":"Bo",
        "session_10":[{"speaker":"Ada","dia_id":"D10:1","text":"Back again."}],
        "session_10_date_time":"9:15 am on 2 January, 2030",
        "session_2":[
            {"speaker":"Ada","dia_id":"D2:1","text":"I keep bees."},
            {"speaker":"Bo","dia_id":"D2:2","text":"Look!","blip_caption":"a hive","query":"hive"}],
        "session_2_date_time":"1:05 pm on 1 January, 2030",
        "session_11_date_time":"1:05 pm on 3 January, 2030"},
      "qa":[
        {"question":"What does Ada keep?","answer":"bees","evidence":["D2:1","D2:2"],"category":1},
        {"question":"When?","answer":2030,"evidence":["D10:01; D:2:2"],"category":2},
        {"question":"Who?","answer":"?","evidence":["D","D3:1"],"category":4},
        {"question":"Wasps?","adversarial_answer":"yes","evidence":["D2:1"],"category":5}]}]"#;

    #[test]
    fn turns_carry_their_speaker_and_what_they_share() {
        let files = Files::of(&[("locomo10.json", CHAT)]);
        let haystacks = files.read("locomo", None, None).unwrap();
        let [haystack] = &haystacks[..] else { panic!("{haystacks:?}") };
        assert_eq!(haystack.name, "chat-1");
        assert_eq!(ids(haystack), ["D2:1", "D2:2", "D10:1"]);
        assert_eq!(haystack.units[1].text, "Bo: Look! [shares a hive]");
        assert_eq!(haystack.units[2].event_time, "2030-01-02T09:15:00Z".parse().ok());
        assert_eq!(gold(haystack, "chat-1_qa0"), ["D2:1", "D2:2"]);
        assert_eq!(gold(haystack, "chat-1_qa1"), ["D10:1", "D2:2"]);
        assert_eq!((haystack.questions.len(), haystack.without_evidence.len()), (3, 1));
    }

    #[test]
    fn sessions_are_whole_and_in_order() {
        let files = Files::of(&[("locomo.json", CHAT)]);
        let haystack = files.read("locomo", Some("session"), None).unwrap().remove(0);
        assert_eq!(ids(&haystack), ["D2", "D10"]);
        assert_eq!(texts(&haystack)[0], "Ada: I keep bees.\nBo: Look! [shares a hive]");
        assert_eq!(gold(&haystack, "chat-1_qa0"), ["D2"]);
        assert_eq!(gold(&haystack, "chat-1_qa1"), ["D10", "D2"]);
    }

    #[test]
    fn adversarial_questions_count_in_all_but_can_be_told_apart() {
        let files = Files::of(&[("locomo.json", CHAT)]);
        let haystack = files.read("locomo", None, None).unwrap().remove(0);
        let [hop, _, adversarial] = &haystack.questions[..] else { panic!("{haystack:?}") };
        assert_eq!(
            (&*hop.kind, &hop.groups[..]),
            ("multi-hop", &["all", "without-adversarial"].map(str::to_owned)[..])
        );
        assert_eq!((&*adversarial.kind, adversarial.groups.len()), (ADVERSARIAL, 1));
        assert!(adversarial.is_abstention && !hop.is_abstention);
    }

    #[test]
    fn answers_are_scored_by_category() {
        let chat = CHAT.replace(r#""answer":"?""#, r#""answer":"Bo; he said so""#);
        let chat = chat.replace(r#""category":4"#, r#""category":3"#);
        let files = Files::of(&[("locomo.json", &chat)]);
        let haystack = files.read("locomo", None, None).unwrap().remove(0);
        let answers: Vec<_> = haystack
            .answerable()
            .map(|question| (&*question.kind, question.references.join("|"), &question.scoring))
            .collect();
        let expected = [
            ("multi-hop", "bees", Scoring::LocomoSubAnswers),
            ("temporal", "2030", Scoring::Locomo),
            ("adversarial", "", Scoring::Locomo),
            ("open-domain", "Bo", Scoring::Locomo),
        ];
        for (answer, (kind, reference, scoring)) in answers.iter().zip(&expected) {
            assert_eq!((answer.0, &*answer.1, answer.2), (*kind, *reference, scoring));
        }
        assert_eq!(answers.len(), expected.len());
    }

    #[test]
    fn whatever_reads_as_the_name_of_a_turn_is_taken() {
        let cases: [(&str, &[(u32, u32)]); 7] = [
            ("D1:3", &[(1, 3)]),
            ("D8:6; D9:17", &[(8, 6), (9, 17)]),
            ("D9:1 D4:4", &[(9, 1), (4, 4)]),
            ("D:11:26", &[(11, 26)]),
            ("D30:05", &[(30, 5)]),
            ("D", &[]),
            ("D1 :2, D+1:2, D1:, 1:2, D99999999999:1", &[]),
        ];
        for (text, expected) in cases {
            let names: Vec<_> = turn_names(text).map(|name| (name.session, name.turn)).collect();
            assert_eq!(names, expected, "{text}");
        }
    }

    #[test]
    fn broken_conversations_are_refused_by_field() {
        let cases = [
            (r#""category":1"#, r#""category":9"#, "category"),
            (r#""dia_id":"D2:2""#, r#""dia_id":"D2:1""#, "occurs twice"),
            (r#""dia_id":"D2:2""#, r#""dia_id":"two""#, "dia_id"),
            ("1:05 pm on 1 January", "noon", "session_2_date_time"),
            (r#""text":"Back again.""#, r#""words":"Back again.""#, "session_10"),
            (r#""sample_id":"chat-1","#, "", "sample_id"),
        ];
        for (good, bad, field) in cases {
            let files = Files::of(&[("locomo.json", &CHAT.replacen(good, bad, 1))]);
            let error = files.read("locomo", None, None).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{bad}: {error:?}");
            assert!(error.to_string().contains(field), "{bad}: {error}");
        }
    }
}
