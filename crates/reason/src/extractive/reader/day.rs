//! Writes a time that depends on when it was said, such as "yesterday", as the days that it means.

use clew_chat::time::{Kind, Mention, Moment, mentions};
use clew_core::{Span, TimeRange, Timestamp};
use clew_text::{MONTHS, is_grammar_word, words};

/// A day of the calendar: year, month from 1, and day from 1.
type Day = (i64, usize, u8);

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// First months of the seasons, as `clew_chat::time` understands them.
const SEASONS: [(usize, &str); 4] = [(3, "spring"), (6, "summer"), (9, "autumn"), (12, "winter")];

/// Returns the days that the words at `span` of `sentence` mean, if they are only a time and mean
/// another one when they are read than when they were said, at `told_at`.
pub(super) fn days_meant(sentence: &str, span: Span, told_at: Timestamp) -> Option<String> {
    let moment = Moment::try_new(told_at, 0).ok()?;
    let is_meant =
        |mention: &Mention| mention.kind != Kind::Absolute && is_only(sentence, span, mention.span);
    let mention = mentions(sentence, moment).into_iter().find(is_meant)?;
    written(mention.range, told_at)
}

/// Returns whether `span` shares words with `mention` and has no others but those of grammar.
fn is_only(sentence: &str, span: Span, mention: Span) -> bool {
    let words_of = |part: Span| -> Vec<Span> {
        let text = part.of(sentence).unwrap_or_default();
        words(text).map(|word| word.shifted(part.start)).collect()
    };
    let is_shared = |word: &Span| word.start < mention.end && mention.start < word.end;
    let is_grammar =
        |word: &Span| word.of(sentence).is_some_and(|word| is_grammar_word(&word.to_lowercase()));
    let words = words_of(span);
    words.iter().any(is_shared) && words.iter().all(|word| is_shared(word) || is_grammar(word))
}

/// Writes the days of a range, as people speak of them: "7 May 2023", "the week before 8 May 2023",
/// "May 2023", "the summer of 2022", "2022", or the first and the last day.
fn written(range: TimeRange, told_at: Timestamp) -> Option<String> {
    let (from, until) = (range.from?, range.until?);
    let days = |from: Timestamp, until: Timestamp| {
        (until.as_micros().saturating_sub(from.as_micros())).div_euclid(DAY_MICROS)
    };
    let is_before = until <= told_at && days(until, told_at) < 7;
    let season = |month: usize| SEASONS.iter().find(|(first, _)| *first == month);
    let last = Timestamp::from_micros(until.as_micros().saturating_sub(1));
    let [(year, month, day), next, last] = [calendar(from)?, calendar(until)?, calendar(last)?];
    let is_month = day == 1 && next.2 == 1 && (last.0, last.1) == (year, month);
    let is_year = (month, day) == (1, 1) && next == (year + 1, 1, 1);
    Some(if (year, month, day) == last {
        in_full(last)
    } else if is_month {
        format!("{} {year}", name(month))
    } else if is_year {
        year.to_string()
    } else if is_before && matches!(days(from, until), 2 | 7) {
        let what = if days(from, until) == 2 { "weekend" } else { "week" };
        format!("the {what} before {}", in_full(calendar(told_at)?))
    } else if let Some((_, season)) = season(month)
        && (day, next.2) == (1, 1)
        && (89..=92).contains(&days(from, until))
    {
        format!("the {season} of {year}")
    } else if days(from, until) >= 365 {
        let half = until.as_micros().saturating_sub(from.as_micros()) / 2;
        let middle = Timestamp::from_micros(from.as_micros().saturating_add(half));
        format!("about {}", calendar(middle)?.0)
    } else {
        format!("{} to {}", in_full((year, month, day)), in_full(last))
    })
}

fn in_full((year, month, day): Day) -> String {
    format!("{day} {} {year}", name(month))
}

/// Returns the name of a month with a capital.
fn name(month: usize) -> String {
    let name = MONTHS.get(month.saturating_sub(1)).copied().unwrap_or_default();
    let (first, rest) = name.split_at(name.len().min(1));
    format!("{}{rest}", first.to_uppercase())
}

/// Returns the day of a time, in UTC; `None` before the year 0.
fn calendar(time: Timestamp) -> Option<Day> {
    let written = time.to_string();
    let mut parts = written.split('T').next()?.split('-');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (number()?, number()?, number()?);
    Some((year, usize::try_from(month).ok()?, u8::try_from(day).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meant(sentence: &str, words: &str) -> Option<String> {
        let start = sentence.find(words).unwrap();
        let told_at = "2023-05-08T18:00:00Z".parse().unwrap();
        days_meant(sentence, Span::new(start, start + words.len()), told_at)
    }

    #[test]
    fn times_of_the_speaker_become_days() {
        for (sentence, words, expected) in [
            ("I went there yesterday.", "yesterday", Some("7 May 2023")),
            ("I went there last year.", "last year", Some("2022")),
            ("I went there last month.", "last month", Some("April 2023")),
            ("I went there last week.", "last week", Some("the week before 8 May 2023")),
            ("I went there last weekend.", "last weekend", Some("the weekend before 8 May 2023")),
            ("I went there last summer.", "last summer", Some("the summer of 2022")),
            ("I began five years ago.", "five years ago", Some("about 2018")),
            ("I went there on Friday.", "on Friday", Some("5 May 2023")),
            ("I went there on 3 May 2023.", "3 May 2023", None),
            ("I went to Tara yesterday.", "to Tara yesterday", None),
            ("I went to Tara yesterday.", "Tara", None),
        ] {
            assert_eq!(meant(sentence, words).as_deref(), expected, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn any_time_is_written_or_not(micros: i64, from in 0usize..20, length in 0usize..20) {
            let (text, span) = ("I went on Friday or last year", Span::new(from, from + length));
            let _ = days_meant(text, span, Timestamp::from_micros(micros));
        }
    }
}
