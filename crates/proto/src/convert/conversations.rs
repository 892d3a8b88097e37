//! Conversions of lists of users and sessions of `clew.chat.v1`.

use clew_core::{ConversationQuery, CorpusName, Error, StoredTurns, TurnAddress, Violations};

use crate::chat::v1 as wire;
use crate::convert::{Page, corpus_name, timestamp_to_wire};

/// Page of the users or sessions of a corpus, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationPage {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// The users or sessions that are wanted.
    pub query: ConversationQuery,
}

/// Converts a request for a page of users from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn users_from_wire(request: wire::ListUsersRequest) -> Result<ConversationPage, Error> {
    let wire::ListUsersRequest { corpus, prefix, page_size, page_token } = request;
    let mut violations = Violations::default();
    if !prefix.is_empty() {
        TurnAddress::check("prefix", &prefix, &mut violations);
    }
    page_from_wire(&corpus, (None, prefix), (page_size, &page_token), violations)
}

/// Converts a request for a page of sessions from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn sessions_from_wire(request: wire::ListSessionsRequest) -> Result<ConversationPage, Error> {
    let wire::ListSessionsRequest { corpus, user, page_size, page_token } = request;
    let mut violations = Violations::default();
    TurnAddress::check("user", &user, &mut violations);
    page_from_wire(&corpus, (Some(user), String::new()), (page_size, &page_token), violations)
}

fn page_from_wire(
    corpus: &str,
    (user, prefix): (Option<String>, String),
    (page_size, page_token): (u32, &str),
    mut violations: Violations,
) -> Result<ConversationPage, Error> {
    let corpus = violations.take(corpus_name(corpus));
    let page = violations.take(Page::from_wire(page_size, page_token));
    if let Some(page) = page.as_ref().filter(|page| !page.after.is_empty()) {
        TurnAddress::check("page_token", &page.after, &mut violations);
    }
    violations.into_result()?;
    let (Some(corpus), Some(Page { size, after })) = (corpus, page) else {
        return Err(Error::internal("a field was neither taken nor refused"));
    };
    Ok(ConversationPage { corpus, query: ConversationQuery { user, prefix, after, limit: size } })
}

/// Converts a page of users for the wire. `found` may have one more than a page of `size` has.
pub fn users_to_wire(found: Vec<StoredTurns>, size: usize) -> wire::ListUsersResponse {
    let (found, next_page_token) = cut(found, size);
    let user = |of: StoredTurns| wire::ChatUser {
        user: of.name,
        turns: of.turns,
        first_stored_at: Some(timestamp_to_wire(of.first_accepted_at)),
        last_stored_at: Some(timestamp_to_wire(of.last_accepted_at)),
    };
    wire::ListUsersResponse { users: found.into_iter().map(user).collect(), next_page_token }
}

/// Converts a page of sessions for the wire. `found` may have one more than a page of `size` has.
pub fn sessions_to_wire(found: Vec<StoredTurns>, size: usize) -> wire::ListSessionsResponse {
    let (found, next_page_token) = cut(found, size);
    let session = |of: StoredTurns| wire::ChatSession {
        session: of.name,
        turns: of.turns,
        first_stored_at: Some(timestamp_to_wire(of.first_accepted_at)),
        last_stored_at: Some(timestamp_to_wire(of.last_accepted_at)),
    };
    let sessions = found.into_iter().map(session).collect();
    wire::ListSessionsResponse { sessions, next_page_token }
}

/// Returns a page with the token of the next one, which is empty if there is none.
fn cut(mut found: Vec<StoredTurns>, size: usize) -> (Vec<StoredTurns>, String) {
    let has_more = found.len() > size;
    found.truncate(size);
    let last = found.last().filter(|_| has_more);
    let next_page_token = last.map(|last| Page::token_after(&last.name)).unwrap_or_default();
    (found, next_page_token)
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    #[test]
    fn every_field_at_fault_is_named() {
        let users = users_from_wire(wire::ListUsersRequest {
            corpus: "No Corpus".to_owned(),
            prefix: "a/b".to_owned(),
            page_size: 1001,
            page_token: String::new(),
        });
        assert_eq!(users.unwrap_err().fields_at_fault(), ["prefix", "corpus", "page_size"]);
        let sessions = sessions_from_wire(wire::ListSessionsRequest {
            corpus: "chats".to_owned(),
            user: String::new(),
            page_size: 0,
            page_token: Page::token_after("a/b"),
        });
        assert_eq!(sessions.unwrap_err().fields_at_fault(), ["user", "page_token"]);
    }

    #[test]
    fn a_page_names_the_next_one_if_there_is_more() {
        let found = |names: &[&str]| {
            let of = |name: &&str| StoredTurns {
                name: (*name).to_owned(),
                turns: 2,
                first_accepted_at: Timestamp::from_micros(1),
                last_accepted_at: Timestamp::from_micros(2),
            };
            names.iter().map(of).collect::<Vec<_>>()
        };
        let page = users_to_wire(found(&["ann", "bo", "cy"]), 2);
        assert_eq!(page.users.len(), 2);
        let next = users_from_wire(wire::ListUsersRequest {
            corpus: "chats".to_owned(),
            page_token: page.next_page_token,
            ..Default::default()
        });
        assert_eq!(next.unwrap().query.after, "bo");
        assert_eq!(sessions_to_wire(found(&["x", "y"]), 2).next_page_token, "");
    }
}
