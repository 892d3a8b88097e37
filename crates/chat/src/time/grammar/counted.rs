//! Times at a counted distance: "two weeks ago", "in the last few months", "three days before
//! Christmas".

use jiff::civil::{DateTime, Weekday};

use super::super::calendar::{Period, Unit, Which, start};
use super::super::kind::Kind;
use super::super::word::{self, Gap};
use super::{Grammar, Place, Point};

/// A number of units. Both bounds are equal if it is exact.
#[derive(Clone, Copy)]
struct Count {
    least: i64,
    most: i64,
}

/// A number of units of time, named by words that end before the word `end`.
#[derive(Clone, Copy)]
struct Amount {
    count: Count,
    unit: Unit,
    end: usize,
}

impl Grammar<'_> {
    pub(super) fn counted(&self, at: usize) -> Option<Point> {
        self.away(at).or_else(|| self.last_units(at)).or_else(|| self.next_to_other(at))
    }

    /// Reads "two weeks ago", "three days before X", "two months from now".
    fn away(&self, at: usize) -> Option<Point> {
        // "A week" in "half a week".
        if self.is_after(at, &["half"]) {
            return None;
        }
        let amount = self.amount(at)?;
        let end = amount.end + 1;
        let direction = match self.word(amount.end) {
            Some("ago" | "back") => return self.around(self.now, amount, -1, Kind::Relative, end),
            Some("from") if self.is(end, &["now", "today"]) => {
                return self.around(self.now, amount, 1, Kind::Relative, end + 1);
            }
            Some("before") => -1,
            Some("after") => 1,
            // Only in the future: "I built it in two weeks" tells how long it took.
            _ if matches!(self.which, Which::Coming) && self.is_after(at, &["in"]) => {
                return self.around(self.now, amount, 1, Kind::Relative, amount.end);
            }
            _ => return None,
        };
        self.goes_on(end).then_some(())?;
        let other = self.point(end, Place::AfterTimeWord)?;
        self.around(other.period.from, amount, direction, other.kind, other.end)
    }

    /// Returns a period of one unit with the counted time at its middle: people who say "two weeks
    /// ago" have not counted the days. For an inexact count, it extends from the middle of the
    /// first unit to the middle of the last.
    fn around(
        &self,
        time: DateTime,
        amount: Amount,
        direction: i64,
        kind: Kind,
        end: usize,
    ) -> Option<Point> {
        let Amount { count, unit, .. } = amount;
        let (first, last) =
            if direction < 0 { (count.most, count.least) } else { (count.least, count.most) };
        let (first, last) =
            (unit.shift(time, direction * first)?, unit.shift(time, direction * last)?);
        let (from, until) =
            (first.checked_sub(unit.half()).ok()?, last.checked_add(unit.half()).ok()?);
        let period = Period::new(from, until);
        let period = if unit < Unit::Day {
            period?
        } else {
            Period::new(start(from.date()), Unit::Day.around(until)?.until)?
        };
        Some(Point { period, kind, end })
    }

    /// Returns whether the count at `at` is back from now and "more than" or a similar phrase
    /// precedes it.
    pub(super) fn counts_at_least(&self, at: usize, end: usize) -> bool {
        let is_ago = self.words.get(end.wrapping_sub(1)).is_some_and(|word| word.lower == "ago");
        is_ago && self.is_after(at, &["over", "than", "least"])
    }

    /// Reads "in the last two weeks", "past few months", "next three days".
    fn last_units(&self, at: usize) -> Option<Point> {
        if self.is_name(at) {
            return None;
        }
        let begin = self.past_the(at);
        let is_past = match self.words[begin].lower.as_str() {
            "last" | "past" | "previous" => true,
            "next" | "coming" => false,
            _ => return None,
        };
        self.goes_on(begin + 1).then_some(())?;
        let Amount { count, unit, end } = self.amount(begin + 1)?;
        // "The last two days of the trip" is excluded, and so is "the next two weeks I left", which
        // can be any time.
        if self.is(end, &["of"]) || count.most < 1 {
            return None;
        }
        if is_past {
            return self.until_now(unit, count.most, end);
        }
        let is_within = self.is_after(at, &["in", "over", "during", "within", "for"]);
        let period = Period::new(self.now, unit.shift(self.now, count.most)?)?;
        is_within.then_some(Point { period, kind: Kind::Relative, end })
    }

    /// Reads "the week before X", "the Friday after X", "last weekend before X", "the week of X".
    fn next_to_other(&self, at: usize) -> Option<Point> {
        let is_marked = matches!(self.words[at].lower.as_str(), "the" | "last" | "first");
        let begin = if is_marked && self.goes_on(at + 1) { at + 1 } else { at };
        let lower = self.words[begin].lower.as_str();
        let what = What::of(lower)?;
        let direction = self.word(begin + 1).filter(|_| is_marked)?;
        // "The week before last", but not "the week before last Friday".
        if direction == "before"
            && self.is(begin + 2, &["last"])
            && !self.goes_on_as_time(begin + 3)
        {
            let period = match what {
                What::Unit(unit) if unit >= Unit::Week => unit.around(unit.shift(self.now, -2)?)?,
                What::Weekend => self.weekend_at(-2)?,
                What::Unit(_) | What::Weekday(_) => return None,
            };
            return Some(Point { period, kind: Kind::Relative, end: begin + 3 });
        }
        self.goes_on(begin + 2).then_some(())?;
        matches!(direction, "before" | "after" | "of").then_some(())?;
        let other = self.point(begin + 2, Place::AfterTimeWord)?;
        let (from, until) = (other.period.from, other.period.until);
        let week = |time, count| Period::weekend(Unit::Week.shift(time, count)?.date());
        let period = match (what, direction) {
            (What::Unit(Unit::Week), "of") => Unit::Week.around(from)?,
            (What::Unit(unit), "before") if unit >= Unit::Day => {
                Period::new(unit.shift(from, -1)?, from)?
            }
            (What::Unit(unit), "after") if unit >= Unit::Day => {
                Period::new(until, unit.shift(until, 1)?)?
            }
            (What::Weekday(day), "before") => Period::day(from.date().nth_weekday(-1, day).ok()?)?,
            (What::Weekday(day), "after") => {
                Period::day(until.date().yesterday().ok()?.nth_weekday(1, day).ok()?)?
            }
            (What::Weekend, "before") => {
                week(from, 0).filter(|end| end.until <= from).or_else(|| week(from, -1))?
            }
            (What::Weekend, "after") => {
                week(until, 0).filter(|end| end.from >= until).or_else(|| week(until, 1))?
            }
            _ => return None,
        };
        Some(Point { period, kind: other.kind, end: other.end })
    }

    fn goes_on_as_time(&self, at: usize) -> bool {
        self.word(at).is_some_and(|lower| What::of(lower).is_some()) || self.named(at - 1).is_some()
    }

    /// Reads "two weeks", "a few days", "two or three months", "a year and a half".
    fn amount(&self, at: usize) -> Option<Amount> {
        if self.words[at].lower == "half" && self.is(at + 1, &["a", "an"]) {
            let (unit, _) = word::unit(self.word(at + 2)?)?;
            let (unit, halves) = halved(unit)?;
            return Amount::exactly(halves, unit, at + 3);
        }
        let (count, end) = self.count(at)?;
        // "A two-week trip" is not an amount.
        let is_apart = self.words.get(end)?.gap == Gap::Space;
        let half = self.phrase(end, &["and", "a", "half"]);
        let (unit, _) =
            word::unit(self.words.get(half.unwrap_or(end)).filter(|_| is_apart)?.lower.as_str())?;
        let end = half.unwrap_or(end) + 1;
        match half.or_else(|| self.phrase(end, &["and", "a", "half"])) {
            Some(after) => {
                let (smaller, halves) = halved(unit)?;
                Amount::exactly(count.least * 2 * halves + halves, smaller, end.max(after))
            }
            None => Some(Amount { count, unit, end }),
        }
    }

    /// Reads a count. Only "few" and similar words are inexact. Their values are a guess, rather
    /// too wide than wrong.
    fn count(&self, at: usize) -> Option<(Count, usize)> {
        let inexact = |least, most, end| Some((Count { least, most }, end));
        let begin = if matches!(self.words[at].lower.as_str(), "a" | "the") { at + 1 } else { at };
        match self.words.get(begin)?.lower.as_str() {
            "couple" => {
                let end = if self.is(begin + 1, &["of"]) { begin + 2 } else { begin + 1 };
                return inexact(2, 3, end);
            }
            "few" => return inexact(2, 5, begin + 1),
            "several" => return inexact(3, 8, begin + 1),
            _ => {}
        }
        if matches!(self.words[at].lower.as_str(), "a" | "an") {
            return inexact(1, 1, at + 1);
        }
        let (least, end) = self.number(at)?;
        let is_range = self.is(end, &["to", "or"]);
        let is_dash = self.words.get(end)?.gap == Gap::Hyphen;
        let second = match (is_range, is_dash) {
            (true, _) if end + 1 < self.words.len() => self.number(end + 1),
            (_, true) => self.number(end),
            _ => None,
        };
        match second {
            Some((most, end)) if most >= least => inexact(least, most, end),
            _ => inexact(least, least, end),
        }
    }

    /// Reads "14", "fourteen", "twenty-one".
    fn number(&self, at: usize) -> Option<(i64, usize)> {
        let number = word::number(&self.words[at].lower)?;
        let is_spelt_tens = number >= 20
            && number % 10 == 0
            && !self.words[at].lower.starts_with(|first: char| first.is_ascii_digit());
        let ones = self.words.get(at + 1).filter(|word| is_spelt_tens && word.gap == Gap::Hyphen);
        match ones.and_then(|word| word::number(&word.lower)).filter(|ones| *ones < 10) {
            Some(ones) => Some((number + ones, at + 2)),
            None => Some((number, at + 1)),
        }
    }
}

impl Amount {
    fn exactly(count: i64, unit: Unit, end: usize) -> Option<Self> {
        Some(Self { count: Count { least: count, most: count }, unit, end })
    }
}

/// Returns half of a unit, counted in a smaller one.
fn halved(unit: Unit) -> Option<(Unit, i64)> {
    match unit {
        Unit::Year => Some((Unit::Month, 6)),
        Unit::Hour => Some((Unit::Minute, 30)),
        Unit::Day => Some((Unit::Hour, 12)),
        Unit::Month => Some((Unit::Day, 15)),
        Unit::Minute | Unit::Week | Unit::Quarter => None,
    }
}

#[derive(Clone, Copy)]
enum What {
    Unit(Unit),
    Weekend,
    Weekday(Weekday),
}

impl What {
    fn of(lower: &str) -> Option<Self> {
        let unit = || word::unit(lower).filter(|(_, is_plural)| !is_plural);
        match lower {
            "weekend" => Some(Self::Weekend),
            _ => word::weekday(lower)
                .map(Self::Weekday)
                .or_else(|| unit().map(|(unit, _)| Self::Unit(unit))),
        }
    }
}
