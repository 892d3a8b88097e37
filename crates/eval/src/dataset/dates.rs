//! Formats of times in the data sets. None of them has a time zone; all are read as UTC.

use clew_core::Timestamp;

/// Parses `2023/05/20 (Sat) 02:21`, the format of LongMemEval. The day of the week is not checked.
pub(super) fn slashed(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(' ')?;
    let time = rest.rsplit(' ').next()?;
    let mut parts = date.split('/').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (hour, minute) = clock(time)?;
    timestamp([year, month, day], [hour, minute])
}

/// Parses `1:56 pm on 8 May, 2023`, the format of LoCoMo.
pub(super) fn spoken(text: &str) -> Option<Timestamp> {
    let (time, date) = text.split_once(" on ")?;
    let (time, half) = time.trim().split_once(' ')?;
    let (hour, minute) = clock(time)?;
    let hour = match (half.to_ascii_lowercase().as_str(), hour) {
        ("am", 12) => 0,
        ("am", 1..=11) => hour,
        ("pm", 12) => 12,
        ("pm", 1..=11) => hour + 12,
        _ => return None,
    };
    let mut parts = date.split([' ', ',']).filter(|part| !part.is_empty());
    let (day, month, year) =
        (number(parts.next()?)?, month(parts.next()?)?, number(parts.next()?)?);
    timestamp([year, month, day], [hour, minute])
}

/// Parses `March-15-2024`, the format of BEAM.
pub(super) fn dashed(text: &str) -> Option<Timestamp> {
    let mut parts = text.split('-');
    let (month, day, year) =
        (month(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    timestamp([year, month, day], [0, 0])
}

/// Parses `20260105_11:00`, the format of LiHua-World.
pub(super) fn compact(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('_')?;
    let (year, month, day) = (date.get(..4)?, date.get(4..6)?, date.get(6..)?);
    let (hour, minute) = clock(time)?;
    timestamp([number(year)?, number(month)?, number(day)?], [hour, minute])
}

fn clock(text: &str) -> Option<(u32, u32)> {
    let (hour, minute) = text.split_once(':')?;
    Some((number(hour)?, number(minute)?))
}

fn number(digits: &str) -> Option<u32> {
    digits.parse().ok()
}

fn month(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    clew_text::month(&name).map(u32::from)
}

/// Converts a date and a time of day; the parser of RFC 3339 checks the calendar.
fn timestamp([year, month, day]: [u32; 3], [hour, minute]: [u32; 2]) -> Option<Timestamp> {
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: fn(&str) -> Option<Timestamp>, good: &[(&str, &str)], bad: &[&str]) {
        for (text, expected) in good {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in bad {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn each_way_of_writing_a_time_is_read() {
        check(
            slashed,
            &[("2021/02/03 (Wed) 04:05", "2021-02-03T04:05:00Z")],
            &["", "2021/02/03", "2021/02/30 (Tue) 04:05", "2021/02 (Wed) 04:05"],
        );
        check(
            spoken,
            &[
                ("12:05 am on 9 May, 2021", "2021-05-09T00:05:00Z"),
                ("12:00 pm on 9 May, 2021", "2021-05-09T12:00:00Z"),
                ("7:30 PM on 31 December, 2021", "2021-12-31T19:30:00Z"),
            ],
            &["", "13:00 pm on 9 May, 2021", "1:00 pm on 9 Mai, 2021", "1:00 pm on May"],
        );
        check(dashed, &[("June-07-2022", "2022-06-07")], &["", "soon", "June-2022", "7-7-2022"]);
        check(
            compact,
            &[("20220607_18:30", "2022-06-07T18:30:00Z")],
            &["", "2022_18:30", "20220607", "20220607_1830", "2022é0607_18:30"],
        );
    }
}
