//! What speakers say anew of themselves: statements that take the place of earlier ones.

mod amount;
mod attribute;
mod change;
#[cfg(test)]
mod measured;
mod slot;
#[cfg(test)]
mod tests;
mod word;

use std::collections::BTreeSet;
use std::time::Duration;

use clew_core::{TimeRange, Timestamp};

use crate::fact::{is_of_own, told};
use crate::time::{Moment, mentions};
use crate::{Role, Turn, TurnId};

use attribute::Attributes;

/// Longest time that is taken for when something happened once.
const LONGEST_EVENT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Longest sentence that is understood: what is longer was not written by a person as one sentence.
const MAX_SENTENCE_BYTES: usize = 500;

/// Something that a speaker states of themselves: one of the facts of a turn ([`crate::facts`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// When it was said.
    pub time: Option<Timestamp>,
    /// The turn in which it was said.
    pub turn: TurnId,
    /// The byte of the turn's text at which its sentence begins.
    pub start: usize,
    /// Who said it, by name; empty for the user whose memory it is.
    pub speaker: String,
    /// What was said, as [`crate::facts`] tells it.
    pub text: String,
}

/// A statement and the next one that takes its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Update {
    /// What held until then.
    pub older: Statement,
    /// What holds since, unless there is an update of it.
    pub newer: Statement,
}

/// The statements of a turn, in order, a repeated one once.
///
/// None of an assistant's, and none of someone who is neither the user nor has a name: nobody could tell whether two
/// of them are by the same person.
pub fn statements(turn: &Turn) -> Vec<Statement> {
    let speaker = match turn.role {
        Role::Assistant => return Vec::new(),
        Role::Other if turn.speaker.is_empty() => return Vec::new(),
        Role::Other => turn.speaker.clone(),
        Role::User => String::new(),
    };
    let mut statements: Vec<Statement> = Vec::new();
    for (span, text) in told(turn) {
        let sentence = span.of(&turn.text).unwrap_or_default();
        if sentence.len() > MAX_SENTENCE_BYTES || !is_of_own(sentence) {
            continue;
        }
        let start = span.start;
        if !statements.iter().any(|known| known.text == text) {
            let (time, turn, speaker) = (turn.time, turn.id.clone(), speaker.clone());
            statements.push(Statement { time, turn, start, speaker, text });
        }
    }
    statements
}

/// Which of `statements` of one memory are superseded.
pub fn updates(statements: impl IntoIterator<Item = Statement>) -> Vec<Update> {
    let statements: BTreeSet<Statement> = statements.into_iter().collect();
    let statements: Vec<Statement> = statements.into_iter().collect();
    let read: Vec<Attributes> =
        statements.iter().map(|said| Attributes::of(&said.text, &said.speaker)).collect();
    let mut updates = Vec::new();
    for (at, older) in statements.iter().enumerate() {
        // In order of time, so that the first that fits is the next one.
        let mut later = statements.iter().zip(&read).skip(at + 1);
        let newer = later.find(|(newer, attributes)| {
            follows(newer, older)
                && attributes.supersede(&read[at], || are_of_different_days(newer, older))
        });
        if let Some((newer, _)) = newer {
            updates.push(Update { older: older.clone(), newer: newer.clone() });
        }
    }
    updates
}

/// Whether `newer` is by the speaker of `older` and was said later, as far as that can be told. The order of
/// [`Statement`]s is the order of time where this holds.
fn follows(newer: &Statement, older: &Statement) -> bool {
    let is_told = newer.time.is_some() || newer.turn.session == older.turn.session;
    newer.speaker == older.speaker
        && newer.time.is_some() == older.time.is_some()
        && is_told
        && newer > older
}

/// Whether both tell of what happened once, on different days: one event is no update of another.
fn are_of_different_days(a: &Statement, b: &Statement) -> bool {
    let (a, b) = (days(a), days(b));
    let is_before = |a: &TimeRange, b: &TimeRange| a.until <= b.from;
    !a.is_empty()
        && !b.is_empty()
        && a.iter().all(|a| b.iter().all(|b| is_before(a, b) || is_before(b, a)))
}

/// The days, or few days, that a statement names.
fn days(statement: &Statement) -> Vec<TimeRange> {
    let at = statement.time.unwrap_or(Timestamp::from_micros(0));
    let Ok(at) = Moment::try_new(at, 0) else { return Vec::new() };
    let ranges = mentions(&statement.text, at).into_iter().map(|mention| mention.range);
    let is_short = |range: &TimeRange| match (range.from, range.until) {
        (Some(from), Some(until)) => until.saturating_since(from) <= LONGEST_EVENT,
        _ => false,
    };
    ranges.filter(is_short).collect()
}
