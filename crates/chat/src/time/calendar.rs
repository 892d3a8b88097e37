//! Periods of the civil calendar. A result outside the calendar (years -9999 to 9999) is `None`.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    /// Returns the time `count` units after `time`, or before it if negative. A day that the
    /// resulting month lacks becomes its last day: a month before 31 March is the end of February.
    pub(super) fn shift(self, time: DateTime, count: i64) -> Option<DateTime> {
        let span = jiff::Span::new();
        let span = match self {
            Self::Minute => span.try_minutes(count),
            Self::Hour => span.try_hours(count),
            Self::Day => span.try_days(count),
            Self::Week => span.try_weeks(count),
            Self::Month => span.try_months(count),
            Self::Quarter => span.try_months(count.checked_mul(3)?),
            Self::Year => span.try_years(count),
        };
        time.checked_add(span.ok()?).ok()
    }

    /// Returns about half of the unit. Zero for a day, which is taken as a whole.
    pub(super) fn half(self) -> jiff::Span {
        match self {
            Self::Minute => 30.seconds(),
            Self::Hour => 30.minutes(),
            Self::Day => jiff::Span::new(),
            Self::Week => 3.days(),
            Self::Month => 15.days(),
            Self::Quarter => 45.days(),
            Self::Year => 6.months(),
        }
    }

    /// Returns the minute, hour, day, week, month, quarter or year of the calendar that contains
    /// `time`.
    pub(super) fn around(self, time: DateTime) -> Option<Period> {
        let date = time.date();
        let from = match self {
            Self::Minute => time.with().second(0).subsec_nanosecond(0).build().ok()?,
            Self::Hour => date.at(time.hour(), 0, 0, 0),
            Self::Day => start(date),
            Self::Week => {
                start(date.checked_sub(date.weekday().to_monday_zero_offset().days()).ok()?)
            }
            Self::Month => start(date.first_of_month()),
            Self::Quarter => {
                let month = (date.month() - 1) / 3 * 3 + 1;
                start(Date::new(date.year(), month, 1).ok()?)
            }
            Self::Year => start(date.first_of_year()),
        };
        Period::new(from, self.shift(from, 1)?)
    }
}

/// Returns the midnight at which `date` begins.
pub(super) fn start(date: Date) -> DateTime {
    date.at(0, 0, 0, 0)
}

/// A non-empty, half-open period of local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) from: DateTime,
    pub(super) until: DateTime,
}

impl Period {
    pub(super) fn new(from: DateTime, until: DateTime) -> Option<Self> {
        (from < until).then_some(Self { from, until })
    }

    pub(super) fn day(date: Date) -> Option<Self> {
        Self::days(date, 1)
    }

    pub(super) fn days(first: Date, count: i64) -> Option<Self> {
        Self::new(start(first), Unit::Day.shift(start(first), count)?)
    }

    pub(super) fn year(year: i16) -> Option<Self> {
        Self::months(year, 1, 12)
    }

    /// Returns `count` months, beginning with month `month` of `year`.
    pub(super) fn months(year: i16, month: i8, count: i64) -> Option<Self> {
        let from = start(Date::new(year, month, 1).ok()?);
        Self::new(from, Unit::Month.shift(from, count)?)
    }

    /// Returns Saturday and Sunday of the week that contains `date`.
    pub(super) fn weekend(date: Date) -> Option<Self> {
        let week = Unit::Week.around(start(date))?;
        Self::new(Unit::Day.shift(week.from, 5)?, week.until)
    }

