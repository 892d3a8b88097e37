//! Words of a text as the grammar reads them, and the meaning of single words.

use clew_core::Span;
use clew_text::{spelt_number, spelt_ordinal};
use jiff::civil::Weekday;

use super::calendar::Unit;

/// The separator between a word and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    Space,
    Comma,
    /// A hyphen or dash without spaces.
    Hyphen,
    Colon,
    Slash,
    /// Anything else.
    Break,
    /// The end of a sentence, or the beginning of the text.
    Sentence,
}

pub(super) struct Word {
    pub(super) span: Span,
    /// The word in lower case, without `'s`.
    pub(super) lower: String,
    /// Whether it had `'s`.
    pub(super) possesses: bool,
    /// Whether it is written like a name: the first letter upper case, the second lower case.
    pub(super) is_capitalised: bool,
    /// Whether it is in quotation marks, as titles are.
    pub(super) is_quoted: bool,
    pub(super) gap: Gap,
}

impl Word {
    pub(super) fn begins_sentence(&self) -> bool {
        self.gap == Gap::Sentence
    }
}

pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut quotes = Quotes::default();
    for span in clew_text::words(text).flat_map(|span| day_and_year(text, span)) {
        let before = words.last().map_or(0, |word| word.span.end);
        let gap = &text[before..span.start];
        let is_abbreviated = words.last().is_some_and(|word| is_abbreviation(&word.lower));
        quotes.pass(text, before, span.start);
        let written = &text[span.start..span.end];
        let lower = written.to_lowercase().replace('’', "'");
        let bare = lower.strip_suffix("'s");
        words.push(Word {
            span,
            lower: bare.unwrap_or(&lower).to_owned(),
            possesses: bare.is_some() || text[span.end..].starts_with(['\'', '’']),
            is_capitalised: is_capitalised(written),
            is_quoted: quotes.open.is_some(),
            gap: if words.is_empty() { Gap::Sentence } else { gap_kind(gap, is_abbreviated) },
        });
    }
    // A mark that is never closed quotes nothing.
    if let Some((_, opened_at)) = quotes.open {
        for word in words.iter_mut().filter(|word| word.span.start > opened_at) {
            word.is_quoted = false;
        }
    }
    words
}

/// Splits "1,2023", which is one number by the rules of Unicode, into a day and a year.
fn day_and_year(text: &str, span: Span) -> impl Iterator<Item = Span> {
    let comma = text[span.start..span.end].find(',').filter(|comma| {
        let (day, year) =
            (&text[span.start..span.start + comma], &text[span.start + comma + 1..span.end]);
        day_of_month(day).is_some() && self::year(year).is_some()
    });
    let (first, second) = match comma.map(|comma| span.start + comma) {
        Some(comma) => (Span::new(span.start, comma), Some(Span::new(comma + 1, span.end))),
        None => (span, None),
    };
    std::iter::once(first).chain(second)
}

fn gap_kind(gap: &str, after_abbreviation: bool) -> Gap {
    match gap.trim() {
        "" if gap.is_empty() || gap.contains("\n\n") => Gap::Break,
        "" => Gap::Space,
        "." if after_abbreviation => Gap::Space,
        "," => Gap::Comma,
        "-" | "–" | "—" => Gap::Hyphen,
        ":" if gap.len() == 1 => Gap::Colon,
        "/" if gap.len() == 1 => Gap::Slash,
        other if other.contains(['.', '?', '!', '。', '？', '！']) => Gap::Sentence,
        _ => Gap::Break,
    }
}

fn is_abbreviation(lower: &str) -> bool {
    matches!(lower, "a.m" | "p.m" | "st") || (lower.len() <= 4 && month(lower).is_some())
}

fn is_capitalised(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.next().is_some_and(char::is_lowercase)
}

/// The closing mark of the open quotation, and the position where it was opened.
#[derive(Default)]
struct Quotes {
    open: Option<(char, usize)>,
}

