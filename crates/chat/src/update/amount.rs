//! Amounts that a statement tells, each with what it is an amount of.

use std::collections::BTreeSet;

use super::word::Word;

/// Words after a number that may tell what it counts: "25 new postcards".
const MAX_UNIT_WORDS: usize = 3;

/// What an amount is of. Amounts of different units are no values of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A time of day.
    Clock,
    /// Money of any currency.
    Money,
    /// A share.
    Percent,
    /// How often something is done.
    Often,
    /// What is counted or measured: the terms after the number.
    Of(BTreeSet<String>),
}

impl Unit {
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Of(a), Self::Of(b)) => !a.is_disjoint(b),
            (a, b) => a == b,
        }
    }
}

/// An amount, and which words tell it.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) unit: Unit,
    pub(super) value: String,
    pub(super) first: usize,
    /// One past the last.
    pub(super) end: usize,
}

impl Unit {
    pub(super) fn has(&self, term: &str) -> bool {
        matches!(self, Self::Of(terms) if terms.contains(term))
    }

    /// Whether amounts of it are of what goes on, rather than of what happened once.
    pub(super) fn is_of_habits(&self) -> bool {
        matches!(self, Self::Often | Self::Clock)
    }
}

impl Amount {
    pub(super) fn is_equal_to(&self, other: &Self) -> bool {
        self.unit.is_one_with(&other.unit) && self.value == other.value
    }
}

