//! Memory of a conversation: whose it is, and which of its turns are kept.

use axum::http::StatusCode;
use clew_http::Failure;
use clew_proto::Timestamp;
use clew_proto::auth::v1::{Scope, WhoAmIRequest};
use clew_proto::chat::v1::{AppendTurnsRequest, ListTurnsRequest, Role, Turn};
use tonic::{Code, Status};

use super::asked::{Asked, Said};
use super::session::{Kept, Mark, Place, places};
use crate::caller::Caller;
use crate::now;
use crate::refusal::Refusal;

/// Headers that name the user and the session, of Clew and of Open WebUI.
const USER: &str = "X-Clew-User";
const SESSION: &str = "X-Clew-Session";
const OPEN_WEBUI_USER: &str = "X-OpenWebUI-User-Id";
const OPEN_WEBUI_CHAT: &str = "X-OpenWebUI-Chat-Id";
/// Header of a host that asks for itself, for a title or for suggestions.
const TASK: &str = "X-Clew-Task";
/// Maximum number of turns in one call of `AppendTurns`.
const APPENDED_AT_ONCE: usize = 1000;

/// The conversation that a request belongs to.
pub(super) struct Conversation {
    /// Id of the user whose memory is asked.
    pub user: String,
    /// Id of the session in which the turns are kept. `None` if none are.
    pub session: Option<String>,
}

impl Conversation {
    /// Returns the conversation that the headers of a request name. Returns `None` if documents are
    /// asked: the corpus was not made for conversations, and `X-Clew-User` does not ask for them.
    /// Hosts send their own headers to every model, so those alone do not ask for conversations.
    ///
    /// # Errors
    /// Returns a refusal if the corpus was made for conversations and no user is named: the memory
    /// of all users together is nobody's.
    pub fn of(caller: &Caller, is_for_conversations: bool) -> Result<Option<Self>, Refusal> {
        let trusted = |name| match caller.users().open_webui {
            true => caller.header(name),
            false => Ok(None),
        };
        let user = match caller.header(USER)? {
            None if is_for_conversations => trusted(OPEN_WEBUI_USER)?,
            named => named,
        };
        let Some(user) = user.map(str::to_owned) else {
            if !is_for_conversations {
                return Ok(None);
            }
            let problem = format!(
                "expected the header `{USER}` with the id of the user, because this model answers from \
                 the conversations of one user; got none"
            );
            return Err(Refusal::param(USER, problem));
        };
        let session = match caller.header(SESSION)? {
            None => trusted(OPEN_WEBUI_CHAT)?,
            named => named,
        };
        let is_task = caller.header(TASK)?.is_some();
        let session = session.filter(|_| !is_task).map(str::to_owned);
        Ok(Some(Self { user, session }))
    }
}

/// Turns of a session that are kept once the question is answered. Nothing is kept of a question
/// that fails, or whose answer nobody waits for.
pub(super) struct Keeping {
    caller: Caller,
    corpus: String,
    user: String,
    session: String,
    turns: Vec<Turn>,
    /// Number of the reply.
    reply: u32,
}

impl Keeping {
    /// Finds the places of the turns that were sent.
    ///
    /// # Errors
    /// Returns a refusal if the caller may not keep turns, or if these contradict what the session
    /// has, and the errors of `ListTurns`.
    pub async fn begin(
        caller: &Caller,
        asked: &Asked,
        user: &str,
        session: &str,
    ) -> Result<Self, Refusal> {
        may_keep(caller).await?;
        let corpus = asked.model.corpus.clone();
        let (user, session) = (user.to_owned(), session.to_owned());
        let request = ListTurnsRequest {
            corpus: corpus.clone(),
            user: user.clone(),
            session: session.clone(),
            filter: None,
        };
        let listed = caller.chats().list_turns(caller.request(request)).await;
        let mut listed = listed.map_err(refused)?.into_inner();
        let mut kept = Vec::new();
        while let Some(turn) = listed.message().await.map_err(refused)?.and_then(|one| one.turn) {
            kept.push(Kept { number: turn.number, mark: Mark::of(turn.role(), &turn.text) });
        }
        let question = Said { role: Role::User, text: asked.question.clone() };
        let said: Vec<Said> = asked.history.iter().cloned().chain([question]).collect();
        let marks: Vec<Mark> = said.iter().map(|said| Mark::of(said.role, &said.text)).collect();
        let Some(mut places) = places(&kept, &marks) else {
            let problem = format!(
                "expected messages that continue the session `{session}`, of which {} turns are kept, got \
                 another conversation; name another session in `{SESSION}`",
                kept.len()
            );
            return Err(Refusal::conflict("messages", "SESSION_CONTRADICTED", problem));
        };
        let reply = places.pop().map_or(0, |place| place.number);
        let turns = new_turns(said, &places, &now());
        Ok(Self { caller: caller.clone(), corpus, user, session, turns, reply })
    }

