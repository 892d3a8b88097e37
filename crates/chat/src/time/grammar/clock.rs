//! Times of day. Alone they are not points in time, because they recur every day.

use super::super::calendar::{Period, Unit};
use super::super::word::{self, Gap};
use super::{Grammar, Place, Point};

/// Start in minutes after midnight, and length in minutes.
#[derive(Clone, Copy)]
struct Stretch {
    from: i64,
    minutes: i64,
}

const HOUR: i64 = 60;

impl Grammar<'_> {
    /// Reads "9 am on X", "noon yesterday", "the morning of X".
    pub(super) fn clocked(&self, at: usize) -> Option<Point> {
        let begin = self.past_the(at);
        let (stretch, end) = match self.clock(at) {
            Some((stretch, end)) => {
                (stretch, if self.is(end, &["on", "of"]) { end + 1 } else { end })
            }
            None => {
                let stretch = part_of_day(&self.words[begin].lower)?;
                self.is(begin + 1, &["of", "on"]).then_some((stretch, begin + 2))?
            }
        };
        self.goes_on(end).then_some(())?;
        let inner = Self { depth: self.depth.checked_sub(1)?, ..*self };
        let day = inner.named(end).or_else(|| inner.dated(end, Place::AfterTimeWord))?;
        day.within(stretch, day.end)
    }

    /// Narrows `point` to the time of day that follows it, if it is a day and one follows.
    pub(super) fn at_time_of_day(&self, point: Point) -> Point {
        self.time_of_day(point.end)
            .and_then(|(stretch, end)| point.within(stretch, end))
            .unwrap_or(point)
    }

    /// Reads "at 9 am", ", 14:30", "morning", "in the evening".
    fn time_of_day(&self, at: usize) -> Option<(Stretch, usize)> {
        let word = self.words.get(at)?;
        let at = match word.lower.as_str() {
            "at" | "around" | "about" if self.goes_on(at + 1) => at + 1,
            _ if word.gap == Gap::Break || word.gap == Gap::Sentence => return None,
            _ => at,
        };
        let in_the =
            self.phrase(at, &["in", "the"]).or_else(|| self.phrase(at, &["during", "the"]));
        let part = in_the.unwrap_or(at);
        let named = || {
            let word = self.words.get(part).filter(|word| !word.is_capitalised)?;
            self.word(part)?;
            part_of_day(&word.lower).map(|stretch| (stretch, part + 1))
        };
        self.clock(at).or_else(named)
    }

    /// Reads "9 am", "9:30pm", "14:30", "9 o'clock", "noon".
    fn clock(&self, at: usize) -> Option<(Stretch, usize)> {
        let word = self.words.get(at)?.lower.as_str();
        match word {
            "noon" | "midday" => return Some((Stretch { from: 12 * HOUR, minutes: HOUR }, at + 1)),
            // The midnight at which the day ends.
            "midnight" => return Some((Stretch { from: 24 * HOUR, minutes: HOUR }, at + 1)),
            _ => {}
        }
        let half_day = |word: &str| matches!(word, "am" | "pm" | "a.m" | "p.m" | "a" | "p");
        let number = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let hour = i64::from(word::digits(number, 1..=2)?);
        if number.len() < word.len() {
            let half = word[number.len()..].trim_start_matches('.');
            return half_day(half)
                .then(|| stretch(hour, None, Some(half)).map(|found| (found, at + 1)))?;
        }
        let is_colon = self.words.get(at + 1).is_some_and(|word| word.gap == Gap::Colon);
        let (minute, mut end) = if is_colon {
            let word = self.words[at + 1].lower.as_str();
            let digits = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            let minute = i64::from(word::digits(digits, 2..=2)?);
            if digits.len() < word.len() {
                let half = &word[digits.len()..];
                let found = stretch(hour, Some(minute), Some(half).filter(|half| half_day(half)))?;
                return half_day(half).then_some((found, at + 2));
            }
            (Some(minute), at + 2)
        } else {
            (None, at + 1)
        };
        // The seconds of 14:30:59 are ignored.
        if minute.is_some() && self.words.get(end).is_some_and(|word| word.gap == Gap::Colon) {
            end += 1;
        }
        let half = self.word(end).filter(|word| half_day(word) && word.len() > 1);
        let is_hour = minute.is_some() || half.is_some() || self.is(end, &["o'clock"]);
        let end = end + usize::from(half.is_some() || self.is(end, &["o'clock"]));
        is_hour.then(|| stretch(hour, minute, half).map(|found| (found, end)))?
    }
}

fn stretch(hour: i64, minute: Option<i64>, half: Option<&str>) -> Option<Stretch> {
    let hour = match half {
        None => (0..24).contains(&hour).then_some(hour)?,
        Some(half) => {
            (1..=12).contains(&hour).then_some(())?;
            hour % 12 + if half.starts_with('p') { 12 } else { 0 }
        }
    };
    let from = hour * HOUR + minute.filter(|minute| *minute < HOUR).unwrap_or(0);
    let minutes = if minute.is_some() { 1 } else { HOUR };
    minute.is_none_or(|minute| minute < HOUR).then_some(Stretch { from, minutes })
}

fn part_of_day(lower: &str) -> Option<Stretch> {
    let (from, until) = match lower {
        "morning" => (5, 12),
        "afternoon" => (12, 18),
        "evening" => (17, 24),
        "night" => (18, 30),
        _ => return None,
    };
    Some(Stretch { from: from * HOUR, minutes: (until - from) * HOUR })
}

impl Point {
    /// Returns the given part of the day that this point is. Returns `None` if it is not a day.
    fn within(self, stretch: Stretch, end: usize) -> Option<Self> {
        let is_day = Unit::Day.shift(self.period.from, 1)? == self.period.until;
        is_day.then_some(())?;
        let from = Unit::Minute.shift(self.period.from, stretch.from)?;
        let period = Period::new(from, Unit::Minute.shift(from, stretch.minutes)?)?;
        Some(Self { period, end, ..self })
    }

    /// Returns the morning, the night and so on of the day that this point is.
    pub(super) fn part_of_day(self, lower: &str) -> Option<Self> {
        self.within(part_of_day(lower)?, self.end)
    }
}
