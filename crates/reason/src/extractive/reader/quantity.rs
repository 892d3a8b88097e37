//! Days and measures in the words of answers, for comparing them.

use clew_text::{month, spelt_number};

use super::shown::lower_words;
use crate::extractive::plain::plain;

/// A quantity that can be compared with another of its kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Quantity {
    /// A day, or as much of it as is known: year, month from 1, and day from 1.
    Day(i64, Option<u8>, Option<u8>),
    /// A number with its unit, in lower case; without a unit the text is empty.
    Measure(f64, String),
}

/// Words that multiply the number before them.
const FACTORS: [(&str, f64); 4] =
    [("hundred", 1e2), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)];
/// Least and greatest number that is a year.
const YEARS: std::ops::RangeInclusive<i64> = 100..=2999;

impl Quantity {
    /// Returns the day that `text` names, if it has a year of our era.
    pub(super) fn day(text: &str) -> Option<Self> {
        let words = lower_words(text);
        if words.iter().any(|word| ["bc", "bce", "b.c"].contains(&word.as_str())) {
            return None;
        }
        let numbers = || words.iter().filter_map(|word| number_of_digits(word));
        let years: Vec<i64> = numbers().filter(|number| YEARS.contains(number)).collect();
        let [year] = years[..] else { return None };
        let is_day = |number: &i64| (1..=31).contains(number);
        let named = words.iter().find_map(|word| month(word));
        let small: Vec<u8> =
            numbers().filter(is_day).filter_map(|n| u8::try_from(n).ok()).collect();
        Some(match (named, &small[..]) {
            (Some(month), [day, ..]) => Self::Day(year, Some(month), Some(*day)),
            (Some(month), []) => Self::Day(year, Some(month), None),
            // As in 2024-05-20.
            (None, [month, day]) if *month <= 12 && is_iso(text) => {
                Self::Day(year, Some(*month), Some(*day))
            }
            (None, _) => Self::Day(year, None, None),
        })
    }

    /// Returns the number that `text` names, with its unit, if it names one.
    pub(super) fn measure(text: &str) -> Option<Self> {
        let words = lower_words(&plain(text));
        let (place, mut number) = words.iter().enumerate().find_map(|(place, word)| {
            let number = word.parse().ok().or_else(|| spelt_number(word).map(f64::from));
            Some((place, number.filter(|number: &f64| number.is_finite())?))
        })?;
        let mut rest = words[place + 1..].iter().map(String::as_str).peekable();
        while let Some((_, factor)) =
            rest.peek().and_then(|word| FACTORS.iter().find(|(name, _)| name == word))
        {
            number *= factor;
            rest.next();
        }
        let unit = rest.next().unwrap_or_default();
        Some(Self::Measure(number, unit.trim_end_matches('s').to_owned()))
    }

    /// Returns whether this one is less than `other`; `None` if they cannot be compared or are
    /// equal as far as is known.
    pub(super) fn is_less(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Day(year, month, day), Self::Day(to_year, to_month, to_day)) => {
                if year != to_year {
                    return Some(year < to_year);
                }
                let months = (*month).zip(*to_month)?;
                if months.0 != months.1 {
                    return Some(months.0 < months.1);
                }
                let days = (*day).zip(*to_day).filter(|(a, b)| a != b)?;
                Some(days.0 < days.1)
            }
            (Self::Measure(number, unit), Self::Measure(to_number, to_unit)) => {
                (unit == to_unit && number != to_number).then_some(number < to_number)
            }
            (Self::Day(..), Self::Measure(..)) | (Self::Measure(..), Self::Day(..)) => None,
        }
    }
}

/// Returns the number in digits that `word` is, with an ending such as "3rd".
fn number_of_digits(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(char::is_alphabetic);
    let is_plain = ["", "st", "nd", "rd", "th"].contains(&&word[digits.len()..]);
    digits.parse().ok().filter(|_| is_plain)
}

/// Returns whether a day is written with its year first.
fn is_iso(text: &str) -> bool {
    let digits = text.trim().bytes().take_while(u8::is_ascii_digit).count();
    digits == 4 && text.trim()[4..].starts_with(['-', '/'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_are_read_as_far_as_they_are_told() {
        for (text, expected) in [
            ("3 May 1912", Some(Quantity::Day(1912, Some(5), Some(3)))),
            ("May 3rd, 1912", Some(Quantity::Day(1912, Some(5), Some(3)))),
            ("in May 1912", Some(Quantity::Day(1912, Some(5), None))),
            ("1912-05-03", Some(Quantity::Day(1912, Some(5), Some(3)))),
            ("1912", Some(Quantity::Day(1912, None, None))),
            ("44 BC", None),
            ("from 1912 to 1913", None),
            ("soon", None),
        ] {
            assert_eq!(Quantity::day(text), expected, "{text}");
        }
    }

    #[test]
    fn measures_are_numbers_with_units() {
        for (text, number, unit) in [
            ("about 5,000 km long", 5000.0, "km"),
            ("1.5 million people", 1.5e6, "people"),
            ("three meters", 3.0, "meter"),
            ("$1,200.50", 1200.5, "dollar"),
            ("about 1,200", 1200.0, ""),
        ] {
            let expected = Quantity::Measure(number, unit.to_owned());
            assert_eq!(Quantity::measure(text), Some(expected), "{text}");
        }
        assert_eq!(Quantity::measure("many"), None);
    }

    #[test]
    fn what_is_not_of_a_kind_is_not_compared() {
        let less = |a: &str, b: &str, read: fn(&str) -> Option<Quantity>| {
            read(a).unwrap().is_less(&read(b).unwrap())
        };
        assert_eq!(less("May 1912", "1913", Quantity::day), Some(true));
        assert_eq!(less("1912", "May 1912", Quantity::day), None);
        assert_eq!(less("3 May 1912", "2 May 1912", Quantity::day), Some(false));
        assert_eq!(less("3 km", "2 km", Quantity::measure), Some(false));
        assert_eq!(less("3 km", "2 miles", Quantity::measure), None);
        assert_eq!(less("3 km", "3 km", Quantity::measure), None);
        let (day, km) = (Quantity::day("1912").unwrap(), Quantity::measure("3 km").unwrap());
        assert_eq!(day.is_less(&km), None);
    }

    proptest! {
        #[test]
        fn any_text_has_a_quantity_or_none(
            text in "([0-9]{1,25}|[ ,.-]|May|million|th|é){0,10}|\\PC{0,40}",
        ) {
            let _ = (Quantity::day(&text), Quantity::measure(&text));
        }
    }
}
