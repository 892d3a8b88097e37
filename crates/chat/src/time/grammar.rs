//! Grammar of time expressions: single points, lists, ranges between two points, and ranges with
//! one bound.

mod clock;
mod counted;
mod date;
mod named;
mod part;
mod written;

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::calendar::{Period, Which};
use super::kind::Kind;
use super::word::{self, Gap, Word};

/// Maximum depth of nested expressions: "two weeks before the end of March" has three levels.
const MAX_DEPTH: u8 = 5;

/// Interpreter of the words of a text at a certain time.
#[derive(Clone, Copy)]
pub(super) struct Grammar<'a> {
    text: &'a str,
    words: &'a [Word],
    /// The local time to which relative expressions refer.
    now: DateTime,
    offset: Offset,
    which: Which,
    depth: u8,
}

/// A period named by words that end before the word `end`.
#[derive(Clone, Copy)]
struct Point {
    period: Period,
    kind: Kind,
    end: usize,
}

/// The meaning of a whole expression. A missing side is open.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) from: Option<DateTime>,
    pub(super) until: Option<DateTime>,
    pub(super) kind: Kind,
    pub(super) end: usize,
}

/// Context of an ambiguous word: anywhere in the text, or after words that only times follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Anywhere,
    AfterTimeWord,
}

impl<'a> Grammar<'a> {
    pub(super) fn new(text: &'a str, words: &'a [Word], now: DateTime, offset: Offset) -> Self {
        Self { text, words, now, offset, which: Which::Latest, depth: MAX_DEPTH }
    }

    /// Returns the same grammar with another choice of year.
    pub(super) fn choosing(self, which: Which) -> Self {
        Self { which, ..self }
    }

    /// Returns the expression that begins with the word `at`.
    pub(super) fn found(&self, at: usize) -> Option<Found> {
        if self.words[at].is_quoted || self.is_after(at, &["every", "each", "per", "any", "most"]) {
            return None;
        }
        self.between(at).or_else(|| self.bounded(at)).or_else(|| self.listed(at))
    }

    /// Reads "between X and Y", "from X to Y".
    fn between(&self, at: usize) -> Option<Found> {
        let joints: &[&str] = match self.words[at].lower.as_str() {
            "between" => &["and"],
            "from" => &TO,
            _ => return None,
        };
        self.goes_on(at + 1).then_some(())?;
        self.pair(at + 1, Place::AfterTimeWord, joints)
    }

    /// Reads two points and everything between them. A year that only the second names applies to
    /// both.
    fn pair(&self, at: usize, place: Place, joints: &[&str]) -> Option<Found> {
        let mut first = self.point(at, place)?;
        let joint = self.words.get(first.end)?;
        let begin = if joint.gap == Gap::Hyphen && joints.contains(&"to") {
            first.end
        } else {
            self.is(first.end, joints).then_some(first.end + 1)?
        };
        if begin >= self.words.len() || self.is_weekday_alone(at) {
            return None;
        }
        let later = self.choosing(Which::NotBefore(first.period.from));
        let last = later.point(begin, Place::AfterTimeWord)?;
        let mut kind = first.kind.min(last.kind);
        if last.kind == Kind::Absolute && first.kind == Kind::Recurring {
            let year = last.period.from.year();
            let of_year = |year| self.choosing(Which::Of(year)).point(at, place);
            let is_before = |point: &Point| point.period.from < last.period.until;
            kind = Kind::Absolute;
            first = of_year(year).filter(is_before).or_else(|| of_year(year.checked_sub(1)?))?;
        }
        (first.period.from < last.period.until).then_some(Found {
            from: Some(first.period.from),
            until: Some(last.period.until),
            kind,
            end: last.end,
        })
    }

    /// Returns whether a range begins with a weekday: "Monday to Friday" means every week.
    fn is_weekday_alone(&self, at: usize) -> bool {
        word::weekday(&self.words[at].lower).is_some()
    }

    /// Reads "since X", "before X" and similar bounds.
    fn bounded(&self, at: usize) -> Option<Found> {
        let (bound, begin) = self.bound(at)?;
        self.goes_on(begin).then_some(())?;
        let past = self.choosing(Which::Latest);
        let grammar = if matches!(bound, Bound::Since) { &past } else { self };
        let Point { period, kind, end } = grammar.point(begin, Place::AfterTimeWord)?;
        // "By May" is often the author of a work, and something may be "inspired by autumn".
        if self.words[at].lower == "by"
            && end == begin + 1
            && (word::is_doubtful_month(&self.words[begin].lower)
                || word::season(&self.words[begin].lower).is_some())
        {
            return None;
        }
        let (from, until) = match bound {
            Bound::Since => (Some(period.from), None),
            Bound::After => (Some(period.until), None),
            Bound::Before => (None, Some(period.from)),
            Bound::Until => (None, Some(period.until)),
        };
        Some(Found { from, until, kind, end })
    }

