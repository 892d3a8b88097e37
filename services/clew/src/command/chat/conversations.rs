//! Lists of users and sessions.

use clew_core::CorpusName;
use clew_proto::Timestamp;
use clew_proto::chat::v1 as wire;
use serde_json::{Value, json};

use super::UserArgs;
use crate::connection::Connection;
use crate::output::{self, Output};

/// Number of users or sessions to ask for at once.
const PAGE: u32 = 1000;

/// Lists the users of a corpus whose names begin with `prefix`.
pub(super) async fn users(
    connection: &Connection,
    corpus: &CorpusName,
    prefix: String,
    output: &Output,
) -> anyhow::Result<()> {
    let (corpus, mut page_token) = (corpus.to_string(), String::new());
    let mut users = Vec::new();
    loop {
        let (corpus, prefix) = (corpus.clone(), prefix.clone());
        let asked = wire::ListUsersRequest { corpus, prefix, page_size: PAGE, page_token };
        let page = connection.client.users_page(asked).await?;
        users.extend(page.users.into_iter().map(|of| {
            let stored = [of.first_stored_at, of.last_stored_at];
            counted("user", &of.user, of.turns, &stored)
        }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return output.print(&json!({ "users": users }), |_| lines("user", &users));
        }
    }
}

/// Lists the sessions of a user.
pub(super) async fn sessions(
    connection: &Connection,
    of: UserArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let (corpus, mut page_token) = (of.corpus.to_string(), String::new());
    let mut sessions = Vec::new();
    loop {
        let (corpus, user) = (corpus.clone(), of.user.clone());
        let asked = wire::ListSessionsRequest { corpus, user, page_size: PAGE, page_token };
        let page = connection.client.sessions_page(asked).await?;
        sessions.extend(page.sessions.into_iter().map(|of| {
            let stored = [of.first_stored_at, of.last_stored_at];
            counted("session", &of.session, of.turns, &stored)
        }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return output.print(&json!({ "sessions": sessions }), |_| lines("session", &sessions));
        }
    }
}

/// Returns the turns of a user or session as JSON. `what` is the field of the name.
fn counted(what: &str, name: &str, turns: u64, stored: &[Option<Timestamp>; 2]) -> Value {
    let [first, last] = stored.each_ref().map(|time| time.as_ref().map(output::timestamp));
    json!({ what: name, "turns": turns, "first_stored_at": first, "last_stored_at": last })
}

fn lines(what: &str, counted: &[Value]) -> String {
    if counted.is_empty() {
        return format!("there is no {what}\n");
    }
    let line = |of: &Value| {
        let word = |name: &str| of[name].as_str().unwrap_or_default();
        let (name, first, last) = (word(what), word("first_stored_at"), word("last_stored_at"));
        format!("{name}: {} turns, stored {first} to {last}\n", of["turns"])
    };
    counted.iter().map(line).collect()
}
