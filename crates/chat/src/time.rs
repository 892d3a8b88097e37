//! Times in texts: which time a question asks about, and when something that was said happened
//! (LongMemEval, section 5.4). English rules without a model, which know few expressions and guess
//! none.
//!
//! Relative expressions are relative to a [`Moment`], the local time of the speaker. Ranges are
//! half-open.
//!
//! # Supported expressions
//!
//! - days: today, yesterday, the day before yesterday, tomorrow, tonight, last night, this morning;
//! - this, last, next with week, weekend, month, quarter, year, a season, month, weekday or
//!   holiday; the week before last; Tuesday of last week; this past Friday; over the weekend;
//! - counts, in digits or spelt: three days ago, a couple of weeks ago, a year and a half ago, in
//!   two weeks (if the sentence is about the future), in the last few months, two weeks before
//!   Christmas, the Friday after 3 May;
//! - dates: 3 May 2024, May 3rd, May 3-5, the 3rd, on Monday, in March and April, in 2023, summer
//!   2023, Q3 2023, holidays by name; 2024-05-03, 2024/05/03, 20240503, 2024-05, 05/03/2024, and
//!   ISO 8601 with times and offsets;
//! - parts: early, mid or late March, the end of the year, the first week of May, the second half
//!   of 2023;
//! - times of day of a named day: yesterday at 9 am, Monday evening, noon on 3 May, 2024-05-03
//!   14:30;
//! - bounds: since, before, after, until, by, as of; between X and Y, from X to Y.
//!
//! # Interpretation of ambiguous expressions
//!
//! - Weeks begin on Monday. "Last Friday" and "on Friday" are the nearest Friday before today;
//!   "next Friday" is the nearest after it. On a Saturday, "last weekend" is not the one that has
//!   just begun.
//! - Something that recurs every year, named without a year, is the latest one that has begun. If
//!   the verbs are in the future ("I will be there on Monday"), it is the next one that is not
//!   over, unless that is nine months away. In statements, as opposed to questions, and if the
//!   verbs do not decide ("the appointment on 1 April"), it is also the next one if the latest
//!   began more than nine months ago.
//! - "Two weeks ago" is the week around that day, "five days ago" the day, "a year ago" the year
//!   around it; "a few" are two to five. "In the last month" is the month until now, "last month"
//!   the calendar month.
//! - `05/03/2024` is 3 May, the month first as in the United States, unless only the other order is
//!   a date.
//! - Early, mid and late are thirds. Seasons are whole months of the northern hemisphere; a winter
//!   belongs to the year in which it begins. Morning is 5 to 12, afternoon 12 to 18, evening 17 to
//!   24, night 18 to 6.
//! - The zone is a fixed offset. If clocks were changed between the moment and the mentioned time,
//!   ranges are an hour off.
//!
//! # Unsupported expressions
//!
//! Durations ("a two-week trip"), habits ("every Monday", "on Tuesdays"), times of day alone, bare
//! months and years without a preposition ("May asked", "the 2025 final"), decades, ages, text in
//! quotation marks and words capitalised as in names ("The Day After Tomorrow"); "recently"; times
//! relative to something other than a date ("the next day", "a week after the trip"); sports
//! seasons; other languages.

mod calendar;
mod grammar;
mod holiday;
mod kind;
mod question;
mod tense;
#[cfg(test)]
mod tests;
mod word;

use clew_core::{Error, Span, TimeRange, Timestamp};
use jiff::civil::DateTime;
use jiff::tz::Offset;

pub use kind::Kind;
pub use question::asked_about;

use calendar::Which;
use grammar::{Found, Grammar};
use tense::Tense;
use word::Word;

/// A point in time, with the speaker's offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    local: DateTime,
    offset: Offset,
}

impl Moment {
    /// Creates the moment `time` where clocks are `offset_minutes` ahead of UTC.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the offset is a day or more, or if the
    /// time is outside the years -9999 to 9999.
    pub fn try_new(time: Timestamp, offset_minutes: i16) -> Result<Self, Error> {
        let is_offset = offset_minutes.unsigned_abs() < 24 * 60;
        let offset =
            Offset::from_seconds(i32::from(offset_minutes) * 60).ok().filter(|_| is_offset);
        let offset = offset.ok_or_else(|| Error::invalid("offset", "expected less than a day"))?;
        let time = jiff::Timestamp::from_microsecond(time.as_micros())
            .map_err(|_| Error::invalid("time", "expected a year from -9999 to 9999"))?;
        Ok(Self { local: offset.to_datetime(time), offset })
    }

