//! Measurement of updates on the LongMemEval and LoCoMo data in the folder that `CLEW_EVAL_DATA`
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::Value;

use clew_core::{Attributes, TurnId};

use super::*;

/// A question with all turns before it.
struct Asked {
    id: String,
    kind: String,
    turns: Vec<Turn>,
    /// The turns that contain its answer.
    answers: BTreeSet<TurnId>,
}

/// Returns the questions of the oracle file.
fn oracle() -> Vec<Asked> {
    let records = unzipped("longmemeval/oracle.jsonl.gz");
    let sessions = |record: &Value| record["haystack_sessions"].as_array().unwrap().clone();
    records.iter().map(|record| question(record, &sessions(record))).collect()
}

/// Returns the questions with their whole haystacks.
fn haystacks() -> Vec<Asked> {
    let sessions = unzipped("longmemeval/s_sessions.jsonl.gz");
    let sessions: BTreeMap<&str, &Value> = sessions
        .iter()
        .map(|session| (session["session_id"].as_str().unwrap(), &session["turns"]))
        .collect();
    let records = std::fs::read_to_string(path("longmemeval/s_questions.jsonl")).unwrap();
    let asked = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let ids = record["haystack_session_ids"].as_array().unwrap().iter();
        let said: Vec<Value> = ids.map(|id| sessions[id.as_str().unwrap()].clone()).collect();
        question(&record, &said)
    };
    records.lines().map(asked).collect()
}

fn unzipped(file: &str) -> Vec<Value> {
    let mut lines = String::new();
    let file = std::fs::File::open(path(file)).unwrap();
    GzDecoder::new(file).read_to_string(&mut lines).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn path(file: &str) -> PathBuf {
    let data = std::env::var("CLEW_EVAL_DATA").expect("CLEW_EVAL_DATA names a folder");
    PathBuf::from(data).join(file)
}

/// Returns the turns of each conversation of LoCoMo. Sessions get artificial times, a week apart.
fn conversations() -> Vec<Vec<Turn>> {
    let text = std::fs::read_to_string(path("locomo/locomo.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let of = |record: &Value| {
        let sessions = (1..).map_while(|number| {
            let turns = record["conversation"][format!("session_{number}")].as_array()?.clone();
            Some((number, turns))
        });
        let turns = sessions.flat_map(|(session, turns)| {
            (0..).zip(turns).map(move |(number, turn)| Turn {
                id: TurnId { session: format!("s{session:03}").parse().unwrap(), number },
                role: SpeakerRole::Other,
                speaker: turn["speaker"].as_str().unwrap().to_owned(),
                text: turn["text"].as_str().unwrap().to_owned(),
                time: Some(Timestamp::from_micros(session * 604_800_000_000)),
                attributes: Attributes::new(),
            })
        });
        turns.collect()
    };
    all.as_array().unwrap().iter().map(of).collect()
}

#[test]
#[ignore = "needs CLEW_EVAL_DATA"]
fn updates_of_locomo() {
    for turns in conversations() {
        let all: Vec<Statement> = turns.iter().flat_map(statements).collect();
        let updates = updates(all.clone());
        println!("{} turns, {} statements, {} links", turns.len(), all.len(), updates.len());
        for update in updates {
            println!("    {}\n    {}\n", update.older.text, update.newer.text);
        }
    }
}

fn question(record: &Value, sessions: &[Value]) -> Asked {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dates = record["haystack_dates"].as_array().unwrap().iter();
    let (mut turns, mut answers) = (Vec::new(), BTreeSet::new());
    for (session, (said, date)) in (0..).zip(sessions.iter().zip(dates)) {
        let _: usize = session;
        for (number, turn) in (0..).zip(said.as_array().unwrap()) {
            let id = TurnId { session: format!("s{session:03}").parse().unwrap(), number };
            if turn["has_answer"] == true {
                answers.insert(id.clone());
            }
            let role =
                if turn["role"] == "user" { SpeakerRole::User } else { SpeakerRole::Assistant };
            let (speaker, time) = (String::new(), Some(time(&text(date))));
            let (text, attributes) = (text(&turn["content"]), Attributes::new());
            turns.push(Turn { id, role, speaker, text, time, attributes });
        }
    }
    Asked { id: text(&record["question_id"]), kind: text(&record["question_type"]), turns, answers }
}

/// Parses a time such as `2023/05/20 (Sat) 02:21`.
fn time(date: &str) -> Timestamp {
    let (day, clock) = date.split_once(" (").unwrap();
    let clock = clock.split_once(") ").unwrap().1;
    format!("{}T{clock}:00Z", day.replace('/', "-")).parse().unwrap()
}

/// Prints the number of questions with links between their evidence, and the number of links.
#[test]
#[ignore = "needs CLEW_EVAL_DATA"]
fn updates_of_longmemeval() {
    measure(oracle());
}

#[test]
#[ignore = "needs CLEW_EVAL_DATA"]
fn updates_of_whole_haystacks() {
    measure(haystacks());
}

fn measure(all: Vec<Asked>) {
    let is_shown = std::env::var_os("CLEW_EVAL_SHOW").is_some();
    let mut linked: BTreeMap<String, (usize, usize, usize, usize)> = BTreeMap::new();
    for asked in all {
        let all: Vec<Statement> = asked.turns.iter().flat_map(statements).collect();
        let updates = updates(all.clone());
        let holds = |turn: &TurnId| asked.answers.contains(turn);
        let is_right = |update: &Update| holds(&update.older.turn) && holds(&update.newer.turn);
        let count = linked.entry(asked.kind.clone()).or_default();
        count.0 += 1;
        count.1 += all.len();
        count.2 += usize::from(updates.iter().any(is_right));
        count.3 += updates.len();
        for update in updates.iter().filter(|_| is_shown) {
            let mark = if is_right(update) { "+" } else { " " };
            println!(
                "{mark} {} {}\n    {}\n    {}",
                asked.kind, asked.id, update.older.text, update.newer.text
            );
        }
    }
    for (kind, (questions, statements, right, links)) in linked {
        println!(
            "{kind}: {questions} questions, {statements} statements, {links} links, {right} questions with a link between turns of the answer"
        );
    }
}
