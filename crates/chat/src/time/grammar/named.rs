//! Times named by their distance from now: "yesterday", "last week", "next Friday".

use jiff::civil::{Date, Weekday};

use super::super::calendar::{Period, Unit, Which, start};
use super::super::kind::Kind;
use super::super::word;
use super::{Grammar, Point};

impl Grammar<'_> {
    pub(super) fn named(&self, at: usize) -> Option<Point> {
        if self.is_name(at) {
            return None;
        }
        self.day(at).or_else(|| self.weekend(at)).or_else(|| self.next_to_now(at))
    }

    /// Reads "today", "the day before yesterday", "tonight".
    fn day(&self, at: usize) -> Option<Point> {
        let begin = self.past_the(at);
        let day_next_to = |distance, end| self.day_at(distance, end);
        if let Some(end) = self.phrase(begin, &["day", "before", "yesterday"]) {
            return (!self.is_name(end - 1)).then(|| day_next_to(-2, end))?;
        }
        if let Some(end) = self.phrase(begin, &["day", "after", "tomorrow"]) {
            return (!self.is_name(end - 1)).then(|| day_next_to(2, end))?;
        }
        match self.words[at].lower.as_str() {
            "today" => day_next_to(0, at + 1),
            "yesterday" => day_next_to(-1, at + 1),
            "tomorrow" => day_next_to(1, at + 1),
            "tonight" => day_next_to(0, at + 1)?.part_of_day("night"),
            _ => None,
        }
    }

    fn day_at(&self, distance: i64, end: usize) -> Option<Point> {
        let date = Unit::Day.shift(start(self.now.date()), distance)?.date();
        Some(Point { period: Period::day(date)?, kind: Kind::Relative, end })
    }

    /// Reads "over the weekend": the last one that has begun.
    fn weekend(&self, at: usize) -> Option<Point> {
        let is_placed = self.is_after(at, &["on", "over", "at", "during"]);
        let end = self.phrase(at, &["the", "weekend"]).filter(|_| is_placed)?;
        if self.is(end, &["before", "after", "of"]) || self.is_noun(end) {
            return None;
        }
        let this = Period::weekend(self.now.date())?;
        let is_this = matches!(self.which, Which::Coming) || this.from <= self.now;
        let distance = if is_this { 0 } else { -1 };
        Some(Point { period: self.weekend_at(distance)?, kind: Kind::Relative, end })
    }

    pub(super) fn weekend_at(&self, distance: i64) -> Option<Period> {
        Period::weekend(Unit::Week.shift(start(self.now.date()), distance)?.date())
    }

    /// Reads "last", "this" or "next", with the word after it.
    fn next_to_now(&self, at: usize) -> Option<Point> {
        let is_this = self.words[at].lower == "this";
        // The form "this past Friday".
        let marked =
            at + usize::from(is_this && self.is(at + 1, &["past", "last", "coming", "next"]));
        let distance = match self.words[marked].lower.as_str() {
            "last" | "past" | "previous" => -1,
            "this" => 0,
            "next" | "coming" | "upcoming" => 1,
            _ => return None,
        };
        let what = marked + 1;
        let lower = self.word(what)?;
        let end = what + 1;
        let relative = |period| Some(Point { period, kind: Kind::Relative, end });
        if let Some((unit, false)) = word::unit(lower) {
            return self.unit_next_to_now(at, unit, distance, end);
        }
        match lower {
            "weekend" if !self.is(end, &["of"]) => return relative(self.weekend_at(distance)?),
            "night" if distance == -1 => return self.day_at(-1, end)?.part_of_day(lower),
            "morning" | "afternoon" | "evening" if distance <= 0 => {
                return self.day_at(distance, end)?.part_of_day(lower);
            }
            _ => {}
        }
        // "The last March" and "the last Friday of" are not the ones next to now.
        if self.is_after(at, &["the"]) && !is_this {
            return None;
        }
        if let Some(weekday) = word::weekday(lower) {
            let is_habit = self.is(end, &["mornings", "afternoons", "evenings", "nights"]);
            return (!is_habit)
                .then(|| relative(Period::day(self.weekday_next_to(distance, weekday)?)?))?;
        }
        // The verb in "This may be". The month's name is capitalised.
        let is_verb = is_this && word::is_doubtful_month(lower) && !self.words[what].is_capitalised;
        if is_verb {
            return None;
        }
        let (yearly, end) = self.yearly(what)?;
        let in_year = |year| yearly.in_year(year);
        let period = match distance {
            -1 => {
                let back = (-1..=8_i16).map(|less| self.now.year().checked_sub(less));
                let mut past = back.filter_map(|year| in_year(year?));
                past.find(|period| period.until <= self.now)?
            }
            0 => {
                let year = self.now.year();
                let around = |period: &Period| period.from <= self.now && self.now < period.until;
                let winter = in_year(year.checked_sub(1)?).filter(around);
                winter.map_or_else(|| in_year(year), Some)?
            }
            _ => {
                let ahead = (0..=8_i16).map(|more| self.now.year().checked_add(more));
                let mut coming = ahead.filter_map(|year| in_year(year?));
                coming.find(|period| period.from > self.now)?
            }
        };
        Some(Point { period, kind: Kind::Relative, end })
    }

    /// Reads a unit next to now. "Last week" is the calendar week. "In the last week" and "this
    /// past week" are the seven days until now.
    fn unit_next_to_now(&self, at: usize, unit: Unit, distance: i64, end: usize) -> Option<Point> {
        let is_the = self.is_after(at, &["the"]);
        let is_past = self.words[at].lower == "past" || self.is(at + 1, &["past"]);
        let is_within = at > 1 && self.is_after(at - 1, &["in", "over", "during", "within", "for"]);
        // Not "the last week of the trip", "the next week I left".
        if unit < Unit::Week || self.is(end, &["of"]) || is_the && distance == 1 {
            return None;
        }
        if is_past || is_the && is_within && distance == -1 {
            return self.until_now(unit, 1, end);
        }
        let now = Unit::shift(unit, self.now, distance)?;
        Some(Point { period: unit.around(now)?, kind: Kind::Relative, end })
    }

    /// Returns the `count` units until now, including the rest of the day or minute.
    pub(super) fn until_now(&self, unit: Unit, count: i64, end: usize) -> Option<Point> {
        let rest = if unit < Unit::Day { Unit::Minute } else { Unit::Day };
        let from = unit.shift(self.now, -count)?;
        let from = if unit < Unit::Day { from } else { start(from.date()) };
        let period = Period::new(from, rest.around(self.now)?.until)?;
        Some(Point { period, kind: Kind::Relative, end })
    }

    /// Returns the nearest such weekday before or after today, or the one of this week.
    fn weekday_next_to(&self, distance: i64, weekday: Weekday) -> Option<Date> {
        let today = self.now.date();
        match distance {
            0 => Unit::Week.around(self.now)?.nth_weekday(1, weekday).map(|day| day.from.date()),
            -1 => today.nth_weekday(-1, weekday).ok(),
            _ => today.nth_weekday(1, weekday).ok(),
        }
    }
}
