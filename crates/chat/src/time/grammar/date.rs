//! Dates, months, seasons, holidays and years, as they are spoken.

use jiff::civil::Date;

use super::super::calendar::{Period, Unit, Which, season};
use super::super::holiday::Holiday;
use super::super::kind::Kind;
use super::super::word::{self, Gap};
use super::{Grammar, Place, Point, TO};

/// A period that recurs every year.
#[derive(Clone, Copy)]
pub(super) enum Yearly {
    Month(i8),
    /// A season, by its first month.
    Season(i8),
    /// Days of a month: the month, the first day and the last.
    Days(i8, i8, i8),
    Quarter(i8),
    Holiday(Holiday),
}

impl Yearly {
    pub(super) fn in_year(self, year: i16) -> Option<Period> {
        match self {
            Self::Month(month) => Period::months(year, month, 1),
            Self::Season(month) => season(year, month),
            Self::Days(month, first, last) => {
                let day = |day| Period::day(Date::new(year, month, day).ok()?);
                Some(day(first)?.hull(day(last)?)).filter(|_| first <= last)
            }
            Self::Quarter(quarter) => Period::months(year, quarter * 3 - 2, 3),
            Self::Holiday(holiday) => holiday.in_year(year),
        }
    }
}

impl Grammar<'_> {
    /// Reads a date. `place` says whether bare months, years and weekdays count.
    pub(super) fn dated(&self, at: usize, place: Place) -> Option<Point> {
        self.written(at)
            .or_else(|| self.day_of_month(at))
            .or_else(|| self.of_year(at, place))
            .or_else(|| self.weekday(at, place))
            .or_else(|| self.nth_of_month(at, place))
            .or_else(|| self.year(at, place))
    }

    /// Reads "3 May 2024", "3rd of May", "May 3rd, 2024", "May 3-5". A weekday may precede it.
    fn day_of_month(&self, at: usize) -> Option<Point> {
        let mut begin = self.past_the(at);
        if word::weekday(&self.words[begin].lower).is_some() {
            begin += 1;
            let gap = self.words.get(begin)?.gap;
            matches!(gap, Gap::Space | Gap::Comma).then_some(())?;
            begin = self.past_the(begin);
        }
        let (month, first, last, end) = self.month_day(begin).or_else(|| self.day_month(begin))?;
        self.in_year_after(Yearly::Days(month, first, last), end)
    }

    fn month_day(&self, at: usize) -> Option<(i8, i8, i8, usize)> {
        let month = word::month(&self.words[at].lower)?;
        let is_verb = !self.words[at].is_capitalised
            && matches!(self.words[at].lower.as_str(), "may" | "march" | "mar" | "dec")
            && !self.is_after(at, &["on", "since", "until", "before", "after", "by", "and", "to"]);
        let begin = if self.is(at + 1, &["the"]) { at + 2 } else { at + 1 };
        let first = word::day_of_month(self.word(begin)?).filter(|_| !is_verb)?;
        let (last, end) = self.last_day(begin + 1).unwrap_or((first, begin + 1));
        // An hour is not a day: "in May 9:30".
        let is_clock = self.words.get(end).is_some_and(|word| word.gap == Gap::Colon);
        (!is_clock).then_some((month, first, last, end))
    }

    fn day_month(&self, at: usize) -> Option<(i8, i8, i8, usize)> {
        let first = word::day_of_month(&self.words[at].lower)?;
        let (last, end) = self.last_day(at + 1).unwrap_or((first, at + 1));
        let end = if self.is(end, &["of"]) { end + 1 } else { end };
        let month = word::month(self.word(end)?)?;
        // The verb in "the 3 may differ".
        let is_verb = !self.words[end].is_capitalised && self.words[end].lower == "may";
        (!is_verb).then_some((month, first, last, end + 1))
    }

    /// Reads the "-5" of "3-5".
    fn last_day(&self, at: usize) -> Option<(i8, usize)> {
        let is_dash = self.words.get(at)?.gap == Gap::Hyphen;
        is_dash.then(|| word::day_of_month(&self.words[at].lower).map(|day| (day, at + 1)))?
    }

    /// Reads a month, season, quarter or holiday, with or without its year.
    fn of_year(&self, at: usize, place: Place) -> Option<Point> {
        let begin = self.phrase(at, &["the", "month", "of"]).unwrap_or_else(|| self.past_the(at));
        self.words.get(begin)?;
        let (yearly, end) = self.yearly(begin)?;
        // The month of a day that does not exist: "31 June 2023".
        let is_day = |word: Option<&str>| word.and_then(word::day_of_month).is_some();
        if matches!(yearly, Yearly::Month(_))
            && (is_day(self.before(begin)) || is_day(self.word(end)))
        {
            return None;
        }
        let point = self.in_year_after(yearly, end)?;
        let lower = self.words[begin].lower.as_str();
        if point.end > end {
            // "May 2024" is clear, "may last year" is not.
            let is_verb =
                !self.words[begin].is_capitalised && matches!(lower, "may" | "march" | "fall");
            let is_placed = place == Place::AfterTimeWord || self.is_placed(at);
            return (!is_verb || is_placed).then_some(point);
        }
        let is_sure = match yearly {
            Yearly::Quarter(_) => return Some(point),
            Yearly::Month(_) if self.words[end - 1].possesses => return None,
            Yearly::Month(_) => {
                place == Place::Anywhere || !word::is_doubtful_month(lower) || !self.is_noun(end)
            }
            Yearly::Season(_) | Yearly::Holiday(_) | Yearly::Days(..) => {
                !self.is_noun(end) && !self.is(end, &["of"])
            }
        };
        let is_placed = match yearly {
            Yearly::Holiday(_) => self.is_after(at, &["on", "at", "over", "during", "around"]),
            _ => begin != at && self.words[at + 1].lower == "month" || self.is_placed(at),
        };
        (is_sure && (is_placed || place == Place::AfterTimeWord)).then_some(point)
    }

    fn is_placed(&self, at: usize) -> bool {
        self.is_after(at, &["in", "during", "over", "throughout", "around", "early", "mid", "late"])
    }

    /// Reads a month, season, quarter or holiday, without its year.
    pub(super) fn yearly(&self, at: usize) -> Option<(Yearly, usize)> {
        let lower = self.words[at].lower.as_str();
        let month = word::month(lower).map(Yearly::Month);
        let season = || word::season(lower).map(Yearly::Season);
        let quarter = || {
            let quarter = word::digits(lower.strip_prefix('q')?, 1..=1)?;
            i8::try_from(quarter)
                .ok()
                .filter(|quarter| (1..=4).contains(quarter))
                .map(Yearly::Quarter)
        };
        if let Some(yearly) = month.or_else(season).or_else(quarter) {
            return Some((yearly, at + 1));
        }
        let (holiday, words) = Holiday::find(|name| self.phrase(at, name).is_some())?;
        Some((Yearly::Holiday(holiday), at + words))
    }

    /// Gives `yearly`, which ends at `end`, the year that follows it, or else chooses the year.
    fn in_year_after(&self, yearly: Yearly, end: usize) -> Option<Point> {
        if let Some((year, kind, end)) = self.year_after(end) {
            return Some(Point { period: yearly.in_year(year)?, kind, end });
        }
        let period = self.which.pick(self.now, &|year| yearly.in_year(year))?;
        Some(Point { period, kind: Kind::Recurring, end })
    }

    /// Reads "2024", ", 2024", "of 2024", "last year".
    fn year_after(&self, at: usize) -> Option<(i16, Kind, usize)> {
        let gap = self.words.get(at)?.gap;
        matches!(gap, Gap::Space | Gap::Comma).then_some(())?;
        let at = if self.words[at].lower == "of" && self.goes_on(at + 1) { at + 1 } else { at };
        if let Some(year) = word::year(&self.words[at].lower) {
            return Some((year, Kind::Absolute, at + 1));
        }
        let end = self.phrase(at, &["last", "year"]).map(|end| (-1, end));
        let end = end.or_else(|| self.phrase(at, &["this", "year"]).map(|end| (0, end)));
        let end = end.or_else(|| self.phrase(at, &["next", "year"]).map(|end| (1, end)));
        let (distance, end) = end?;
        Some((self.now.year().checked_add(distance)?, Kind::Relative, end))
    }

    /// Reads "on Monday", "Monday morning", "Tuesday of last week".
    fn weekday(&self, at: usize, place: Place) -> Option<Point> {
        let weekday = word::weekday(&self.words[at].lower)?;
        // Ranges of weekdays are a habit, and their last day is not meant alone: "Monday to Friday
        // last week".
        let begin = at.checked_sub(2).map(|begin| self.words[begin].lower.as_str());
        if self.is_after(at, &TO) && begin.and_then(word::weekday).is_some() {
            return None;
        }
        let end = at + 1;
        let of = if self.is(end, &["of"]) { end + 1 } else { end };
        let week =
            |distance, end| Some((Unit::Week.around(Unit::Week.shift(self.now, distance)?)?, end));
        let in_week = self.phrase(of, &["last", "week"]).and_then(|end| week(-1, end));
        let in_week = in_week.or_else(|| week(0, self.phrase(of, &["this", "week"])?));
        let in_week = in_week.or_else(|| week(1, self.phrase(of, &["next", "week"])?));
        if let Some((week, end)) = in_week {
            return Some(Point {
                period: week.nth_weekday(1, weekday)?,
                kind: Kind::Relative,
                end,
            });
        }
        if self.is(end, &["mornings", "afternoons", "evenings", "nights"]) {
            return None;
        }
        let is_part = |word: &str| matches!(word, "morning" | "afternoon" | "evening" | "night");
        let has_part = self.word(end).is_some_and(is_part);
        // A title such as "Saturday Night Live".
        let is_title = has_part && self.words[end].is_capitalised;
        let is_habit = self.is_after(at, &["a", "an", "every", "each"]);
        // "My Saturday morning class" recurs every week.
        let names_part = has_part
            && !self.is_noun(end + 1)
            && !self.is_after(at, &["my", "our", "your", "his", "her", "their", "the"]);
        let is_placed = place == Place::AfterTimeWord || self.is_after(at, &["on"]) || names_part;
        (is_placed && !is_title && !is_habit).then_some(())?;
        let today = self.now.date();
        let date = match self.which {
            Which::Latest | Which::Near | Which::Of(_) => today.nth_weekday(-1, weekday),
            Which::Coming => today.nth_weekday(1, weekday),
            Which::NotBefore(time) => {
                time.date().yesterday().and_then(|day| day.nth_weekday(1, weekday))
            }
        };
        Some(Point { period: Period::day(date.ok()?)?, kind: Kind::Recurring, end })
    }

    /// Reads "on the 3rd", "the 3rd of last month".
    fn nth_of_month(&self, at: usize, place: Place) -> Option<Point> {
        let begin = self.phrase(at, &["the"]).filter(|begin| self.goes_on(*begin))?;
        let lower = self.words[begin].lower.as_str();
        let day = word::day_of_month(lower).filter(|_| lower.len() > 2)?;
        let end = begin + 1;
        let in_month = |distance| {
            let month = Unit::Month.around(Unit::Month.shift(self.now, distance)?)?;
            let date = month.from.date().with().day(day).build().ok()?;
            Period::day(date)
        };
        let of_month = |name, distance| {
            let end = self.phrase(end, &["of", name, "month"])?;
            Some(Point { period: in_month(distance)?, kind: Kind::Relative, end })
        };
        let of_month =
            of_month("last", -1).or_else(|| of_month("this", 0)).or_else(|| of_month("next", 1));
        if of_month.is_some() {
            return of_month;
        }
        let is_placed = place == Place::AfterTimeWord || self.is_after(at, &["on"]);
        (is_placed && !self.is_noun(end) && !self.is(end, &["of"])).then_some(())?;
        // Three months suffice: of two consecutive months, at least one has 31 days.
        let period = match self.which {
            Which::Latest | Which::Near | Which::Of(_) => {
                (-2..=0).rev().filter_map(in_month).find(|day| day.from <= self.now)
            }
            Which::Coming => (0..=2).filter_map(in_month).find(|day| day.until > self.now),
            Which::NotBefore(time) => (-2..=2).filter_map(in_month).find(|day| day.from >= time),
        };
        Some(Point { period: period?, kind: Kind::Recurring, end })
    }

    /// Reads a bare year.
    fn year(&self, at: usize, place: Place) -> Option<Point> {
        let year = word::year(&self.words[at].lower)?;
        let is_placed = place == Place::AfterTimeWord || self.is_placed(at);
        let is_counted = self.is_noun(at + 1)
            || self
                .words
                .get(at + 1)
                .is_some_and(|word| matches!(word.gap, Gap::Hyphen | Gap::Colon));
        (is_placed && !is_counted).then_some(())?;
        Some(Point { period: Period::year(year)?, kind: Kind::Absolute, end: at + 1 })
    }
}