/// The amounts of a statement, and the dates that it writes in digits.
pub(super) fn amounts(words: &[Word<'_>]) -> (Vec<Amount>, BTreeSet<String>) {
    let (mut amounts, mut dates) = (Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < words.len() {
        let found = often(words, at).or_else(|| number(words, at)).or_else(|| single(words, at));
        match found {
            Some(found) => {
                at = found.end.max(at + 1);
                amounts.extend(found.amount);
                dates.extend(found.date);
            }
            None => at += 1,
        }
    }
    (amounts, dates)
}

/// What was read, and up to where; no amount of a date.
struct Read {
    amount: Option<Amount>,
    date: Option<String>,
    end: usize,
}

fn lower<'a>(words: &'a [Word<'_>], at: usize) -> &'a str {
    words.get(at).map_or("", |word| word.lower.as_str())
}

/// "twice a week", "three times a month", "every other week", "daily".
fn often(words: &[Word<'_>], first: usize) -> Option<Read> {
    let is = |value: String, end: usize| {
        Some(Read {
            amount: Some(Amount { unit: Unit::Often, value, first, end }),
            date: None,
            end,
        })
    };
    let word = lower(words, first);
    let (times, mut at) = match word {
        "daily" => return is("1 day".to_owned(), first + 1),
        "weekly" => return is("1 week".to_owned(), first + 1),
        "biweekly" | "fortnightly" => return is("1 2 week".to_owned(), first + 1),
        "monthly" => return is("1 month".to_owned(), first + 1),
        "every" | "each" => ("1".to_owned(), first),
        "once" => ("1".to_owned(), first + 1),
        "twice" => ("2".to_owned(), first + 1),
        _ => match (count(word), lower(words, first + 1)) {
            (Some(times), "times" | "time") => (times, first + 2),
            _ => return None,
        },
    };
    if !matches!(lower(words, at), "a" | "an" | "per" | "each" | "every") {
        return None;
    }
    at += 1;
    let step = match lower(words, at) {
        "other" | "second" => Some("2".to_owned()),
        word => count(word),
    };
    at += usize::from(step.is_some());
    let length = length_of_time(lower(words, at))?;
    let step = step.map(|step| format!("{step} ")).unwrap_or_default();
    is(format!("{times} {step}{length}"), at + 1)
}

/// A number in digits or spelt.
fn number(words: &[Word<'_>], first: usize) -> Option<Read> {
    let word = &words[first];
    let (mut value, mut end, mut suffix) = match count(&word.lower) {
        Some(value) if !word.is_digits() => (value, first + 1, ""),
        _ if word.is_digits() => {
            let (digits, suffix) = split_digits(&word.lower);
            (digits.to_owned(), first + 1, suffix)
        }
        _ => return None,
    };
    let (mut is_clock, mut is_date) = (false, false);
    // "8:30", "5-6", "7/22".
    while let Some(next) = words.get(end)
        && suffix.is_empty()
        && next.is_digits()
        && matches!(next.gap, ":" | "-" | "–" | "/" | ".")
    {
        is_clock |= next.gap == ":";
        is_date |= next.gap == "/";
        let (digits, rest) = split_digits(&next.lower);
        (value, suffix) = (format!("{value}{}{digits}", next.gap), rest);
        end += 1;
    }
    let is_ordinal = matches!(suffix, "st" | "nd" | "rd" | "th");
    let is_of_month = first.checked_sub(1).is_some_and(|at| is_month(lower(words, at)))
        || is_month(lower(words, end))
        || (lower(words, end) == "of" && is_month(lower(words, end + 1)));
    let is_counting = words.get(end).is_some_and(|next| next.term.is_some() && next.is_beside());
    let is_year = end == first + 1 && word.is_year() && !is_counting;
    if is_date || is_of_month || is_year {
        let date = is_date.then_some(value);
        return Some(Read { amount: None, date, end });
    }
    let is = |unit, end| {
        Some(Read {
            amount: Some(Amount { unit, value: value.clone(), first, end }),
            date: None,
            end,
        })
    };
    if let half @ ("am" | "pm" | "a.m" | "p.m") =
        if suffix.is_empty() { lower(words, end) } else { suffix }
    {
        let end = end + usize::from(suffix.is_empty());
        let value = format!("{value}{}", half.replace('.', ""));
        return Some(Read {
            amount: Some(Amount { unit: Unit::Clock, value, first, end }),
            date: None,
            end,
        });
    }
    if is_clock {
        return is(Unit::Clock, end);
    }
    if word.gap.ends_with(['$', '€', '£']) {
        return is(Unit::Money, end);
    }
    if words.get(end).is_some_and(|next| next.gap.starts_with('%'))
        || lower(words, end) == "percent"
    {
        return is(Unit::Percent, end);
    }
    let mut unit = BTreeSet::new();
    if !suffix.is_empty() && !is_ordinal {
        unit.insert(suffix.to_owned());
    }
    let after = words[end..].iter().take(MAX_UNIT_WORDS);
    let after = after.take_while(|word| word.is_beside() && !word.is_digits());
    unit.extend(after.map_while(|word| word.term.clone()));
    // How far from something else, or which part of the rest.
    let units = words[end..].iter().take_while(|word| word.is_beside() && word.term.is_some());
    let beyond = lower(words, end + units.count());
    let before = first.checked_sub(1).map_or("", |at| lower(words, at));
    let is_relative =
        matches!(beyond, "ago" | "ahead" | "later" | "earlier" | "away" | "before" | "after")
            || matches!(
                before,
                "last" | "past" | "next" | "first" | "other" | "another" | "additional" | "top"
            );
    // A number of nothing is the number of a thing: "chapter 3".
    let amount = Amount { unit: Unit::Of(unit), value, first, end };
    let is_counted = matches!(&amount.unit, Unit::Of(unit) if !unit.is_empty());
    Some(Read { amount: (is_counted && !is_relative).then_some(amount), date: None, end })
}

/// "a month", "an hour".
fn single(words: &[Word<'_>], first: usize) -> Option<Read> {
    if !matches!(lower(words, first), "a" | "an") {
        return None;
    }
    length_of_time(lower(words, first + 1))?;
    let unit = BTreeSet::from([words[first + 1].term.clone()?]);
    if matches!(lower(words, first + 2), "ago" | "ahead" | "later" | "earlier" | "away") {
        return None;
    }
    let amount = Amount { unit: Unit::Of(unit), value: "1".to_owned(), first, end: first + 1 };
    Some(Read { amount: Some(amount), date: None, end: first + 2 })
}

fn split_digits(word: &str) -> (&str, &str) {
    let end = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
    word.split_at(end)
}

fn length_of_time(word: &str) -> Option<&'static str> {
    Some(match word {
        "minute" | "minutes" => "minute",
        "hour" | "hours" => "hour",
        "day" | "days" => "day",
        "week" | "weeks" => "week",
        "month" | "months" => "month",
        "year" | "years" => "year",
        _ => return None,
    })
}

/// The number that a word spells, in digits. No "second", which is also a length of time, and no "first", which
/// counts nothing that may have changed.
fn count(word: &str) -> Option<String> {
    const COUNTS: [&[&str]; 20] = [
        &["one", "single"],
        &["two"],
        &["three", "third"],
        &["four", "fourth"],
        &["five", "fifth"],
        &["six", "sixth"],
        &["seven", "seventh"],
        &["eight", "eighth"],
        &["nine", "ninth"],
        &["ten", "tenth"],
        &["eleven", "eleventh"],
        &["twelve", "twelfth"],
        &["thirteen"],
        &["fourteen"],
        &["fifteen"],
        &["sixteen"],
        &["seventeen"],
        &["eighteen"],
        &["nineteen"],
        &["twenty", "twentieth"],
    ];
    let spelt = COUNTS.iter().position(|names| names.contains(&word)).map(|at| at + 1);
    match spelt {
        Some(number) => Some(number.to_string()),
        None if word.starts_with(|c: char| c.is_ascii_digit()) => {
            word.parse::<u32>().ok().map(|number| number.to_string())
        }
        None => None,
    }
}

fn is_month(word: &str) -> bool {
    matches!(
        word,
        "january"
            | "february"
            | "march"
            | "april"
            | "may"
            | "june"
            | "july"
            | "august"
            | "september"
            | "october"
            | "november"
            | "december"
            | "jan"
            | "feb"
            | "mar"
            | "apr"
            | "jun"
            | "jul"
            | "aug"
            | "sep"
            | "sept"
            | "oct"
            | "nov"
            | "dec"
    )
}
