//! Amounts in a statement, each with its unit.

use std::collections::BTreeSet;

use clew_text::{month, spelt_number, spelt_ordinal};

use super::word::Word;

/// Maximum number of words after a number that name what it counts: "25 new postcards".
const MAX_UNIT_WORDS: usize = 3;

/// Unit of an amount. Amounts of different units are not values of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A time of day.
    Clock,
    /// Money of any currency.
    Money,
    /// A share.
    Percent,
    /// A frequency.
    Often,
    /// Something counted or measured: the terms after the number.
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

/// An amount, and the words that express it.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) unit: Unit,
    pub(super) value: String,
    pub(super) first: usize,
    /// One past the last word.
    pub(super) end: usize,
}

impl Unit {
    pub(super) fn has(&self, term: &str) -> bool {
        matches!(self, Self::Of(terms) if terms.contains(term))
    }

    /// Returns whether such amounts describe something ongoing rather than a single event.
    pub(super) fn is_of_habits(&self) -> bool {
        matches!(self, Self::Often | Self::Clock)
    }
}

impl Amount {
    pub(super) fn is_equal_to(&self, other: &Self) -> bool {
        self.unit.is_one_with(&other.unit) && self.value == other.value
    }
}

/// Returns the amounts of a statement, and the dates that it writes in digits.
pub(super) fn amounts(words: &[Word<'_>]) -> (Vec<Amount>, BTreeSet<String>) {
    let (mut amounts, mut dates) = (Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < words.len() {
        let found = often(words, at).or_else(|| number(words, at)).or_else(|| single(words, at));
        match found {
            Some(found) => {
                at = found.end.max(at + 1);
                match found.what {
                    What::Amount(unit, value) => {
                        amounts.push(Amount { unit, value, first: found.first, end: found.end });
                    }
                    What::Date(date) => _ = dates.insert(date),
                    What::Other => {}
                }
            }
            None => at += 1,
        }
    }
    (amounts, dates)
}

/// The meaning of words, and their range.
struct Read {
    what: What,
    first: usize,
    end: usize,
}

enum What {
    Amount(Unit, String),
    /// A date in digits.
    Date(String),
    /// Nothing that may change.
    Other,
}

fn lower<'a>(words: &'a [Word<'_>], at: usize) -> &'a str {
    words.get(at).map_or("", |word| word.lower.as_str())
}

/// Reads "twice a week", "three times a month", "every other week", "daily".
fn often(words: &[Word<'_>], first: usize) -> Option<Read> {
    let is = |value: String, end: usize| {
        Some(Read { what: What::Amount(Unit::Often, value), first, end })
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

/// Reads a number in digits or spelt, with what it counts.
fn number(words: &[Word<'_>], first: usize) -> Option<Read> {
    let Digits { value, end, suffix, joint } = digits(words, first)?;
    let next = lower(words, end);
    let is_of_month = month(before(words, first)).is_some()
        || month(next).is_some()
        || (next == "of" && month(lower(words, end + 1)).is_some());
    let is_counting = words.get(end).is_some_and(|next| next.term.is_some() && next.is_beside());
    let is_year = words[first].is_year() && joint.is_empty() && !is_counting;
    let half = if suffix.is_empty() { next } else { suffix };
    let is_percent = words.get(end).is_some_and(|next| next.gap.starts_with('%'));
    let (what, end) = match (joint, half) {
        ("/", _) => (What::Date(value), end),
        _ if is_of_month || is_year => (What::Other, end),
        (_, "am" | "pm" | "a.m" | "p.m") => {
            let value = format!("{value}{}", half.replace('.', ""));
            (What::Amount(Unit::Clock, value), end + usize::from(suffix.is_empty()))
        }
        (":", _) => (What::Amount(Unit::Clock, value), end),
        _ if words[first].gap.ends_with(['$', '€', '£']) => {
            (What::Amount(Unit::Money, value), end)
        }
        _ if is_percent || next == "percent" => (What::Amount(Unit::Percent, value), end),
        _ => match counted(words, first, end, suffix) {
            Some(unit) => (What::Amount(unit, value), end),
            None => (What::Other, end),
        },
    };
    Some(Read { what, first, end })
}

/// A number as it is written.
struct Digits<'a> {
    value: String,
    end: usize,
    /// Letters after the digits.
    suffix: &'a str,
    /// The character that joins several numbers to one: "8:30", "5-6", "7/22".
    joint: &'a str,
}

fn digits<'a>(words: &'a [Word<'_>], first: usize) -> Option<Digits<'a>> {
    let word = &words[first];
    if !word.is_digits() {
        let value = count(&word.lower)?;
        return Some(Digits { value, end: first + 1, suffix: "", joint: "" });
    }
    let (written, suffix) = split_digits(&word.lower);
    let value = written.replace(',', "");
    let mut digits = Digits { value, end: first + 1, suffix, joint: "" };
    while let Some(next) = words.get(digits.end)
        && digits.suffix.is_empty()
        && next.is_digits()
        && matches!(next.gap, ":" | "-" | "–" | "/" | ".")
    {
        let (more, suffix) = split_digits(&next.lower);
        digits.value.push_str(next.gap);
        digits.value.push_str(more);
        (digits.end, digits.suffix, digits.joint) = (digits.end + 1, suffix, next.gap);
    }
    Some(digits)
}

/// Returns what the number `words[first..end]` counts: the terms after it, up to a sign or a word
/// of grammar. Returns `None` if the number is a distance in time, or a part such as "the last
/// two".
fn counted(words: &[Word<'_>], first: usize, end: usize, suffix: &str) -> Option<Unit> {
    let after = words[end..].iter().take_while(|word| word.is_beside() && !word.is_digits());
    let terms: Vec<&String> = after.map_while(|word| word.term.as_ref()).collect();
    let is_part = matches!(
        before(words, first),
        "last" | "past" | "next" | "first" | "other" | "another" | "additional" | "top"
    );
    if is_part || is_distance(lower(words, end + terms.len())) {
        return None;
    }
    let mut unit: BTreeSet<String> = terms.into_iter().take(MAX_UNIT_WORDS).cloned().collect();
    if !matches!(suffix, "" | "st" | "nd" | "rd" | "th") {
        unit.insert(suffix.to_owned());
    }
    (!unit.is_empty()).then_some(Unit::Of(unit))
}

/// Reads "a month", "an hour".
fn single(words: &[Word<'_>], first: usize) -> Option<Read> {
    let is_article = matches!(lower(words, first), "a" | "an");
    length_of_time(lower(words, first + 1)).filter(|_| is_article)?;
    if is_distance(lower(words, first + 2)) {
        return None;
    }
    let unit = Unit::Of(BTreeSet::from([words[first + 1].term.clone()?]));
    // The unit follows the number.
    Some(Read { what: What::Amount(unit, "1".to_owned()), first, end: first + 1 })
}

fn before<'a>(words: &'a [Word<'_>], at: usize) -> &'a str {
    at.checked_sub(1).map_or("", |at| lower(words, at))
}

/// Returns whether the words before this one are a distance in time.
fn is_distance(word: &str) -> bool {
    matches!(word, "ago" | "ahead" | "later" | "earlier" | "away" | "before" | "after")
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

/// Returns the number that a word spells, in digits. Not "second", which is also a length of time,
/// and not "first", which counts nothing that may have changed.
fn count(word: &str) -> Option<String> {
    let spelt = match word {
        "single" => Some(1),
        "first" | "second" => None,
        "twentieth" => Some(20),
        word => spelt_number(word).or_else(|| spelt_ordinal(word)).filter(|number| *number > 0),
    };
    let digits = || {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| word.parse::<u32>().ok()).flatten()
    };
    spelt.or_else(digits).map(|number| number.to_string())
}
