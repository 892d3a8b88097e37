//! Reading of the turns around those that a search found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Instant;

use clew_core::{
    DocumentId, Documents, Error, Evidence, ShardIndex, SpeakerRole, Turn, TurnAddress, TurnId,
    WholeDocument,
};

/// Number of further turns before and after those in which the rest of the round is looked for.
const REACH: u32 = 8;
/// Maximum number of turns of a session.
const MAX_SESSION: usize = 1_000;

/// A user and one of the user's sessions.
pub(super) type Session = (String, DocumentId);

/// The turns that were read so far. `None` if a turn does not exist or its shard does not answer.
pub(super) struct Read<'a> {
    pub(super) documents: &'a dyn Documents,
    pub(super) deadline: Instant,
    pub(super) turns: BTreeMap<(Session, u32), Option<(Turn, Evidence)>>,
    /// Shards that did not answer.
    pub(super) missing: Vec<ShardIndex>,
}

impl Read<'_> {
    /// Reads turns that are not known yet, together with the turns around them.
    pub(super) async fn read_around(
        &mut self,
        places: Vec<(Session, u32)>,
        around: &RangeInclusive<i32>,
    ) -> Result<(), Error> {
        let at = |(session, number): (Session, u32)| {
            let numbers = around.clone().filter_map(move |step| number.checked_add_signed(step));
            numbers.map(move |number| (session.clone(), number))
        };
        self.read(places.into_iter().flat_map(at).collect()).await
    }

    /// Reads turns that are not known yet.
    pub(super) async fn read(&mut self, places: Vec<(Session, u32)>) -> Result<(), Error> {
        let mut ids = Vec::new();
        for (session, number) in places {
            if self.turns.contains_key(&(session.clone(), number)) {
                continue;
            }
            let turn = TurnId { session: session.1.clone(), number };
            ids.push(TurnAddress { user: session.0.clone(), turn }.document_id()?);
            self.turns.insert((session, number), None);
        }
        if ids.is_empty() { Ok(()) } else { self.read_documents(&ids).await }
    }

    async fn read_documents(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        let read = self.documents.documents(ids, self.deadline).await?;
        self.missing.extend(read.shards_missing);
        for WholeDocument { document, passage } in read.found {
            if let Some((user, turn)) = Turn::of(&document) {
                let place = ((user, turn.id.session.clone()), turn.id.number);
                self.turns.insert(place, Some((turn, passage)));
            }
        }
        Ok(())
    }

    /// Reads all turns of the sessions of `places`.
    pub(super) async fn read_sessions(&mut self, places: &[(Session, u32)]) -> Result<(), Error> {
        let sessions: BTreeSet<&Session> = places.iter().map(|(session, _)| session).collect();
        for (user, session) in sessions {
            let prefix = TurnAddress::prefix(user, Some(session.as_str()));
            let ids = self.documents.ids(&prefix, None, MAX_SESSION, self.deadline).await?;
            self.missing.extend(ids.shards_missing);
            let ids = ids.found;
            self.read_documents(&ids).await?;
        }
        Ok(())
    }

    /// Reads the rest of the rounds of `places`.
    pub(super) async fn complete_rounds(&mut self, places: &[(Session, u32)]) -> Result<(), Error> {
        let mut wanted: Vec<(Session, u32)> = Vec::new();
        for (session, number) in places {
            let before = self.before(session, *number).map(|at| at.saturating_sub(REACH - 1)..=at);
            let after = self.after(session, *number).map(|at| at..=at.saturating_add(REACH - 1));
            let unknown = before.into_iter().chain(after).flatten();
            wanted.extend(unknown.map(|number| (session.clone(), number)));
        }
        self.read(wanted).await
    }

    /// Returns the nearest unknown turn before `number` that may belong to its round.
    fn before(&self, session: &Session, number: u32) -> Option<u32> {
        let mut at = number;
        // Turns may be missing in between: forgotten, or not yet arrived.
        while self.role(session, at).is_none_or(|role| role == SpeakerRole::Assistant) {
            at = at.checked_sub(1)?;
            if !self.turns.contains_key(&(session.clone(), at)) {
                return Some(at);
            }
        }
        None
    }

    /// Returns the nearest unknown turn after `number` that may belong to its round.
    fn after(&self, session: &Session, number: u32) -> Option<u32> {
        if self.role(session, number)? == SpeakerRole::Other {
            return None;
        }
        let mut at = number.checked_add(1)?;
        while self.turns.contains_key(&(session.clone(), at)) {
            if self.role(session, at).is_some_and(|role| role != SpeakerRole::Assistant) {
                return None;
            }
            at = at.checked_add(1)?;
        }
        Some(at)
    }

    fn role(&self, session: &Session, number: u32) -> Option<SpeakerRole> {
        self.turn(&(session.clone(), number)).map(|turn| turn.role)
    }

    pub(super) fn turn(&self, (session, number): &(Session, u32)) -> Option<&Turn> {
        self.turns.get(&(session.clone(), *number))?.as_ref().map(|(turn, _)| turn)
    }

    /// Returns all turns that were read.
    pub(super) fn known(&self) -> impl Iterator<Item = &Turn> {
        self.turns.values().flatten().map(|(turn, _)| turn)
    }

    /// Returns whether all known turns are from conversations of several people.
    pub(super) fn are_of_several(&self) -> bool {
        self.known().all(|turn| turn.role == SpeakerRole::Other)
    }

    /// Returns the turns of a session, in order.
    pub(super) fn of(&self, session: &Session) -> Kept {
        let all = (session.clone(), 0)..=(session.clone(), u32::MAX);
        self.turns.range(all).filter_map(|(_, turn)| turn.clone()).collect()
    }
}

pub(super) type Kept = Vec<(Turn, Evidence)>;
