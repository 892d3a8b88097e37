//! Updates: statements of speakers that replace their earlier statements.

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

use clew_core::{SpeakerRole, Statement, TimeRange, Timestamp, Turn, Update};

use crate::fact::{is_of_own, told};
use crate::time::{Moment, mentions};

use attribute::Attributes;

/// Maximum length of a time that dates a single event.
const LONGEST_EVENT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Maximum length of a sentence in bytes. People do not write longer text as one sentence.
const MAX_SENTENCE_BYTES: usize = 500;

/// Returns the statements of a turn, in order, each once.
///
/// Returns none for an assistant, and none for a speaker who is neither the user nor has a name:
/// two such statements may be by different persons.
pub fn statements(turn: &Turn) -> Vec<Statement> {
    let speaker = match turn.role {
        SpeakerRole::Assistant => return Vec::new(),
        SpeakerRole::Other if turn.speaker.is_empty() => return Vec::new(),
        SpeakerRole::Other => turn.speaker.clone(),
        SpeakerRole::User => String::new(),
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

/// Returns which of the `statements` of one memory are superseded, each by the next one that
/// supersedes it, in order of time.
///
/// A statement is superseded by a later one of the same speaker that gives another value for the
/// same attribute. The result depends only on the set of statements. Updates form no cycles, and
/// the last statement of a chain is not superseded. Statements without a time are ordered only
/// within their session, so each is compared only with other such statements of its session.
///
/// There is no model. By rules for English, these are values of one attribute:
///
/// - amounts of one unit, times of day, sums and frequencies, among the same words: "I've completed
///   20 videos of the series", "30 videos". Neither may be planned or a distance such as "ago". If
///   each has names of its own or another day, they are about different things;
/// - where someone lives, whom and as what they work for, their favourite and their latest thing of
///   a kind, by name.
///
/// A statement that the speaker no longer does something, used to do it, stopped it or switched
/// from it supersedes the statement that they do it. Questions state nothing here, although they
/// may imply much: "Is 6 early, considering I used to rise at 8?"
///
/// Measured on LongMemEval (`update/measured.rs`): updates are found for 17 of the 39 questions
/// about updates, 18 in all, and are right. In 13 questions they are between turns that are marked
/// as evidence. Of the 22 600 statements of 77 whole histories, 19 are superseded, a good third of
/// them rightly; of the 2 500 statements of five LoCoMo conversations, none. Use updates for
/// ranking and display, never for forgetting.
///
/// The cost is quadratic in the number of statements: 300 of them take about 15 milliseconds in a
/// test build.
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
        // In order of time, so that the first match is the next one.
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

/// Returns whether `newer` is by the same speaker as `older` and was said later, as far as that is
/// known. Where it is known, the order of [`Statement`]s is the order of time.
fn follows(newer: &Statement, older: &Statement) -> bool {
    let is_told = newer.time.is_some() || newer.turn.session == older.turn.session;
    newer.speaker == older.speaker
        && newer.time.is_some() == older.time.is_some()
        && is_told
        && newer > older
}

/// Returns whether both statements name days and have none in common: one event does not update
/// another.
fn are_apart(a: &[TimeRange], b: &[TimeRange]) -> bool {
    let is_before = |a: &TimeRange, b: &TimeRange| a.until <= b.from;
    let are_apart = |a: &TimeRange| b.iter().all(|b| is_before(a, b) || is_before(b, a));
    !a.is_empty() && !b.is_empty() && a.iter().all(are_apart)
}

/// Returns the short times, of a few days at most, that a statement names.
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
