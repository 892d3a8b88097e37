//! Layout of texts in a prompt: numbered from 1, dated, and separate from the instructions.

use clew_core::{Error, MemoryPoint, Timestamp};

/// A passage as a model is shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Title of its document; may be empty.
    pub title: String,
    /// Time of the events that it describes.
    pub time: Option<Timestamp>,
    /// Text of the passage.
    pub text: String,
}

impl Passage {
    pub(crate) fn bytes(&self) -> usize {
        self.title.len() + self.text.len() + 1
    }
}

/// Text shown for an empty list.
const NONE: &str = "(none)";

/// Numbers each text; `[1]` is the first.
pub(crate) fn numbered<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<String> = texts
        .into_iter()
        .enumerate()
        .map(|(index, text)| format!("[{}] {text}", index + 1))
        .collect();
    or_none(lines.join("\n\n"))
}

/// Numbers each point, with its entities and its text.
pub(crate) fn points(points: &[MemoryPoint]) -> String {
    let line = |point: &MemoryPoint| match point.entities.as_slice() {
        [] => point.text.clone(),
        entities => format!("{}: {}", entities.join("; "), point.text),
    };
    let lines: Vec<String> = points.iter().map(line).collect();
    numbered(lines.iter().map(String::as_str))
}

/// Numbers each passage, with its title and day.
pub(crate) fn passages(passages: &[Passage]) -> String {
    let shown = passages.iter().enumerate().map(|(index, passage)| {
        let heading = heading(passage);
        let gap = if heading.is_empty() { "" } else { " " };
        format!("[{}]{gap}{heading}\n{}", index + 1, passage.text)
    });
    or_none(shown.collect::<Vec<_>>().join("\n\n"))
}

