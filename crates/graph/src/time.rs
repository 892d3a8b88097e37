//! Times, found by their shape.

use clew_core::{EntityKind, Span};
use clew_text::MONTHS;

use crate::Found;
use crate::word::{Word, Words};

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// Words before a year or a month that stands alone, because "May" and "March" are ordinary words,
/// too.
const BEFORE_TIMES: [&str; 18] = [
    "after", "around", "before", "between", "by", "circa", "during", "early", "from", "in", "last",
    "late", "next", "of", "since", "this", "to", "until",
];
/// Years that a preposition distinguishes from other numbers.
const YEARS: std::ops::RangeInclusive<u32> = 1000..=2100;

/// Returns the dates, years, months and days of a passage.
pub(crate) fn times(words: &Words<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.words.len() {
        match end_of_time(words, at) {
            Some(last) => {
                let span = Span::new(words.words[at].span.start, words.words[last].span.end);
                found.push(Found::new(span, EntityKind::Time));
                at = last + 1;
            }
            None => at += 1,
        }
    }
    found
}

/// Returns the last word of the time that begins with the word at `at`.
fn end_of_time(words: &Words<'_>, at: usize) -> Option<usize> {
    let word = &words.words[at];
    iso_date(words, at)
        .or_else(|| day_before_month(words, at))
        .or_else(|| month(words, at))
        .or_else(|| is_weekday(word).then_some(at))
        .or_else(|| is_decade(word).then_some(at))
        .or_else(|| stands_as_year(words, at).then_some(at))
}

/// Matches `2024-05-06`, without any time of day.
fn iso_date(words: &Words<'_>, at: usize) -> Option<usize> {
    let number = |at: usize, digits: usize| {
        words.words.get(at).is_some_and(|word| word.is_number(digits) && word.text.len() == digits)
    };
    let joined = |before: usize| words.gap(before, before + 1) == "-";
    let is_date = number(at, 4) && number(at + 1, 2) && number(at + 2, 2);
    (is_date && joined(at) && joined(at + 1)).then_some(at + 2)
}

/// Matches `5 May`, `5th of May 1840`.
fn day_before_month(words: &Words<'_>, at: usize) -> Option<usize> {
    if !is_day(&words.words[at]) {
        return None;
    }
    let month = match words.next(at)?.lower.as_str() {
        "of" => at + 2,
        _ => at + 1,
    };
    is_month(words.words.get(month)?).then(|| year_after(words, month).unwrap_or(month))
}

/// Matches `May 5, 1840`, `May 1840`, and a month alone if it can be nothing else.
fn month(words: &Words<'_>, at: usize) -> Option<usize> {
    if !is_month(&words.words[at]) {
        return None;
    }
    let day = words.next(at).filter(|next| is_day(next)).map(|_| at + 1);
    let year = year_after(words, day.unwrap_or(at));
    let is_alone_a_month = || {
        let before = words.previous(at).is_some_and(|word| is_before_times(&word.lower));
        before || !["may", "march", "august"].contains(&words.words[at].lower.as_str())
    };
    year.or(day).or_else(|| is_alone_a_month().then_some(at))
}

/// Returns the year that follows the word at `at`, with or without a comma.
fn year_after(words: &Words<'_>, at: usize) -> Option<usize> {
    let next = words.next(at)?;
    (is_year(next) && [",", ""].contains(&words.gap(at, at + 1).trim())).then_some(at + 1)
}

/// Returns whether a number is a year because of the word before it, and does not count anything.
fn stands_as_year(words: &Words<'_>, at: usize) -> bool {
    let counts = words.next(at).is_some_and(|next| {
        words.gap(at, at + 1) == " "
            && !next.is_capitalised()
            && !clew_text::is_grammar_word(&next.lower)
            && !clew_text::is_common_verb(&next.lower)
    });
    let before = words.previous(at);
    is_year(&words.words[at]) && !counts && before.is_some_and(|word| is_before_times(&word.lower))
}

fn is_before_times(lower: &str) -> bool {
    BEFORE_TIMES.binary_search(&lower).is_ok()
}

fn is_month(word: &Word<'_>) -> bool {
    word.is_capitalised() && MONTHS.contains(&word.lower.as_str())
}

fn is_weekday(word: &Word<'_>) -> bool {
    word.is_capitalised() && WEEKDAYS.contains(&word.lower.as_str())
}

fn is_day(word: &Word<'_>) -> bool {
    let digits = word.lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word.lower[digits.len()..];
    ["", "st", "nd", "rd", "th"].contains(&ending)
        && (1..=2).contains(&digits.len())
        && digits.parse::<u32>().is_ok_and(|day| (1..=31).contains(&day))
}

fn is_year(word: &Word<'_>) -> bool {
    word.text.len() == 4
        && word.is_number(4)
        && word.text.parse::<u32>().is_ok_and(|year| YEARS.contains(&year))
}

fn is_decade(word: &Word<'_>) -> bool {
    let year = word.text.strip_suffix('s').unwrap_or_default();
    year.len() == 4
        && year.ends_with('0')
        && year.bytes().all(|byte| byte.is_ascii_digit())
        && year.parse::<u32>().is_ok_and(|year| YEARS.contains(&year))
}
