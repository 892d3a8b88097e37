//! Dates an event: from the times in the sentence that describes it, or from when that was said.

use std::collections::BTreeSet;

use clew_chat::time::{Kind, Mention, Moment, mentions};
use clew_core::{Span, TimeRange, Timestamp};
use clew_text::{Term, terms, words};

use super::Event;
use crate::extractive::verb::in_past;

pub(super) const DAY_MICROS: i64 = 86_400_000_000;
/// Maximum number of days that an event may lie ahead: "I am there tomorrow" dates it, "next
/// summer" is a plan.
const MAX_AHEAD: i64 = 7;
/// Minimum length, in days, of a time until now that dates a beginning: "I have kept bees for the
/// past six months".
const MIN_LASTING: i64 = 14;

/// A range of days, as days since 1970 (UTC); the event was on one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::extractive) struct Dated {
    pub(super) from: i64,
    pub(super) until: i64,
    /// Whether the sentence names the days. Otherwise they are the day on which it was said.
    pub(super) is_told: bool,
}

impl Dated {
    /// Returns the day of `time`.
    pub(in crate::extractive) fn at(time: Timestamp) -> Self {
        let day = time.as_micros().div_euclid(DAY_MICROS);
        Self { from: day, until: day, is_told: false }
    }

    /// Returns the number of the first day.
    pub(in crate::extractive) fn first_day(&self) -> i64 {
        self.from
    }

    /// Returns whether the event may have been within `range`.
    pub(in crate::extractive) fn overlaps(&self, range: TimeRange) -> bool {
        let day = |time: Timestamp| Self::at(time).from;
        let last =
            |time: Timestamp| day(Timestamp::from_micros(time.as_micros().saturating_sub(1)));
        range.from.is_none_or(|from| self.until >= day(from))
            && range.until.is_none_or(|until| self.from <= last(until))
    }

    pub(super) fn middle(&self) -> f64 {
        (self.from as f64 + self.until as f64) / 2.0
    }

    /// Returns whether the sentence names the days.
    pub(in crate::extractive) fn is_named(&self) -> bool {
        self.is_told
    }

    pub(super) fn is_exact(&self) -> bool {
        self.from == self.until && self.is_told
    }
}

/// Returns the days of the event that `sentence`, said at `told_at`, describes: the time in it
/// nearest to the event's words, or otherwise the day on which it was said. Times that are plans,
/// or after the question, are ignored.
pub(in crate::extractive) fn dated(
    sentence: &str,
    event: &Event,
    told_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
) -> Option<Dated> {
    let told = told_at.map(Dated::at);
    let places = places(sentence, event);
    let moment = Moment::try_new(told_at.or(asked_at)?, 0).ok()?;
    let mut named: Vec<(usize, Dated)> = Vec::new();
    for mention in mentions(sentence, moment) {
        let Some(days) = days(&mention, event) else { continue };
        let is_known = told.is_some() || mention.kind == Kind::Absolute;
        let is_plan = told.is_some_and(|told| days.from > told.until + MAX_AHEAD);
        let is_later = asked_at.is_some_and(|now| days.from > Dated::at(now).until);
        if is_known && !is_plan && !is_later {
            named.push((distance(mention.span, &places), days));
        }
    }
    named.into_iter().min_by_key(|(distance, _)| *distance).map(|(_, days)| days).or(told)
}

/// Returns the days that a mention means.
fn days(mention: &Mention, event: &Event) -> Option<Dated> {
    let from = mention.range.from.map(|time| Dated::at(time).from);
    let until = mention.range.until.map(|time| {
        let last = Timestamp::from_micros(time.as_micros().saturating_sub(1));
        Dated::at(last).from
    });
    let (from, until) = match (from, until) {
        (Some(from), Some(until)) if event.begins && until - from >= MIN_LASTING => (from, from),
        (Some(from), Some(until)) => (from, until),
        (Some(day), None) | (None, Some(day)) => (day, day),
        (None, None) => return None,
    };
    Some(Dated { from, until: until.max(from), is_told: true })
}

/// Returns the places of the event's words in the sentence.
fn places(sentence: &str, event: &Event) -> Vec<Span> {
    let wanted: BTreeSet<Term> =
        terms(&in_past(&event.text)).chain(terms(&in_past(&event.context))).collect();
    let is_wanted = |span: &Span| {
        span.of(sentence).is_some_and(|word| terms(word).any(|term| wanted.contains(&term)))
    };
    words(sentence).filter(is_wanted).collect()
}

/// Returns the number of bytes between a mention and the nearest of `places`.
fn distance(mention: Span, places: &[Span]) -> usize {
    let gap = |place: &Span| {
        mention.start.saturating_sub(place.end).max(place.start.saturating_sub(mention.end))
    };
    places.iter().map(gap).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_nearest_time_dates_an_event() {
        let event = |text: &str| Event { text: text.to_owned(), ..Event::default() };
        let said = "2024-05-15T20:00:00Z".parse().ok();
        let date = |sentence: &str, of: &str| {
            let day = |time: &str| Dated::at(time.parse().unwrap()).from;
            dated(sentence, &event(of), said, None).map(|at| at.from - day("2024-05-01") + 1)
        };
        let both = "I bought a harp on May 3rd and sold the lute on 9 May.";
        assert_eq!(date(both, "the harp"), Some(3));
        assert_eq!(date(both, "selling the lute"), Some(9));
        assert_eq!(date("I bought a harp yesterday.", "the harp"), Some(14));
        assert_eq!(date("I bought a harp.", "the harp"), Some(15));
        assert_eq!(date("I play the harp in two months.", "the harp"), Some(15));
        let begun = Event { begins: true, ..event("keeping bees") };
        let kept = dated("I have kept bees for the past two months.", &begun, said, None).unwrap();
        assert!(kept.is_exact());
        let untimed = |sentence| dated(sentence, &begun, None, said).map(|at| at.is_told);
        assert_eq!(untimed("I began keeping bees yesterday."), None);
        assert_eq!(untimed("I began keeping bees on 3 May 2023."), Some(true));
    }

    proptest! {
        #[test]
        fn any_text_is_dated_or_not(text in "(on May 3rd |harp |yesterday |in 2023 |since |é|, ){0,12}|\\PC{0,60}", at: i64) {
            let event = Event { text: "the harp".to_owned(), ..Event::default() };
            let told = Some(Timestamp::from_micros(at));
            if let Some(found) = dated(&text, &event, told, None) {
                prop_assert!(found.from <= found.until);
            }
        }
    }
}
