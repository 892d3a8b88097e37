//! Laws that hold for any text at any time.

use clew_core::{TimeRange, Timestamp};
use proptest::prelude::*;

use super::super::{Kind, Moment, asked_about, closeness, mentions};
use super::moment;

/// Generates texts from words of expressions and separators.
fn expressions() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "last",
        "next",
        "this",
        "the",
        "two",
        "3",
        "31",
        "29",
        "9999",
        "0",
        "a",
        "few",
        "half",
        "couple",
        "of",
        "day",
        "days",
        "week",
        "weekend",
        "months",
        "year",
        "years",
        "ago",
        "before",
        "after",
        "since",
        "until",
        "by",
        "between",
        "from",
        "to",
        "and",
        "in",
        "on",
        "at",
        "May",
        "march",
        "Feb",
        "February",
        "Monday",
        "Friday",
        "morning",
        "night",
        "noon",
        "9",
        "am",
        "14:30",
        "99:99",
        "end",
        "early",
        "first",
        "summer",
        "winter",
        "Q4",
        "Christmas",
        "Eve",
        "Easter",
        "yesterday",
        "today",
        "2024",
        "1900",
        "2024-02-30",
        "2024-12-31T23:59:60Z",
        "20240101",
        "7/22",
        "1/1/2000",
        "é",
        "\"",
        "'",
        "every",
        "will",
        "was",
        "now",
        "2,2024",
        "years'",
        "31st",
    ]);
    let gap = prop::sample::select(vec![" ", " ", " ", " ", ", ", "-", ". ", ":", "/", "’s ", ""]);
    prop::collection::vec((word, gap), 0..24)
        .prop_map(|parts| parts.into_iter().map(|(word, gap)| format!("{word}{gap}")).collect())
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![3 => expressions(), 1 => any::<String>()]
}

fn moments() -> impl Strategy<Value = Moment> {
    let (first, last) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    let (first, last) = (first.as_microsecond(), last.as_microsecond());
    let ordinary = 0..4_000_000_000_000_000_i64;
    let time = prop_oneof![Just(first), Just(last), ordinary, first..last];
    (time, -1439..1440_i16).prop_filter_map("outside the calendar", |(time, offset)| {
        Moment::try_new(Timestamp::from_micros(time), offset).ok()
    })
}

fn is_filled(range: TimeRange) -> bool {
    match (range.from, range.until) {
        (Some(from), Some(until)) => from < until,
        (from, until) => from.is_some() || until.is_some(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn expressions_lie_in_the_text_and_mean_something(text in texts(), at in moments()) {
        let mut end = 0;
        for mention in mentions(&text, at) {
            prop_assert!(mention.span.start >= end);
            prop_assert!(!text[mention.span.start..mention.span.end].is_empty());
            prop_assert!(is_filled(mention.range));
            end = mention.span.end;
        }
        prop_assert!(asked_about(&text, at).is_none_or(is_filled));
    }

    #[test]
    fn what_names_its_year_means_the_same_at_any_time(text in texts(), now in moments(), then in moments()) {
        let absolute = |at: Moment| {
            let all = mentions(&text, Moment { offset: jiff::tz::Offset::UTC, ..at }).into_iter();
            all.filter(|mention| mention.kind == Kind::Absolute).collect::<Vec<_>>()
        };
        let others = absolute(then);
        for one in absolute(now) {
            let same = others.iter().find(|other| other.span == one.span);
            prop_assert!(same.is_none_or(|other| other.range == one.range));
        }
    }

    #[test]
    fn no_range_is_found_in_other_words(
        words in prop::collection::vec(prop::sample::select(vec![
            "what", "did", "I", "cook", "for", "my", "sister", "and", "when", "was", "it", "before", "the",
            "trip", "since", "we", "moved", "how", "long", "between", "a", "from", "to", "of", "last",
        ]), 0..20),
        at in moments(),
    ) {
        prop_assert_eq!(asked_about(&words.join(" "), at), None);
    }

    #[test]
    fn closeness_is_a_share_that_falls_with_distance(
        from in any::<i64>(), length in 1..i64::MAX, near in any::<i64>(), far in any::<i64>(),
    ) {
        let range = TimeRange {
            from: Some(Timestamp::from_micros(from)),
            until: Some(Timestamp::from_micros(from.saturating_add(length))),
        };
        let at = |time| closeness(range, Timestamp::from_micros(time));
        for time in [near, far] {
            prop_assert!((0.0..=1.0).contains(&at(time)));
        }
        if near.max(far) < from || near.min(far) > from.saturating_add(length) {
            let (near, far) = if near.abs_diff(from) < far.abs_diff(from) { (near, far) } else { (far, near) };
            prop_assert!(at(near) >= at(far));
        }
    }
}

#[test]
fn closeness_halves_at_one_length() {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let may = TimeRange { from: Some(time("2024-05-01")), until: Some(time("2024-06-01")) };
    assert_eq!(closeness(may, time("2024-05-01")), 1.0);
    assert!(closeness(may, time("2024-06-02")) < 1.0);
    // Within a relative error of 1e-6: f32 has 24 bits.
    assert!((closeness(may, time("2024-03-31")) - 0.5).abs() < 1e-6);
    let since = TimeRange { from: may.from, until: None };
    assert!((closeness(since, time("2024-04-01")) - 0.5).abs() < 1e-6);
    assert_eq!(closeness(TimeRange::default(), time("2024-04-01")), 1.0);
}

#[test]
fn spans_and_kinds_are_told() {
    let text = "Très bien: I met Zoë last week, on 3 May 2024 and in March.";
    let told: Vec<_> = mentions(text, moment("2024-05-15T10:00:00Z"))
        .into_iter()
        .map(|mention| (&text[mention.span.start..mention.span.end], mention.kind))
        .collect();
    let expected =
        [("last week", Kind::Relative), ("3 May 2024", Kind::Absolute), ("March", Kind::Recurring)];
    assert_eq!(told, expected);
}

#[test]
fn long_nested_texts_overflow_no_stack() {
    let at = moment("2024-05-15T10:00:00Z");
    for part in [
        "the end of ",
        "two weeks before ",
        "in March and ",
        "I will and ",
        "\"",
        "2024-",
        "2024+",
        "1/",
        "from ",
    ] {
        mentions(&part.repeat(1_000), at);
    }
}

#[test]
fn moments_outside_the_calendar_are_refused() {
    assert!(Moment::try_new(Timestamp::from_micros(i64::MAX), 0).is_err());
    assert!(Moment::try_new(Timestamp::from_micros(0), 24 * 60).is_err());
    assert!(Moment::try_new(Timestamp::from_micros(0), i16::MIN).is_err());
}
