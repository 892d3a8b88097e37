//! Tables of expressions with their meanings.

mod dates;
mod distances;
mod laws;
mod questions;

use clew_core::{TimeRange, Timestamp};
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;

use super::{Moment, mentions};

/// A text and the range that it means: `day`, or `from until` in days or local times, with `..` for
/// an open side. Empty for no range.
type Row = (&'static str, &'static str);

/// Returns the moment that `written` describes, with its offset.
fn moment(written: &str) -> Moment {
    let time = written.parse::<jiff::Timestamp>().unwrap();
    let offset = Pieces::parse(written).unwrap().to_numeric_offset().unwrap();
    let minutes = i16::try_from(offset.seconds() / 60).unwrap();
    Moment::try_new(Timestamp::from_micros(time.as_microsecond()), minutes).unwrap()
}

fn expected(written: &str, at: Moment) -> Option<TimeRange> {
    let local = |side: &str| {
        let local: DateTime = side.parse().unwrap();
        at.timestamp(local).unwrap()
    };
    let side = |side: &str| (side != "..").then(|| local(side));
    match written.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] => None,
        [day] => {
            let next = day.parse::<jiff::civil::Date>().unwrap().tomorrow().unwrap();
            Some(TimeRange { from: side(day), until: side(&next.to_string()) })
        }
        [from, until] => Some(TimeRange { from: side(from), until: side(until) }),
        _ => unreachable!("a row of the table has a range of two sides"),
    }
}

fn check(at: &str, rows: &[Row], read: impl Fn(&str, Moment) -> Option<TimeRange>) {
    let moment = moment(at);
    let wrong: Vec<String> = rows
        .iter()
        .map(|(text, range)| (text, read(text, moment), expected(range, moment)))
        .filter(|(_, found, expected)| found != expected)
        .map(|(text, found, expected)| {
            format!("{text}\n  found    {}\n  expected {}", shown(found), shown(expected))
        })
        .collect();
    assert!(wrong.is_empty(), "at {at}:\n{}", wrong.join("\n"));
}

fn shown(range: Option<TimeRange>) -> String {
    let Some(range) = range else { return "none".to_owned() };
    let side = |side: Option<Timestamp>| side.map_or("..".to_owned(), |time| time.to_string());
    format!("{} {}", side(range.from), side(range.until))
}

/// Returns the range of the only expression in a text.
fn mentioned(text: &str, at: Moment) -> Option<TimeRange> {
    let found = mentions(text, at);
    assert!(found.len() < 2, "{text}: {found:?}");
    found.first().map(|mention| mention.range)
}
