//! Dates in digits: ISO 8601 and with slashes.

use jiff::civil::Date;
use jiff::fmt::temporal::Pieces;

use super::super::calendar::{Period, Unit};
use super::super::kind::Kind;
use super::super::word::{self, Gap};
use super::{Grammar, Point};

/// Maximum length of an ISO 8601 date with nanoseconds and an offset.
const MAX_WRITTEN: usize = 40;

impl Grammar<'_> {
    pub(super) fn written(&self, at: usize) -> Option<Point> {
        self.iso(at).or_else(|| self.slashed(at)).or_else(|| self.month_and_day(at))
    }

    /// Reads `2024-05-03`, `2024/05/03`, `20240503`, `2024-05`. Each but the last may have a time
    /// and an offset.
    fn iso(&self, at: usize) -> Option<Point> {
        let begin = self.words[at].span.start;
        word::digits(self.words[at].lower.get(..4)?, 4..=4)?;
        // The number in "-2024-05-03" and "v2024.05.03" is not a year.
        let is_joined = self.text[..begin].ends_with(['-', '/', '.', ':', '$', '€', '£', '#']);
        (!is_joined).then_some(())?;
        let is_other = |(_, c): &(usize, char)| !(c.is_ascii_digit() || "-/:.+TtZz_".contains(*c));
        let mut chars = self.text[begin..].char_indices();
        let end = chars.by_ref().take(MAX_WRITTEN).find(is_other).map(|(end, _)| end);
        let end = end.or_else(|| chars.next().map(|(end, _)| end));
        let written = &self.text[begin..end.map_or(self.text.len(), |end| begin + end)];
        let written = written.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let period = self.instant(written).map(|period| (period, written.len()));
        // Anything may follow a date: a range to another date, the name of a zone.
        let dates = [10, 8].into_iter().filter_map(|length| {
            let rest = written.get(length..)?;
            let ends = !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
            self.instant(written.get(..length)?).filter(|_| ends).map(|period| (period, length))
        });
        let (period, length) = period.or_else(|| dates.into_iter().next()).or_else(|| {
            let year = word::year(written.get(..4)?)?;
            let month = written.get(4..7)?.strip_prefix(['-', '/'])?.parse().ok()?;
            let ends = !written[7..].starts_with(|next: char| next.is_ascii_digit() || next == '-');
            Some((Period::months(year, month, 1).filter(|_| ends)?, 7))
        })?;
        let stop = begin + length;
        let end = at + self.words[at..].iter().take_while(|word| word.span.end <= stop).count();
        (end > at).then_some(Point { period, kind: Kind::Absolute, end })
    }

    /// Reads a day, or a time as the minute that contains it.
    fn instant(&self, written: &str) -> Option<Period> {
        // Eight digits are a date only if the first four are a likely year.
        (written.len() >= 8).then_some(())?;
        word::year(written.get(..4)?)?;
        let written = written.replace('/', "-").replace('_', "T");
        let pieces = Pieces::parse(&written).ok()?;
        let Some(time) = pieces.time() else { return Period::day(pieces.date()) };
        let mut local = pieces.date().to_datetime(time);
        if let Some(offset) = pieces.to_numeric_offset() {
            local = self.offset.to_datetime(offset.to_timestamp(local).ok()?);
        }
        Unit::Minute.around(local)
    }

    /// Reads `05/03/2024`: the month first, as in the United States, unless only the other order is
    /// a date.
    fn slashed(&self, at: usize) -> Option<Point> {
        let is_slash = |at: usize| self.words.get(at).is_some_and(|word| word.gap == Gap::Slash);
        (is_slash(at + 1) && is_slash(at + 2) && !is_slash(at) && !is_slash(at + 3))
            .then_some(())?;
        let (first, second) = (self.day_number(at)?, self.day_number(at + 1)?);
        let year = word::year(&self.words[at + 2].lower)?;
        let date = Date::new(year, first, second).or_else(|_| Date::new(year, second, first));
        Some(Point { period: Period::day(date.ok()?)?, kind: Kind::Absolute, end: at + 3 })
    }

    /// Reads `7/22` where a day is expected. `3/4` is often a fraction, so the day must be above
    /// 12.
    fn month_and_day(&self, at: usize) -> Option<Point> {
        let begin = self.past_the(at);
        let is_slash = |at: usize| self.words.get(at).is_some_and(|word| word.gap == Gap::Slash);
        let is_placed = self.is_after(at, &["on", "before", "after", "since", "until", "by"]);
        (is_placed && is_slash(begin + 1) && !is_slash(begin + 2)).then_some(())?;
        let (month, day) = (self.day_number(begin)?, self.day_number(begin + 1)?);
        (day > 12).then_some(())?;
        let in_year = |year| Period::day(Date::new(year, month, day).ok()?);
        let period = self.which.pick(self.now, &in_year)?;
        Some(Point { period, kind: Kind::Recurring, end: begin + 2 })
    }

    fn day_number(&self, at: usize) -> Option<i8> {
        i8::try_from(word::digits(&self.words[at].lower, 1..=2)?).ok()
    }
}