    /// Keeps the turns, and `text` as the reply. Returns once they can be found.
    ///
    /// # Errors
    /// Returns the errors of `AppendTurns`.
    pub async fn keep(self, text: &str) -> Result<(), Refusal> {
        let Self { caller, corpus, user, session, mut turns, reply } = self;
        turns.push(turn(reply, Role::Assistant, text.to_owned(), Some(now())));
        while !turns.is_empty() {
            let later = turns.split_off(turns.len().min(APPENDED_AT_ONCE));
            let request = AppendTurnsRequest {
                corpus: corpus.clone(),
                user: user.clone(),
                session: session.clone(),
                turns: std::mem::replace(&mut turns, later),
                ..Default::default()
            };
            caller.chats().append_turns(caller.request(request)).await.map_err(refused)?;
        }
        Ok(())
    }
}

/// Refuses a caller who may not keep turns. Otherwise the refusal would come after the answer.
async fn may_keep(caller: &Caller) -> Result<(), Refusal> {
    let told = caller.access().who_am_i(caller.request(WhoAmIRequest {})).await;
    if told.map_err(refused)?.into_inner().scopes().any(|scope| scope == Scope::Write) {
        return Ok(());
    }
    let problem = format!(
        "expected a key with the scope `write`, by which the turns of the session are kept, got one without it; \
         leave out `{SESSION}` to keep nothing"
    );
    let (http, code) = (StatusCode::FORBIDDEN, Code::PermissionDenied);
    Err(Failure::new(http, code, "SCOPE_MISSING", problem).into())
}

/// Returns the turns that the session lacks. Only the question was said now: the request does not
/// tell when the others were.
fn new_turns(said: Vec<Said>, places: &[Place], now: &Timestamp) -> Vec<Turn> {
    let question = said.len() - 1;
    let numbered = said.into_iter().zip(places).enumerate();
    let new = numbered.filter(|(_, (_, place))| place.is_new);
    new.map(|(at, (said, place))| {
        let time = (at == question).then_some(*now);
        turn(place.number, said.role, said.text, time)
    })
    .collect()
}

fn turn(number: u32, role: Role, text: String, time: Option<Timestamp>) -> Turn {
    Turn { number, role: role.into(), text, time, ..Default::default() }
}

/// Returns the refusal of a call about a conversation.
pub(super) fn refused(status: Status) -> Refusal {
    Refusal::of_call(status, |field| {
        let param = match field {
            "user" => USER,
            "session" => SESSION,
            _ => "messages",
        };
        Some(param.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_that_the_session_lacks_are_sent_and_only_the_question_has_a_time() {
        let said = |role, text: &str| Said { role, text: text.to_owned() };
        let history =
            vec![said(Role::User, "a"), said(Role::Assistant, "B"), said(Role::User, "c")];
        let place = |number, is_new| Place { number, is_new };
        let places = [place(4, false), place(5, true), place(6, true)];
        let now = Timestamp { seconds: 9, nanos: 0 };
        let turns = new_turns(history, &places, &now);
        let told: Vec<_> =
            turns.iter().map(|turn| (turn.number, turn.text.as_str(), turn.time)).collect();
        assert_eq!(told, [(5, "B", None), (6, "c", Some(now))]);
    }
}