impl Quotes {
    /// Processes the marks in a gap. A single mark opens only if no word precedes it and closes
    /// only if no word follows, because it may be an apostrophe.
    fn pass(&mut self, text: &str, from: usize, until: usize) {
        for (at, mark) in text[from..until].char_indices() {
            let at = from + at;
            let after_word = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
            match self.open {
                Some((close, _)) if mark == close => self.open = None,
                Some(_) => {}
                None => {
                    let close = match mark {
                        '"' => '"',
                        '“' => '”',
                        '«' => '»',
                        '‘' => '’',
                        '\'' if !after_word => '\'',
                        _ => continue,
                    };
                    self.open = Some((close, at));
                }
            }
        }
    }
}

/// Returns the number of a month by its name or abbreviation.
pub(super) fn month(lower: &str) -> Option<i8> {
    i8::try_from(clew_text::month(lower)?).ok()
}

/// Returns whether the word for a month is often something else: a name, a verb, an adjective.
pub(super) fn is_doubtful_month(lower: &str) -> bool {
    matches!(lower, "march" | "april" | "may" | "june" | "august" | "mar" | "jun" | "jan" | "dec")
}

pub(super) fn weekday(lower: &str) -> Option<Weekday> {
    Some(match lower {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" | "tues" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" | "thur" | "thurs" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" => Weekday::Saturday,
        "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

/// Returns the first month of a season.
pub(super) fn season(lower: &str) -> Option<i8> {
    Some(match lower {
        "spring" | "springtime" => 3,
        "summer" | "summertime" => 6,
        "autumn" | "fall" => 9,
        "winter" | "wintertime" => 12,
        _ => return None,
    })
}

/// Returns a unit, and whether the word is its plural.
pub(super) fn unit(lower: &str) -> Option<(Unit, bool)> {
    let singular = lower.strip_suffix('s').unwrap_or(lower);
    let unit = match singular {
        "minute" | "min" => Unit::Minute,
        "hour" | "hr" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "quarter" => Unit::Quarter,
        "year" => Unit::Year,
        _ => return None,
    };
    Some((unit, singular != lower))
}

/// Returns a number of at most four digits, or spelt up to twenty and in tens up to ninety.
pub(super) fn number(lower: &str) -> Option<i64> {
    if lower.len() <= 4 && lower.bytes().all(|byte| byte.is_ascii_digit()) {
        return lower.parse().ok();
    }
    spelt_number(lower).filter(|number| *number > 0).map(i64::from)
}

/// Returns a whole number written in `digits` digits.
pub(super) fn digits(lower: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let is_number =
        digits.contains(&lower.len()) && lower.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| lower.parse().ok()).flatten()
}

/// Returns a year that is distinguishable from other numbers: four digits, from 1900 to 2099.
pub(super) fn year(lower: &str) -> Option<i16> {
    digits(lower, 4..=4).filter(|year| (1900..2100).contains(year))
}

/// Returns an ordinal: up to 31 in digits, up to the fifth if spelt, and -1 for `last`.
pub(super) fn ordinal(lower: &str) -> Option<i64> {
    let spelt = match lower {
        "last" | "final" => -1,
        _ if spelt_ordinal(lower).is_some_and(|nth| nth <= 5) => spelt_ordinal(lower)?.into(),
        _ => {
            let ending = ["st", "nd", "rd", "th"].iter().find_map(|end| lower.strip_suffix(end))?;
            return digits(ending, 1..=2).map(i64::from).filter(|nth| (1..=31).contains(nth));
        }
    };
    Some(spelt)
}

/// Returns a day of a month, from a number or an ordinal in digits.
pub(super) fn day_of_month(lower: &str) -> Option<i8> {
    let day = digits(lower, 1..=2).map(i64::from);
    let ordinal =
        || ordinal(lower).filter(|_| lower.starts_with(|first: char| first.is_ascii_digit()));
    let day = day.or_else(ordinal)?;
    i8::try_from(day).ok().filter(|day| (1..=31).contains(day))
}
