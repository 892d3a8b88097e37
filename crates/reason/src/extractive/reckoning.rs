//! Computes with dates: the time between events, the day of an event, and the order of events.
//!
//! A question is split into the events it names, each event is dated by the sentence that describes
//! it, and the answer is computed from the days. English only; a question of another form is read
//! like any other.

mod asked;
mod dated;

pub(super) use self::asked::{Event, Reckoning, Unit};
pub(super) use self::dated::{Dated, dated};

use self::asked::Rank;

use clew_core::Timestamp;

use crate::prompted::day;

/// Length, in days, of a week, and of a mean month and year.
const WEEK: f64 = 7.0;
const MONTH: f64 = 30.44;
const YEAR: f64 = 365.25;

impl Reckoning {
    /// Returns the answer computed from the days of the events, in one sentence. `now` is the day
    /// of the question.
    ///
    /// Returns `None` if the days do not suffice: of two events on one day none was first, and how
    /// long ago an event was depends on the day of the question.
    pub(super) fn told(&self, days: &[Dated], now: Option<i64>) -> Option<String> {
        match (self, days) {
            (Self::Between { unit, .. }, [from, until]) => {
                let (from, until) = (from.min(until), from.max(until));
                let length = until.middle() - from.middle();
                let about = !(from.is_exact() && until.is_exact());
                let figure = figure(length, *unit, about)?;
                Some(format!("{figure}: {}, then {}.", from.written(), until.written()))
            }
            (Self::Since { unit, .. }, [event]) => {
                let length = now? as f64 - event.middle();
                let figure = figure(length, *unit, !event.is_exact())?;
                Some(format!("{figure} ago: {}.", event.written()))
            }
            (Self::When { .. }, [event]) => {
                let written = event.written();
                Some(match (event.is_named(), event.is_exact()) {
                    (false, _) => format!("By {written}, when it was said."),
                    (true, true) => format!("On {written}."),
                    (true, false) => format!("It was {written}."),
                })
            }
            (Self::Order { events, rank }, days) if events.len() == days.len() => {
                in_order(events, *rank, days)
            }
            _ => None,
        }
    }
}

fn day_of(number: i64) -> String {
    day(Timestamp::from_micros(number.saturating_mul(dated::DAY_MICROS)))
}

fn in_order(events: &[Event], rank: Rank, days: &[Dated]) -> Option<String> {
    let mut order: Vec<(&Event, &Dated)> = events.iter().zip(days).collect();
    order.sort_by_key(|(_, day)| **day);
    let is_clear = order.windows(2).all(|pair| pair[0].1.middle() < pair[1].1.middle());
    if !is_clear {
        return None;
    }
    let event = |(event, day): &(&Event, &Dated)| format!("“{}” ({})", event.text, day.written());
    let told: Vec<String> = order.iter().map(event).collect();
    Some(match rank {
        Rank::First | Rank::All => format!("First {}.", told.join(", then ")),
        Rank::Last => {
            let last_first: Vec<String> = told.into_iter().rev().collect();
            format!("Last {}.", last_first.join(", before that "))
        }
    })
}

/// Writes a number of days in a unit, with the days themselves if the unit is not exact. Returns
/// `None` for less than half a day, and for a negative time.
fn figure(days: f64, unit: Unit, about: bool) -> Option<String> {
    if days < 0.5 {
        return None;
    }
    let unit = match unit {
        Unit::Any if days < 2.0 * WEEK => Unit::Days,
        Unit::Any if days < 2.0 * MONTH => Unit::Weeks,
        Unit::Any if days < 2.0 * YEAR => Unit::Months,
        Unit::Any => Unit::Years,
        unit => unit,
    };
    let (name, length) = match unit {
        Unit::Days | Unit::Any => ("day", 1.0),
        Unit::Weeks => ("week", WEEK),
        Unit::Months => ("month", MONTH),
        Unit::Years => ("year", YEAR),
    };
    let count = (days / length).round();
    let about = about || (count * length - days).abs() >= 0.5;
    let plural = |count: f64, name: &str| {
        format!("{count:.0} {name}{}", if count == 1.0 { "" } else { "s" })
    };
    let whole = if unit == Unit::Days {
        plural(count, name)
    } else {
        format!("{} ({})", plural(count, name), plural(days.round(), "day"))
    };
    Some(if about { format!("About {whole}") } else { whole })
}

