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

use std::cell::OnceCell;
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
    for (span, text) in told(turn.role, &turn.speaker, &turn.text) {
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

/// Which of `statements` of one memory are superseded, each by the next one that does, in order of time.
///
/// A statement is superseded by a later one of the same speaker that tells another value of the same attribute. It
/// depends on the set of statements alone. Nothing is superseded in a circle, and the last of a chain by nothing. What
/// was said without a time has an order within its session only, so nothing else is compared with it.
///
/// There is no model. By rules for English, these are values of one attribute:
///
/// - amounts of one unit, times of day, sums and frequencies, told among the same words: "I've completed 20 videos of the
///   series", "30 videos"; neither is planned or as far off as "ago"; where each is told of names of its own or of
///   another day they are of different things;
/// - where someone lives, whom and as what they work for, their favourite and their latest thing of a kind, by name;
///
/// and who tells that they no longer do something, used to do it, stopped it or switched to another takes back that they
/// do it. What is asked states nothing here, though it may tell much: "Is 6 early, considering I used to rise at 8?"
///
/// Measured on LongMemEval (`update/measured.rs`): of the 39 questions about updates 17 have links, 18 in all, which are
/// right; in 13 questions they are between turns that are marked as evidence. Of the 22 600 statements of 77 whole
/// histories 19 are linked, a good third of them rightly; of the 2 500 of five conversations of LoCoMo none. So links
/// are there to rank by and to be shown, never to forget by.
///
/// Cost is quadratic in the number of statements: 300 of them take some 15 milliseconds in a build for tests.
pub fn updates(statements: impl IntoIterator<Item = Statement>) -> Vec<Update> {
    let statements: BTreeSet<Statement> = statements.into_iter().collect();
    let read: Vec<(Statement, Attributes, OnceCell<Vec<TimeRange>>)> = statements
        .into_iter()
        .map(|said| {
            let attributes = Attributes::of(&said.text, &said.speaker);
            (said, attributes, OnceCell::new())
        })
        .collect();
    let mut updates = Vec::new();
    for (at, (older, attributes, days)) in read.iter().enumerate() {
        // In order of time, so that the first that fits is the next one.
        let newer = read[at + 1..].iter().find(|(newer, others, other_days)| {
            let are_events_apart = || {
                let days = days.get_or_init(|| days_of(older));
                are_apart(days, other_days.get_or_init(|| days_of(newer)))
            };
            follows(newer, older) && others.supersede(attributes, are_events_apart)
        });
        if let Some((newer, ..)) = newer {
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

/// Whether two statements name days, and none that is of both: one event is no update of another.
fn are_apart(a: &[TimeRange], b: &[TimeRange]) -> bool {
    let is_before = |a: &TimeRange, b: &TimeRange| a.until <= b.from;
    let are_apart = |a: &TimeRange| b.iter().all(|b| is_before(a, b) || is_before(b, a));
    !a.is_empty() && !b.is_empty() && a.iter().all(are_apart)
}

/// The days, or few days, that a statement names.
fn days_of(statement: &Statement) -> Vec<TimeRange> {
    let at = statement.time.unwrap_or(Timestamp::from_micros(0));
    let Ok(at) = Moment::try_new(at, 0) else { return Vec::new() };
    let ranges = mentions(&statement.text, at).into_iter().map(|mention| mention.range);
    let is_short = |range: &TimeRange| match (range.from, range.until) {
        (Some(from), Some(until)) => until.saturating_since(from) <= LONGEST_EVENT,
        _ => false,
    };
    ranges.filter(is_short).collect()
}
