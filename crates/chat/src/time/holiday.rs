//! Holidays that can be computed.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::calendar::Period;

enum Rule {
    /// Month and day.
    Fixed(i8, i8),
    /// Days after Easter Sunday.
    Easter(i64),
    /// Month, number of the weekday in it (-1 is the last), the weekday, days after it.
    Weekday(i8, i8, Weekday, i64),
}

/// Names as words without `'s`, longer names before those that they begin with. If countries
/// differ, the holiday of the United States is meant.
const HOLIDAYS: [(&[&str], Rule); 25] = [
    (&["christmas", "eve"], Rule::Fixed(12, 24)),
    (&["christmas", "day"], Rule::Fixed(12, 25)),
    (&["christmas"], Rule::Fixed(12, 25)),
    (&["xmas"], Rule::Fixed(12, 25)),
    (&["boxing", "day"], Rule::Fixed(12, 26)),
    (&["new", "year", "eve"], Rule::Fixed(12, 31)),
    (&["new", "year", "day"], Rule::Fixed(1, 1)),
    (&["new", "year"], Rule::Fixed(1, 1)),
    (&["halloween"], Rule::Fixed(10, 31)),
    (&["valentine", "day"], Rule::Fixed(2, 14)),
    (&["valentines", "day"], Rule::Fixed(2, 14)),
    (&["st", "patrick", "day"], Rule::Fixed(3, 17)),
    (&["independence", "day"], Rule::Fixed(7, 4)),
    (&["veterans", "day"], Rule::Fixed(11, 11)),
    (&["easter", "monday"], Rule::Easter(1)),
    (&["easter", "sunday"], Rule::Easter(0)),
    (&["easter"], Rule::Easter(0)),
    (&["good", "friday"], Rule::Easter(-2)),
    (&["ash", "wednesday"], Rule::Easter(-46)),
    (&["thanksgiving"], Rule::Weekday(11, 4, Weekday::Thursday, 0)),
    (&["black", "friday"], Rule::Weekday(11, 4, Weekday::Thursday, 1)),
    (&["memorial", "day"], Rule::Weekday(5, -1, Weekday::Monday, 0)),
    (&["labor", "day"], Rule::Weekday(9, 1, Weekday::Monday, 0)),
    (&["mother", "day"], Rule::Weekday(5, 2, Weekday::Sunday, 0)),
    (&["father", "day"], Rule::Weekday(6, 3, Weekday::Sunday, 0)),
];

/// A holiday, without its year.
#[derive(Clone, Copy)]
pub(super) struct Holiday(&'static Rule);

impl Holiday {
    /// Returns the holiday whose name `matches`, and the number of words of the name.
    pub(super) fn find(matches: impl Fn(&[&str]) -> bool) -> Option<(Self, usize)> {
        let (name, rule) = HOLIDAYS.iter().find(|(name, _)| matches(name))?;
        Some((Self(rule), name.len()))
    }

    /// Returns its day in `year`.
    pub(super) fn in_year(self, year: i16) -> Option<Period> {
        let date = match *self.0 {
            Rule::Fixed(month, day) => Date::new(year, month, day).ok()?,
            Rule::Easter(after) => easter(year)?.checked_add(after.days()).ok()?,
            Rule::Weekday(month, nth, weekday, after) => {
                let first = Date::new(year, month, 1).ok()?;
                let day = first.nth_weekday_of_month(nth, weekday).ok()?;
                day.checked_add(after.days()).ok()?
            }
        };
        Period::day(date)
    }
}

/// Computes Easter Sunday of the Gregorian calendar by the anonymous algorithm in Nature 13, 1876,
/// page 487. The variables are named by letters there, too.
fn easter(year: i16) -> Option<Date> {
    let year = i32::from(year);
    let a = year.rem_euclid(19);
    let (b, c) = (year.div_euclid(100), year.rem_euclid(100));
    let (d, e) = (b.div_euclid(4), b.rem_euclid(4));
    let f = (b + 8).div_euclid(25);
    let g = (b - f + 1).div_euclid(3);
    let h = (19 * a + b - d - g + 15).rem_euclid(30);
    let (i, k) = (c / 4, c % 4);
    let l = (32 + 2 * e + 2 * i - h - k).rem_euclid(7);
    let m = (a + 11 * h + 22 * l) / 451;
    let month = (h + l - 7 * m + 114) / 31;
    let day = (h + l - 7 * m + 114) % 31 + 1;
    Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn easter_is_on_the_days_that_almanacs_tell() {
        for day in [
            date(1818, 3, 22),
            date(1943, 4, 25),
            date(2000, 4, 23),
            date(2019, 4, 21),
            date(2023, 4, 9),
            date(2024, 3, 31),
            date(2025, 4, 20),
            date(2038, 4, 25),
        ] {
            assert_eq!(easter(day.year()), Some(day));
        }
    }
}