impl Dated {
    /// Returns the day, or the first and the last day.
    pub(super) fn written(&self) -> String {
        if self.from == self.until {
            return day_of(self.from);
        }
        format!("between {} and {}", day_of(self.from), day_of(self.until))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> i64 {
        Dated::at(text.parse().unwrap()).from
    }

    /// Returns the answer to `question` from `statements`, each with the day on which it was said.
    fn told(question: &str, statements: &[(&str, &str)]) -> Option<String> {
        let asked = Reckoning::of(question).unwrap_or_else(|| panic!("{question}"));
        let events = asked.events();
        let days: Vec<Dated> = statements
            .iter()
            .zip(&events)
            .map(|((at, text), event)| dated(text, event, at.parse().ok(), None).unwrap())
            .collect();
        asked.told(&days, Some(number("2024-06-01")))
    }

    #[test]
    fn days_between_what_was_told_are_counted() {
        for (question, statements, expected) in [
            (
                "How many days passed between my visit to the dentist and the harp concert?",
                vec![
                    ("2024-05-02", "I was at the dentist yesterday."),
                    ("2024-05-20", "The harp concert was on May 11th."),
                ],
                Some("10 days: Wednesday, 2024-05-01, then Saturday, 2024-05-11."),
            ),
            (
                "How many weeks ago did I plant the quince?",
                vec![("2024-05-11", "I planted a quince today.")],
                Some("3 weeks (21 days) ago: Saturday, 2024-05-11."),
            ),
            (
                "How many months ago did I plant the quince?",
                vec![("2024-05-11", "I planted a quince last month.")],
                Some(
                    "About 2 months (47 days) ago: between Monday, 2024-04-01 and Tuesday, 2024-04-30.",
                ),
            ),
            (
                "When did I plant the quince?",
                vec![("2024-05-11", "I planted a quince two days ago.")],
                Some("On Thursday, 2024-05-09."),
            ),
            (
                "Which did I plant first, the quince or the medlar?",
                vec![
                    ("2024-05-11", "I planted a quince today."),
                    ("2024-05-20", "I planted a medlar on 3 May."),
                ],
                Some(
                    "First “the medlar” (Friday, 2024-05-03), then “the quince” (Saturday, 2024-05-11).",
                ),
            ),
            (
                "Which did I plant first, the quince or the medlar?",
                vec![("2024-05-11", "I planted a quince."), ("2024-05-11", "I planted a medlar.")],
                None,
            ),
        ] {
            assert_eq!(told(question, &statements).as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn lengths_are_told_in_the_unit_asked_for() {
        for (days, unit, expected) in [
            (1.0, Unit::Days, Some("1 day")),
            (14.0, Unit::Weeks, Some("2 weeks (14 days)")),
            (16.0, Unit::Any, Some("About 2 weeks (16 days)")),
            (365.0, Unit::Any, Some("12 months (365 days)")),
            (1461.0, Unit::Any, Some("4 years (1461 days)")),
            (0.0, Unit::Days, None),
            (-3.0, Unit::Days, None),
        ] {
            assert_eq!(figure(days, unit, false).as_deref(), expected);
        }
    }

    proptest! {
        #[test]
        fn any_days_can_be_reckoned_with(a: i64, b: i64, now: i64) {
            let [a, b] = [a, b].map(|from| Dated { from, until: from, is_told: true });
            for question in ["How many days are between X and Y?", "Which was first, X or Y?"] {
                let asked = Reckoning::of(question).unwrap();
                let _ = asked.told(&[a, b], Some(now));
            }
        }
    }
}
