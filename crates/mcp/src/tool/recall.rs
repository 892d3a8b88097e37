//! `recall`: returns what a user said that bears on a question.

use clew_core::{Clock, CorpusName, Error, SystemClock};
use clew_proto::chat::v1::{RecallRequest, RecalledItem, Role, Superseded, Turn};
use clew_proto::convert::timestamp_to_wire;
use serde::Deserialize;
use serde_json::{Value, json};

use super::remember::DEFAULT_USER;
use super::told;
use crate::caller::Caller;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    question: String,
    user: Option<String>,
    k: Option<u32>,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let corpus = caller.corpus(named).await?;
    let request = RecallRequest {
        corpus: corpus.to_string(),
        user: arguments.user.unwrap_or_else(|| DEFAULT_USER.to_owned()),
        question: arguments.question,
        asked_at: Some(timestamp_to_wire(SystemClock.now())),
        k: arguments.k,
        ..RecallRequest::default()
    };
    let recalled = caller.chats().recall(caller.request(request)).await;
    let recalled = recalled.map_err(|status| caller.failed(&status))?.into_inner();
    Ok(json!({ "rounds": recalled.items.iter().map(round).collect::<Vec<_>>() }))
}

fn round(item: &RecalledItem) -> Value {
    json!({
        "session": item.session,
        "turns": item.turns.iter().map(turn).collect::<Vec<_>>(),
        "texts": item.texts,
        "superseded": item.superseded.iter().map(superseded).collect::<Vec<_>>(),
    })
}

fn turn(turn: &Turn) -> Value {
    let role = match turn.role() {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Unspecified => "other",
    };
    json!({
        "role": role,
        "speaker": turn.speaker,
        "time": told::time(turn.time.as_ref()),
        "text": turn.text,
    })
}

fn superseded(superseded: &Superseded) -> Value {
    let (older, newer) = (superseded.older.as_ref(), superseded.newer.as_ref());
    json!({
        "older": older.map(|older| older.text.as_str()).unwrap_or_default(),
        "newer": newer.map(|newer| newer.text.as_str()).unwrap_or_default(),
        "newer_time": told::time(newer.and_then(|newer| newer.time.as_ref())),
    })
}

#[cfg(test)]
mod tests {
    use clew_proto::chat::v1::Statement;

    use super::*;

    #[test]
    fn a_round_says_when_what_was_said_and_what_no_longer_holds() {
        let day = |day: i64| Some(clew_proto::Timestamp { seconds: day * 86_400, nanos: 0 });
        let statement = |text: &str, time| {
            Some(Statement { text: text.to_owned(), time, ..Statement::default() })
        };
        let item = RecalledItem {
            session: "monday".to_owned(),
            turns: vec![Turn {
                role: Role::User.into(),
                text: "I live in Rome.".to_owned(),
                time: day(1),
                ..Turn::default()
            }],
            superseded: vec![Superseded {
                older: statement("I live in Rome.", day(1)),
                newer: statement("I live in Oslo.", day(2)),
            }],
            ..RecalledItem::default()
        };
        let expected = json!({
            "session": "monday",
            "turns": [{
                "role": "user",
                "speaker": "",
                "time": "1970-01-02T00:00:00Z",
                "text": "I live in Rome.",
            }],
            "texts": [],
            "superseded": [{
                "older": "I live in Rome.",
                "newer": "I live in Oslo.",
                "newer_time": "1970-01-03T00:00:00Z",
            }],
        });
        assert_eq!(round(&item), expected);
    }
}