    /// Returns the shortest period that contains both.
    pub(super) fn hull(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), until: self.until.max(other.until) }
    }

    fn day_count(self) -> i64 {
        let days = self.until.date().duration_since(self.from.date()).as_hours() / 24;
        days.max(1)
    }

    /// Returns the part from `numerator / denominator` of the period to the next such fraction, in
    /// whole days.
    pub(super) fn fraction(self, numerator: i64, denominator: i64) -> Option<Self> {
        let days = self.day_count();
        let at = |part: i64| Unit::Day.shift(self.from, days * part / denominator);
        Self::new(at(numerator)?, at(numerator + 1)?)
    }

    /// Returns the `nth` unit of the period: from its beginning, counted from 1, or from its end,
    /// counted from -1. Weeks are seven days, counted from the first or the last day.
    pub(super) fn nth(self, nth: i64, unit: Unit) -> Option<Self> {
        let (from, until) = if nth > 0 {
            let from = unit.shift(self.from, nth - 1)?;
            (from, unit.shift(from, 1)?)
        } else {
            let until = unit.shift(self.until, nth + 1)?;
            (unit.shift(until, -1)?, until)
        };
        Self::new(from.max(self.from), until.min(self.until))
    }

    /// Returns the `nth` such weekday from the beginning, counted from 1, or from the end, counted
    /// from -1.
    pub(super) fn nth_weekday(self, nth: i32, weekday: Weekday) -> Option<Self> {
        let day = if nth > 0 {
            self.from.date().yesterday().ok()?.nth_weekday(nth, weekday).ok()?
        } else {
            self.until.date().nth_weekday(nth, weekday).ok()?
        };
        let day = Self::day(day)?;
        (self.from <= day.from && day.until <= self.until).then_some(day)
    }
}

/// Choice of a year for something that recurs every year.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// The last that has begun.
    Latest,
    /// The last that has begun, if it began in the last nine months. Otherwise the coming one.
    Near,
    /// The first that is not over, if it begins in the next nine months. Otherwise the last that
    /// has begun.
    Coming,
    /// The first that does not begin before this time.
    NotBefore(DateTime),
    /// The one of the given year.
    Of(i16),
}

impl Which {
    /// Returns the chosen period at the time `now`. `in_year` returns the period of a year.
    pub(super) fn pick(
        self,
        now: DateTime,
        in_year: &dyn Fn(i16) -> Option<Period>,
    ) -> Option<Period> {
        // The nearest 29 February can be eight years away. A winter extends over two years.
        let years = |from: DateTime| (-1..=8_i16).map(move |more| from.year().checked_add(more));
        let back = (-1..=8_i16).map(|less| now.year().checked_sub(less));
        match self {
            Self::Latest => {
                back.filter_map(|year| in_year(year?)).find(|period| period.from <= now)
            }
            Self::Near => {
                let long_ago = Unit::Month.shift(now, -9)?;
                let latest = Self::Latest.pick(now, in_year);
                let latest = latest.filter(|latest| latest.from > long_ago);
                latest.or_else(|| Self::Coming.pick(now, in_year))
            }
            Self::Coming => {
                let far = Unit::Month.shift(now, 9)?;
                let mut coming = years(now).filter_map(|year| in_year(year?));
                let coming = coming.find(|period| period.until > now);
                let near = coming.filter(|coming| coming.from < far);
                near.or_else(|| Self::Latest.pick(now, in_year))
            }
            Self::NotBefore(time) => {
                years(time).filter_map(|year| in_year(year?)).find(|period| period.from >= time)
            }
            Self::Of(year) => in_year(year),
        }
    }
}

/// Returns a season by the meteorological months of the northern hemisphere. Winter is December to
/// February and belongs to the year in which it begins.
pub(super) fn season(year: i16, first_month: i8) -> Option<Period> {
    Period::months(year, first_month, 3)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn months_are_added_within_their_ends() {
        let shift =
            |from: Date, unit: Unit, count| unit.shift(start(from), count).map(|at| at.date());
        assert_eq!(shift(date(2023, 3, 31), Unit::Month, -1), Some(date(2023, 2, 28)));
        assert_eq!(shift(date(2024, 3, 31), Unit::Month, -1), Some(date(2024, 2, 29)));
        assert_eq!(shift(date(2024, 2, 29), Unit::Year, -1), Some(date(2023, 2, 28)));
        assert_eq!(shift(date(9999, 12, 31), Unit::Day, 1), None);
        assert_eq!(shift(date(2024, 1, 1), Unit::Year, i64::MAX), None);
        assert_eq!(shift(date(2024, 1, 1), Unit::Quarter, i64::MIN), None);
    }

    #[test]
    fn the_29th_of_february_is_found_over_a_century() {
        let leap_day = |year| Period::day(Date::new(year, 2, 29).ok()?);
        let now = start(date(1904, 2, 28));
        let picked = Which::Latest.pick(now, &leap_day).map(|period| period.from.date());
        assert_eq!(picked, Some(date(1896, 2, 29)));
    }
}