    fn bound(&self, at: usize) -> Option<(Bound, usize)> {
        Some(match self.words[at].lower.as_str() {
            "since" => (Bound::Since, at + 1),
            "after" => (Bound::After, at + 1),
            "before" => (Bound::Before, at + 1),
            "until" | "till" | "by" => (Bound::Until, at + 1),
            "prior" if self.is(at + 1, &["to"]) => (Bound::Before, at + 2),
            "up" if self.is(at + 1, &["to", "until"]) => (Bound::Until, at + 2),
            "as" if self.is(at + 1, &["of"]) => (Bound::Until, at + 2),
            _ => return None,
        })
    }

    /// Reads one point; two or more as in "in March and April"; or a range without "from".
    fn listed(&self, at: usize) -> Option<Found> {
        if let Some(range) = self.pair(at, Place::Anywhere, &TO) {
            return Some(range);
        }
        let first = self.point(at, Place::Anywhere)?;
        let mut all = first;
        while self.is(all.end, &["and", "or"]) && all.end + 1 < self.words.len() {
            let Some(next) = self.point(all.end + 1, Place::AfterTimeWord) else { break };
            let mut kind = all.kind.min(next.kind);
            // The months of "in March and April 2023" belong to one year.
            if next.kind == Kind::Absolute && all.kind == Kind::Recurring {
                let year = self.choosing(Which::Of(next.period.from.year()));
                (all, kind) = (year.point(at, Place::Anywhere)?, next.kind);
            }
            all = Point { period: all.period.hull(next.period), kind, end: next.end };
        }
        let (mut from, mut until) = (Some(all.period.from), Some(all.period.until));
        if self.counts_at_least(at, first.end) {
            (from, until) = (None, Some(first.period.until));
        }
        Some(Found { from, until, kind: all.kind, end: all.end })
    }

    /// Reads a period, with the time of day if there is one.
    fn point(&self, at: usize, place: Place) -> Option<Point> {
        let inner = Self { depth: self.depth.checked_sub(1)?, ..*self };
        let point = inner
            .clocked(at)
            .or_else(|| inner.part(at))
            .or_else(|| inner.counted(at))
            .or_else(|| inner.named(at))
            .or_else(|| inner.dated(at, place))?;
        Some(self.at_time_of_day(point))
    }

    /// Returns the word `at`, in lower case, if only a space or hyphen separates it from the one
    /// before.
    fn word(&self, at: usize) -> Option<&'a str> {
        let word = self.words.get(at)?;
        matches!(word.gap, Gap::Space | Gap::Hyphen).then_some(word.lower.as_str())
    }

    /// Returns whether only a space or hyphen separates the word `at` from the one before.
    fn goes_on(&self, at: usize) -> bool {
        self.word(at).is_some()
    }

    /// Returns whether the word `at` continues the one before it and is one of `choices`.
    fn is(&self, at: usize, choices: &[&str]) -> bool {
        self.word(at).is_some_and(|word| choices.contains(&word))
    }

    /// Returns whether the word before `at` is one of `choices`.
    fn is_after(&self, at: usize, choices: &[&str]) -> bool {
        self.before(at).is_some_and(|word| choices.contains(&word))
    }

    fn before(&self, at: usize) -> Option<&'a str> {
        self.word(at)?;
        self.words.get(at.checked_sub(1)?).map(|word| word.lower.as_str())
    }

    /// Returns the end of `words` if they stand at `at`.
    fn phrase(&self, at: usize, words: &[&str]) -> Option<usize> {
        (self.words.get(at)?.lower == words[0]).then_some(())?;
        let mut rest = words.iter().enumerate().skip(1);
        rest.all(|(index, word)| self.is(at + index, &[word])).then_some(at + words.len())
    }

    /// Returns the position after "the" or "this".
    fn past_the(&self, at: usize) -> usize {
        let is_article = matches!(self.words[at].lower.as_str(), "the" | "this");
        if is_article && self.word(at + 1).is_some() { at + 1 } else { at }
    }

    /// Returns whether the word `at` seems to be a noun that the words before it only describe: "on
    /// Halloween candy".
    fn is_noun(&self, at: usize) -> bool {
        self.word(at).is_some_and(|word| {
            !self.words[at].is_capitalised
                && !clew_text::is_grammar_word(word)
                && word::year(word).is_none()
                && !matches!(word, "with" | "by" | "until" | "till" | "last" | "this" | "next")
        })
    }

    /// Returns whether the word `at` is capitalised as part of a name: "The Day After Tomorrow".
    fn is_name(&self, at: usize) -> bool {
        self.words[at].is_capitalised && !self.words[at].begins_sentence()
    }
}

const TO: [&str; 5] = ["to", "until", "till", "through", "thru"];

enum Bound {
    Since,
    After,
    Before,
    Until,
}
