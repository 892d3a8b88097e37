//! Lists of users and sessions, counted out of the ids of their turns.
//!
//! The ids of a user's turns are consecutive, and so are those of a session. So a list reads the
//! documents of its page and no others, except documents that are no turns and lie among them.

use std::collections::BTreeMap;

use clew_core::{ConversationQuery, DocumentId, DocumentStatus, Error, StoredTurns, TurnAddress};

/// The character that follows `/` in the order of ids.
const AFTER_SLASH: char = '0';

/// Count of the turns of a page of users or sessions, while their documents come in the order of
/// their ids.
pub struct ConversationCount {
    query: ConversationQuery,
    /// Beginning of the ids of all wanted turns.
    prefix: String,
    found: Vec<StoredTurns>,
}

impl ConversationCount {
    /// Begins to count for a page.
    pub fn new(query: ConversationQuery) -> Self {
        let prefix = format!("{}{}", of_user(query.user.as_deref()), query.prefix);
        Self { query, prefix, found: Vec::new() }
    }

    /// Returns the id after which the documents to count come; `None` if the first one is among
    /// them.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if a name cannot be a part of an id.
    pub fn start(&self) -> Result<Option<DocumentId>, Error> {
        let ConversationQuery { user, after, .. } = &self.query;
        // No turn has one of these ids: an address of a turn has two slashes.
        let from = match after.as_str() {
            "" => self.prefix.clone(),
            after => {
                let passed = format!("{}{after}{AFTER_SLASH}", of_user(user.as_deref()));
                passed.max(self.prefix.clone())
            }
        };
        if from.is_empty() { Ok(None) } else { from.parse().map(Some) }
    }

    /// Counts the next document. Returns whether others may follow that belong to the page.
    pub fn add(&mut self, status: &DocumentStatus) -> bool {
        if !status.document_id.as_str().starts_with(&self.prefix) {
            return false;
        }
        let Some(address) = TurnAddress::of(&status.document_id) else { return true };
        let name = match &self.query.user {
            Some(_) => address.turn.session.to_string(),
            None => address.user,
        };
        let at = status.accepted_at;
        let turn = StoredTurns { name, turns: 1, first_accepted_at: at, last_accepted_at: at };
        let is_full = self.found.len() == self.query.limit;
        match self.found.last_mut() {
            Some(last) if last.name == turn.name => last.add(&turn),
            _ if is_full => return false,
            _ => self.found.push(turn),
        }
        true
    }

    /// Returns the users or sessions of the page.
    pub fn finish(self) -> Vec<StoredTurns> {
        self.found
    }
}

/// Returns the beginning of the ids of a user's turns, or of all turns.
fn of_user(user: Option<&str>) -> String {
    user.map(|user| TurnAddress::prefix(user, None)).unwrap_or_default()
}

/// Unites the pages of all shards into the first `limit` users or sessions. Each page has to hold
/// the first `limit` of its shard, or all.
pub fn united_conversations(pages: Vec<Vec<StoredTurns>>, limit: usize) -> Vec<StoredTurns> {
    let mut united: BTreeMap<String, StoredTurns> = BTreeMap::new();
    for turns in pages.into_iter().flatten() {
        // The order of ids: `ann-b/…` comes before `ann/…`.
        let place = format!("{}/", turns.name);
        match united.get_mut(&place) {
            Some(known) => known.add(&turns),
            None => drop(united.insert(place, turns)),
        }
    }
    united.into_values().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use clew_core::{DocumentState, Labels, Timestamp, Version};
    use proptest::prelude::*;

    use super::*;

    fn status(id: &str, at: i64) -> DocumentStatus {
        DocumentStatus {
            document_id: id.parse().unwrap(),
            state: DocumentState::Indexed,
            version: Version(1),
            live_version: Some(Version(1)),
            accepted_at: Timestamp::from_micros(at),
            bytes: 1,
            chunks: 1,
            tokens: 1,
            nodes: 0,
            failure: None,
            labels: Labels::default(),
            source_version: None,
        }
    }

    fn query(user: Option<&str>, prefix: &str, after: &str, limit: usize) -> ConversationQuery {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        ConversationQuery { user: user.map(ToOwned::to_owned), prefix, after, limit }
    }

    /// Counts as a shard does that holds these documents.
    fn page(held: &[DocumentStatus], query: ConversationQuery) -> Vec<StoredTurns> {
        let mut held: Vec<&DocumentStatus> = held.iter().collect();
        held.sort_by(|a, b| a.document_id.cmp(&b.document_id));
        let mut count = ConversationCount::new(query);
        let start = count.start().unwrap();
        for status in held.into_iter().filter(|it| Some(&it.document_id) > start.as_ref()) {
            if !count.add(status) {
                break;
            }
        }
        count.finish()
    }

    fn told(page: &[StoredTurns]) -> Vec<(&str, u64, i64, i64)> {
        let micros = Timestamp::as_micros;
        page.iter()
            .map(|it| {
                let (first, last) = (micros(it.first_accepted_at), micros(it.last_accepted_at));
                (it.name.as_str(), it.turns, first, last)
            })
            .collect()
    }

    fn held() -> Vec<DocumentStatus> {
        let ids = [
            ("notes.md", 1),
            ("ann/monday/0000000000", 5),
            ("ann/monday/0000000001", 3),
            ("ann/sunday/0000000000", 9),
            ("ann-b/monday/0000000007", 2),
            ("ann/photo.png", 1),
            ("docs/a/b.md", 1),
            ("bo/x/0000000000", 4),
        ];
        ids.map(|(id, at)| status(id, at)).to_vec()
    }

    #[test]
    fn turns_count_for_their_users_and_sessions_and_other_documents_do_not() {
        let users = page(&held(), query(None, "", "", 9));
        assert_eq!(told(&users), [("ann-b", 1, 2, 2), ("ann", 3, 3, 9), ("bo", 1, 4, 4)]);
        let sessions = page(&held(), query(Some("ann"), "", "", 9));
        assert_eq!(told(&sessions), [("monday", 2, 3, 5), ("sunday", 1, 9, 9)]);
        assert_eq!(told(&page(&held(), query(None, "ann", "ann-b", 9))), [("ann", 3, 3, 9)]);
        assert_eq!(told(&page(&held(), query(None, "b", "", 9))), [("bo", 1, 4, 4)]);
        assert!(page(&held(), query(None, "b", "bo", 9)).is_empty());
        assert!(page(&held(), query(Some("docs"), "", "", 9)).is_empty());
    }

    fn name() -> impl Strategy<Value = String> {
        "[a-b0\\-.~é]{1,3}"
    }

    proptest! {
        #[test]
        fn pages_over_shards_add_up_to_all_turns(
            turns in prop::collection::btree_map((name(), name(), 0_u32..3), 0_usize..3, 0..40),
            size in 1_usize..4,
        ) {
            let mut shards = vec![Vec::new(); 3];
            let mut expected: BTreeMap<String, u64> = BTreeMap::new();
            for ((user, session, number), shard) in turns {
                let id = format!("{user}/{session}/{number:010}");
                shards[shard].push(status(&id, 0));
                *expected.entry(format!("{user}/")).or_default() += 1;
            }
            let (mut listed, mut after) = (Vec::new(), String::new());
            loop {
                let pages = shards.iter().map(|held| page(held, query(None, "", &after, size)));
                let users = united_conversations(pages.collect(), size);
                let Some(last) = users.last() else { break };
                after = last.name.clone();
                listed.extend(users.into_iter().map(|it| (format!("{}/", it.name), it.turns)));
            }
            prop_assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