    /// Returns `None` for a time without a timestamp: in the first or last hours of the calendar.
    fn timestamp(&self, local: DateTime) -> Option<Timestamp> {
        let time = self.offset.to_timestamp(local).ok()?;
        Some(Timestamp::from_micros(time.as_microsecond()))
    }

    fn range(&self, found: &Found) -> Option<TimeRange> {
        let side = |side: Option<DateTime>| match side {
            Some(local) => self.timestamp(local).map(Some),
            None => Some(None),
        };
        Some(TimeRange { from: side(found.from)?, until: side(found.until)? })
    }
}

/// An expression of time in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Position in the text.
    pub span: Span,
    /// Meaning of the expression. The range is never empty, and at least one side is not open.
    pub range: TimeRange,
    /// Context that the meaning depends on.
    pub kind: Kind,
}

/// Returns the times that a text mentions, in its order, as a speaker at the moment `at` means
/// them. They date the statements around them: "I went to the museum last Tuesday".
///
/// ```
/// use clew_chat::time::{Moment, mentions};
///
/// let told_at = Moment::try_new("2024-05-15T20:00:00Z".parse()?, 120)?;
/// let text = "I went to the museum last Tuesday.";
/// let mention = &mentions(text, told_at)[0];
/// assert_eq!(&text[mention.span.start..mention.span.end], "last Tuesday");
/// assert_eq!(mention.range.from, Some("2024-05-13T22:00:00Z".parse()?));
/// # Ok::<(), clew_core::Error>(())
/// ```
pub fn mentions(text: &str, at: Moment) -> Vec<Mention> {
    let words = word::words(text);
    let mention = |(begin, found): &(usize, Found)| {
        let span = Span::new(words[*begin].span.start, words[found.end - 1].span.end);
        Some(Mention { span, range: at.range(found)?, kind: found.kind })
    };
    found(text, &words, at, Which::Near).iter().filter_map(mention).collect()
}

/// Finds the expressions of a text, each with the index of its first word. `which` chooses the year
/// where the verbs do not decide.
fn found(text: &str, words: &[Word], at: Moment, which: Which) -> Vec<(usize, Found)> {
    let grammar = Grammar::new(text, words, at.local, at.offset);
    let tenses = tense::tenses(words);
    let mut all = Vec::new();
    let mut next = 0;
    while next < words.len() {
        let which = match tenses[next] {
            Tense::Past => Which::Latest,
            Tense::Future => Which::Coming,
            Tense::Unknown => which,
        };
        match grammar.choosing(which).found(next) {
            Some(found) => {
                let end = found.end;
                all.push((next, found));
                next = end;
            }
            None => next += 1,
        }
    }
    all
}

/// Length that replaces that of a range with an open side: a month.
const OPEN_LENGTH_MICROS: f32 = 30.0 * 86_400.0 * 1e6;

/// Returns how near `time` is to `range`, for raising the score of something that happened about
/// then. Inside the range it is 1. Outside it is `l / (l + d)`, where `d` is the distance and `l`
/// the length of the range, or 30 days if a side is open. It is one half at a distance of one
/// length. It never becomes 0, because a range may be wrong.
pub fn closeness(range: TimeRange, time: Timestamp) -> f32 {
    let micros =
        |from: Timestamp, until: Timestamp| until.saturating_since(from).as_micros() as f32;
    // The last microsecond of the range is one before its end.
    let distance = match (range.from, range.until) {
        (Some(from), _) if time < from => micros(time, from),
        (_, Some(until)) if time >= until => micros(until, time) + 1.0,
        _ => return 1.0,
    };
    let length = match (range.from, range.until) {
        (Some(from), Some(until)) => micros(from, until),
        _ => OPEN_LENGTH_MICROS,
    };
    length / (length + distance)
}
