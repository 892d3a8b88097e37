//! `clew.chat.v1` and domain values.

use std::collections::HashSet;

use clew_chat::{
    Address, History, Item, Recall, Recalled, Role, TimeUse, Turn, TurnId, Value, user_filter,
};
use clew_core::{CorpusName, DocumentId, Error, Limits, Query, Violations};

use crate::chat::v1 as wire;
use crate::convert::query::cost_to_wire;
use crate::convert::{corpus_name, document_id, optional_timestamp_from_wire, timestamp_to_wire};
use crate::query::v1 as query;

/// Most turns that are appended at once.
const MAX_TURNS: usize = 1_000;
/// Items where a request does not say, and the most there may be.
const ITEMS: (u32, u32) = (10, 100);

/// Turns that a session is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Corpus.
    pub corpus: CorpusName,
    /// Whose memory.
    pub user: String,
    /// The turns, of one session.
    pub turns: Vec<Turn>,
}

/// Turns from the wire.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming every field at fault.
pub fn append_from_wire(request: wire::AppendTurnsRequest) -> Result<Appended, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    Address::check("user", &request.user, &mut violations);
    Address::check("session", &request.session, &mut violations);
    if !(1..=MAX_TURNS).contains(&request.turns.len()) {
        let problem = format!("expected 1 to {MAX_TURNS}, got {}", request.turns.len());
        violations.push("turns", problem);
    }
    let session = violations.take(document_id("session", &request.session));
    let (mut turns, mut numbers) = (Vec::new(), HashSet::new());
    for (at, turn) in request.turns.into_iter().enumerate() {
        let field = format!("turns[{at}]");
        if !numbers.insert(turn.number) {
            violations.push(format!("{field}.number"), "expected each number once");
        }
        let Some(session) = &session else { continue };
        if let Some(turn) = turn_from_wire(&field, session, turn, &mut violations) {
            turn.check(&field, &mut violations);
            turns.push(turn);
        }
    }
    violations.into_result()?;
    match corpus {
        Some(corpus) => Ok(Appended { corpus, user: request.user, turns }),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Turns for the wire.
pub fn append_to_wire(appended: Appended) -> wire::AppendTurnsRequest {
    let session = appended.turns.first().map(|turn| turn.id.session.to_string());
    wire::AppendTurnsRequest {
        corpus: appended.corpus.to_string(),
        user: appended.user,
        session: session.unwrap_or_default(),
        turns: appended.turns.into_iter().map(turn_to_wire).collect(),
        without_waiting: false,
    }
}

fn turn_from_wire(
    field: &str,
    session: &DocumentId,
    turn: wire::Turn,
    violations: &mut Violations,
) -> Option<Turn> {
    let role = match wire::Role::try_from(turn.role) {
        Ok(wire::Role::Unspecified) => Role::Other,
        Ok(wire::Role::User) => Role::User,
        Ok(wire::Role::Assistant) => Role::Assistant,
        Err(_) => {
            violations.push(format!("{field}.role"), "expected none, user or assistant");
            return None;
        }
    };
    let time = turn.time.as_ref();
    let time = optional_timestamp_from_wire(&format!("{field}.time"), time, violations);
    let id = TurnId { session: session.clone(), number: turn.number };
    Some(Turn { id, role, speaker: turn.speaker, text: turn.text, time })
}

/// A turn for the wire.
pub fn turn_to_wire(turn: Turn) -> wire::Turn {
    let role = match turn.role {
        Role::Other => wire::Role::Unspecified,
        Role::User => wire::Role::User,
        Role::Assistant => wire::Role::Assistant,
    };
    wire::Turn {
        number: turn.id.number,
        role: role.into(),
        speaker: turn.speaker,
        text: turn.text,
        time: turn.time.map(timestamp_to_wire),
    }
}

/// What is to be recalled, from the wire.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming every field at fault.
pub fn recall_from_wire(
    request: wire::RecallRequest,
    limits: &Limits,
) -> Result<(CorpusName, Recall), Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let filter = violations.take(user_filter(&request.user)).unwrap_or_default();
    let k = request.k.unwrap_or(ITEMS.0);
    if !(1..=ITEMS.1).contains(&k) {
        violations.push("k", format!("expected 1 to {}, got {k}", ITEMS.1));
    }
    violations.take(Query::new(request.question.clone(), 1).check(limits));
    let value = match wire::Value::try_from(request.value) {
        Ok(wire::Value::Turn) => Value::Turn,
        Ok(wire::Value::Unspecified | wire::Value::Round) => Value::Round,
        Ok(wire::Value::Session) => Value::Session,
        Err(_) => {
            violations.push("value", "expected turn, round or session");
            Value::Round
        }
    };
    let time = match wire::TimeUse::try_from(request.time) {
        Ok(wire::TimeUse::Unspecified | wire::TimeUse::Boost) => TimeUse::Boost,
        Ok(wire::TimeUse::Filter) => TimeUse::Filter,
        Ok(wire::TimeUse::Ignore) => TimeUse::Ignore,
        Err(_) => {
            violations.push("time", "expected boost, filter or ignore");
            TimeUse::Boost
        }
    };
    let asked_at = request.asked_at.as_ref();
    let asked_at = optional_timestamp_from_wire("asked_at", asked_at, &mut violations);
    violations.into_result()?;
    let question = request.question;
    let history = History::default();
    let recall = Recall { question, asked_at, filter, k: k as usize, value, time, history };
    match corpus {
        Some(corpus) => Ok((corpus, recall)),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// What was recalled for the wire: in the order of time, as who reads it wants it (LongMemEval, section 5.5).
pub fn recalled_to_wire(recalled: Recalled) -> wire::RecallResponse {
    let mut items = recalled.items;
    let place = |item: &Item| {
        let first = item.turns.first();
        let time = first.and_then(|turn| turn.time);
        (time, item.session.clone(), first.map(|turn| turn.id.number))
    };
    items.sort_by_key(place);
    let range = recalled.range.unwrap_or_default();
    wire::RecallResponse {
        items: items.into_iter().map(item_to_wire).collect(),
        from: range.from.map(timestamp_to_wire),
        until: range.until.map(timestamp_to_wire),
        shards_missing: recalled.shards_missing.iter().map(|shard| shard.0).collect(),
        cost: Some(cost_to_wire(recalled.cost)),
    }
}

fn item_to_wire(item: Item) -> wire::RecalledItem {
    wire::RecalledItem {
        session: item.session,
        turns: item.turns.into_iter().map(turn_to_wire).collect(),
        found: item.found,
        score: item.score,
    }
}

/// A question to conversations as a question to their corpus.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming the field at fault.
pub fn answer_from_wire(request: wire::AnswerRequest) -> Result<query::AnswerRequest, Error> {
    let filter = user_filter(&request.user)?;
    let strategy = match request.strategy.as_str() {
        "" => "chat".to_owned(),
        _ => request.strategy,
    };
    Ok(query::AnswerRequest {
        corpus: request.corpus,
        question: request.question,
        strategy,
        k: request.k,
        filter: Some(super::query::filter_to_wire(filter)),
        task: query::Task::Answer.into(),
        asked_at: request.asked_at,
        evidence_tokens: None,
    })
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    fn turn(number: u32) -> Turn {
        let time = Some(Timestamp::from_micros(7));
        let (role, speaker, text) = (Role::User, "Ada".to_owned(), "Hello".to_owned());
        let id = TurnId { session: "monday".parse().unwrap(), number };
        Turn { id, role, speaker, text, time }
    }

    #[test]
    fn turns_round_trip() {
        let appended = Appended {
            corpus: "chats".parse().unwrap(),
            user: "ada".to_owned(),
            turns: vec![turn(1), turn(0)],
        };
        let back = append_from_wire(append_to_wire(appended.clone())).unwrap();
        assert_eq!(back, appended);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_told_by_name() {
        let blank = wire::Turn { number: 1, role: 7, ..wire::Turn::default() };
        let request = wire::AppendTurnsRequest {
            corpus: "chats".to_owned(),
            session: "a/b".to_owned(),
            turns: vec![turn_to_wire(turn(1)), blank],
            ..wire::AppendTurnsRequest::default()
        };
        let error = append_from_wire(request).unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["user", "session", "turns[1].number", "turns[1].role"]);
        let request =
            wire::RecallRequest { k: Some(0), value: 9, ..wire::RecallRequest::default() };
        let error = recall_from_wire(request, &Limits::default()).unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["corpus", "user", "k", "query.text", "value"]);
    }
}
