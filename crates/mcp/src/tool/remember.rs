//! `remember`: keeps what a user says, as a turn of a conversation.
//!
//! A turn has the number that its text hashes to. So the same text is found again without a look at
//! the rest of the session, whichever gateway is asked, and a retry changes nothing.

use clew_core::{
    Attributes, Clock, CorpusName, DocumentId, Error, ErrorKind, SpeakerRole, SystemClock, Turn,
    TurnAddress, TurnId,
};
use clew_proto::chat::v1 as chat;
use clew_proto::convert::timestamp_to_wire;
use serde::Deserialize;
use serde_json::{Value, json};

use super::told;
use crate::caller::Caller;

/// User of calls that name none.
pub(super) const DEFAULT_USER: &str = "default";
/// Session of calls that name none.
const DEFAULT_SESSION: &str = "remembered";
/// Number of turns that are tried before the tool gives up. Two texts of a session share a number
/// about once in a session of 50,000 turns.
const TRIES: u32 = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    text: String,
    user: Option<String>,
    session: Option<String>,
}

/// State of a turn's place.
enum Place {
    Free,
    /// It has the same text already, since this time.
    Same(String),
    /// It has another text.
    Taken,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let Arguments { text, user, session } = arguments;
    let user = user.unwrap_or_else(|| DEFAULT_USER.to_owned());
    let session = session.unwrap_or_else(|| DEFAULT_SESSION.to_owned());
    // Refused here, so that what follows has an id.
    let turn = turn(text, session.parse()?);
    let first = turn.id.number;
    TurnAddress { user: user.clone(), turn: turn.id.clone() }.document_id()?;
    let corpus = caller.corpus(named).await?;
    for number in first..first + TRIES {
        let turn = Turn { id: TurnId { number, ..turn.id.clone() }, ..turn.clone() };
        let id = TurnAddress { user: user.clone(), turn: turn.id.clone() }.document_id()?;
        let (time, unchanged) = match look(caller, &corpus, &id, &turn.document_text()).await? {
            Place::Taken => continue,
            Place::Same(time) => (time, true),
            Place::Free => (append(caller, &corpus, &user, turn).await?, false),
        };
        return Ok(json!({
            "id": id.as_str(),
            "user": user,
            "session": session,
            "time": time,
            "unchanged": unchanged,
        }));
    }
    let problem = format!("there is no room for this text in the session `{session}`; use another");
    Err(Error::new(ErrorKind::WrongState, "SESSION_FULL", problem))
}

/// Returns the turn of a text, with the number that the text hashes to and no time.
fn turn(text: String, session: DocumentId) -> Turn {
    let hash = blake3::hash(text.as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    Turn {
        // Half of the numbers, so that the next ones are numbers too.
        id: TurnId { session, number: u32::from_le_bytes([a, b, c, d]) >> 1 },
        speaker: String::new(),
        role: SpeakerRole::User,
        text,
        time: None,
        attributes: Attributes::new(),
    }
}

/// Looks whether the place of a turn with this id is free. `text` is the text of its document.
async fn look(
    caller: &Caller,
    corpus: &CorpusName,
    id: &DocumentId,
    text: &str,
) -> Result<Place, Error> {
    match caller.document(corpus, id.as_str()).await {
        Ok((document, state)) => {
            // The response has the first megabyte of a text. Where there is a little more, its hash
            // and its length say the rest.
            let is_same = state.text_bytes == text.len() as u64
                && text.as_bytes().starts_with(&document.text);
            Ok(if is_same {
                Place::Same(told::time(document.event_time.as_ref()))
            } else {
                Place::Taken
            })
        }
        // If it is the corpus that does not exist, appending says so.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Place::Free),
        Err(error) => Err(error),
    }
}

/// Appends a turn and returns its time, which is now.
async fn append(
    caller: &Caller,
    corpus: &CorpusName,
    user: &str,
    turn: Turn,
) -> Result<String, Error> {
    let time = SystemClock.now();
    let request = chat::AppendTurnsRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        session: turn.id.session.to_string(),
        turns: vec![chat::Turn {
            number: turn.id.number,
            role: chat::Role::User.into(),
            text: turn.text,
            time: Some(timestamp_to_wire(time)),
            ..chat::Turn::default()
        }],
        ..chat::AppendTurnsRequest::default()
    };
    let appended = caller.chats().append_turns(caller.request(request)).await;
    appended.map_err(|status| caller.failed(&status))?;
    Ok(time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_and_another_text_another() {
        let number = |text: &str| turn(text.to_owned(), "s".parse().unwrap()).id.number;
        assert_eq!(number("I like tea."), number("I like tea."));
        assert_ne!(number("I like tea."), number("I like coffee."));
        // The last place that may be tried is a number as well.
        assert!((0..1000).all(|i| number(&i.to_string()).checked_add(TRIES).is_some()));
    }
}
