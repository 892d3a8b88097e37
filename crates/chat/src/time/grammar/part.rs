//! Parts of a period: "early March", "the end of the year", "the first week of May".

use jiff::civil::Weekday;

use super::super::calendar::{Period, Unit, start};
use super::super::kind::Kind;
use super::super::word;
use super::{Grammar, Place, Point};

impl Grammar<'_> {
    pub(super) fn part(&self, at: usize) -> Option<Point> {
        self.third(at).or_else(|| self.nth(at))
    }

    /// Reads a third of a period: its beginning, middle or end.
    fn third(&self, at: usize) -> Option<Point> {
        let third = |lower: &str| match lower {
            "beginning" | "start" => Some(0),
            "middle" => Some(1),
            "end" => Some(2),
            _ => None,
        };
        let begin = self.past_the(at);
        let (third, joint) = match self.words[at].lower.as_str() {
            "early" => (0, at + 1),
            "mid" => (1, at + 1),
            "late" => (2, at + 1),
            _ => {
                let third = third(&self.words[begin].lower)?;
                self.is(begin + 1, &["of"]).then_some((third, begin + 1))?
            }
        };
        let whole = self.whole(joint + usize::from(self.is(joint, &["of", "in"])))?;
        // "Early last night" and "the end of Monday" are not parts in whole days.
        let period = whole.period.fraction(third, 3)?;
        Some(Point { period, ..whole })
    }

    /// Reads "the second half of X", "the first Monday of X", "the last two weeks of X".
    fn nth(&self, at: usize) -> Option<Point> {
        let begin = self.past_the(at);
        let nth = word::ordinal(&self.words[begin].lower)?;
        let counted = self.word(begin + 1)?;
        let (count, what) = match word::number(counted) {
            Some(count) => (count, begin + 2),
            None => (1, begin + 1),
        };
        let lower = self.word(what)?;
        let end = what + 1;
        self.is(end, &["of", "in"]).then_some(())?;
        let whole = self.whole(end + 1)?;
        let of = whole.period;
        let days = of.until.date().duration_since(of.from.date()).as_hours() / 24;
        let index = |parts: i64| if nth > 0 { nth - 1 } else { parts - 1 };
        let period = match (lower, word::unit(lower)) {
            ("half", _) => of.fraction(index(2).min(1), 2)?,
            ("weekend", _) => {
                let saturday = of.nth_weekday(i32::try_from(nth).ok()?, Weekday::Saturday)?;
                Period::days(saturday.from.date(), 2)?
            }
            (_, Some((Unit::Quarter, false))) if days > 360 && index(4) < 4 => {
                let from = Unit::Quarter.shift(of.from, index(4))?;
                Unit::Quarter.around(from)?
            }
            (_, Some((unit, _))) if unit >= Unit::Day && count > 1 && (nth == 1 || nth == -1) => {
                let (from, until) = if nth == 1 {
                    (of.from, unit.shift(of.from, count)?)
                } else {
                    (unit.shift(of.until, -count)?, of.until)
                };
                Period::new(from.max(of.from), until.min(of.until))?
            }
            (_, Some((unit @ (Unit::Day | Unit::Week | Unit::Month), false))) if count == 1 => {
                of.nth(nth, unit)?
            }
            _ => of.nth_weekday(i32::try_from(nth).ok()?, word::weekday(lower)?)?,
        };
        Some(Point { period, ..whole })
    }

    /// Reads the period to be divided: one of a few days at least, or "the month" and similar for
    /// the current one.
    fn whole(&self, at: usize) -> Option<Point> {
        self.goes_on(at).then_some(())?;
        let unit = self.phrase(at, &["the"]).and_then(|at| word::unit(self.word(at)?));
        if let Some((unit @ (Unit::Week | Unit::Month | Unit::Quarter | Unit::Year), false)) = unit
            && !self.is(at + 2, &["of", "before", "after"])
        {
            return Some(Point {
                period: unit.around(self.now)?,
                kind: Kind::Relative,
                end: at + 2,
            });
        }
        let whole = self.point(at, Place::AfterTimeWord)?;
        let is_divisible =
            Unit::Day.shift(start(whole.period.from.date()), 3)? <= whole.period.until;
        is_divisible.then_some(whole)
    }
}