/// Writes each passage as a JSON object on one line, with its number, its day and title if it has
/// them, and its text (LongMemEval, section 5.5).
pub(crate) fn records<'a>(passages: impl Iterator<Item = &'a Passage>) -> String {
    let lines = passages.enumerate().map(|(index, passage)| {
        let day = passage.time.map(|time| format!(r#""day": {}, "#, json(&day(time))));
        let title = Some(&passage.title).filter(|title| !title.is_empty());
        let title = title.map(|title| format!(r#""title": {}, "#, json(title)));
        format!(
            r#"{{"passage": {}, {}{}"text": {}}}"#,
            index + 1,
            day.unwrap_or_default(),
            title.unwrap_or_default(),
            json(&passage.text)
        )
    });
    or_none(lines.collect::<Vec<_>>().join("\n"))
}

/// Writes a text as a JSON string.
pub(crate) fn json(text: &str) -> String {
    let mut string = String::with_capacity(text.len() + 2);
    string.push('"');
    for c in text.chars() {
        match c {
            '"' => string.push_str("\\\""),
            '\\' => string.push_str("\\\\"),
            '\n' => string.push_str("\\n"),
            '\t' => string.push_str("\\t"),
            c if c.is_ascii_control() => string.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => string.push(c),
        }
    }
    string.push('"');
    string
}

/// Writes a single passage, under its title and day if it has them.
pub(crate) fn passage(passage: &Passage) -> String {
    let heading = heading(passage);
    if heading.is_empty() { passage.text.clone() } else { format!("{heading}\n{}", passage.text) }
}

/// Returns the title and day of a passage.
fn heading(passage: &Passage) -> String {
    let day = passage.time.map(|time| format!("({})", day(time)));
    let parts = [Some(passage.title.clone()).filter(|title| !title.is_empty()), day];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns `text`, or the text for an empty list if it is blank.
pub(crate) fn or_none(text: String) -> String {
    if text.trim().is_empty() { NONE.to_owned() } else { text }
}

const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const DAY_MICROS: i64 = 86_400_000_000;

/// Writes the day of a time with its weekday, because models compute weekdays badly:
/// `Monday, 2024-05-20`.
pub(crate) fn day(time: Timestamp) -> String {
    let since_thursday = time.as_micros().div_euclid(DAY_MICROS).rem_euclid(7);
    let weekday = usize::try_from(since_thursday).map_or("", |index| WEEKDAYS[index]);
    let written = time.to_string();
    let date = written.split('T').next().unwrap_or_default();
    format!("{weekday}, {date}")
}

/// Returns the first instant of the period that `text` names, and the first instant after it.
/// `text` is `2024-05-20`, `2024/05/20`, `2024-05` or `2024`, or a time in RFC 3339, which stands
/// for its day (UTC).
///
/// # Errors
/// Returns an error if it is none of these.
pub(crate) fn period(text: &str) -> Result<(Timestamp, Timestamp), Error> {
    let written = text.trim().replace('/', "-");
    let date = written.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split('-').collect();
    let number = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| is_number)
    };
    let expected = || Error::invalid("date", "expected YYYY, YYYY-MM or YYYY-MM-DD");
    let numbers: Option<Vec<u32>> = parts.iter().map(|part| number(part)).collect();
    let first = |year: u32, month: u32, day: u32| {
        format!("{year:04}-{month:02}-{day:02}").parse::<Timestamp>()
    };
    match numbers.as_deref() {
        Some(&[year]) if parts[0].len() == 4 => Ok((first(year, 1, 1)?, first(year + 1, 1, 1)?)),
        Some(&[year, month]) if parts[0].len() == 4 => {
            let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            Ok((first(year, month, 1)?, first(next.0, next.1, 1)?))
        }
        Some(&[year, month, day]) if parts[0].len() == 4 => {
            let from = first(year, month, day)?;
            Ok((from, Timestamp::from_micros(from.as_micros() + DAY_MICROS)))
        }
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_numbered_titled_and_dated() {
        let time = Some("2024-05-20".parse().unwrap());
        let first = Passage { title: "Crete".to_owned(), time, text: "A maze.".to_owned() };
        let second = Passage { text: "A clew.".to_owned(), ..Passage::default() };
        assert_eq!(passage(&first), "Crete (Monday, 2024-05-20)\nA maze.");
        assert_eq!(passage(&second), "A clew.");
        let shown = passages(&[first, second]);
        assert_eq!(shown, "[1] Crete (Monday, 2024-05-20)\nA maze.\n\n[2]\nA clew.");
        assert_eq!(passages(&[]), "(none)");
        assert_eq!(records([].into_iter()), "(none)");
        assert_eq!(numbered(["a", "b"]), "[1] a\n\n[2] b");
        assert_eq!(day(Timestamp::from_micros(-1)), "Wednesday, 1969-12-31");
    }

    #[test]
    fn records_are_json() {
        let time = "2024-05-20".parse().ok();
        let text = "She said:\n\t\"C:\\\" \u{1}é".to_owned();
        let first = Passage { title: "A \"b\"".to_owned(), time, text };
        let second = Passage { text: "A clew.".to_owned(), ..Passage::default() };
        assert_eq!(
            records([first, second].iter()),
            concat!(
                r#"{"passage": 1, "day": "Monday, 2024-05-20", "title": "A \"b\"", "#,
                r#""text": "She said:\n\t\"C:\\\" \u0001é"}"#,
                "\n",
                r#"{"passage": 2, "text": "A clew."}"#
            )
        );
    }

    #[test]
    fn periods_end_where_the_next_begins() {
        let written = |text| period(text).map(|(from, until)| format!("{from} {until}")).ok();
        let whole = |from: &str, until: &str| Some(format!("{from}T00:00:00Z {until}T00:00:00Z"));
        assert_eq!(written("2024/02/28"), whole("2024-02-28", "2024-02-29"));
        assert_eq!(written(" 2024-12 "), whole("2024-12-01", "2025-01-01"));
        assert_eq!(written("2024"), whole("2024-01-01", "2025-01-01"));
        assert_eq!(written("2024-05-20T10:00:00Z"), whole("2024-05-20", "2024-05-21"));
        for text in ["", "soon", "24", "2024-13-01", "2024-00", "9999", "2024-1-1-1", "99999-1-1"] {
            assert_eq!(written(text), None, "{text}");
        }
    }
}
