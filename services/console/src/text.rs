//! Stored values as people read them, and stored texts as they are.

use clew_proto::{Duration, Timestamp};
use maud::{Markup, Render, html};

/// A stored text, of which a page has every character: what is read from the page's tree is what
/// is stored.
///
/// Beside markup, it escapes the returns of lines, which browsers would take for others, and shows
/// U+FFFD for the one character that no page can have.
pub(crate) struct Exact<'a>(pub &'a str);

impl Render for Exact<'_> {
    fn render_to(&self, buffer: &mut String) {
        for character in self.0.chars() {
            match character {
                '&' => buffer.push_str("&amp;"),
                '<' => buffer.push_str("&lt;"),
                '>' => buffer.push_str("&gt;"),
                '"' => buffer.push_str("&quot;"),
                '\r' => buffer.push_str("&#13;"),
                '\0' => buffer.push('\u{fffd}'),
                other => buffer.push(other),
            }
        }
    }
}

/// Returns a number with commas between its thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with the word for what is counted, whose plural ends with `s`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// Returns a time, to the second.
pub(crate) fn time(time: Option<&Timestamp>) -> Markup {
    let read = time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok());
    let Some(read) = read else { return html! { "–" } };
    let machine = read.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let people = read.strftime("%Y-%m-%d %H:%M:%S").to_string();
    html! { time datetime=(machine) { (people) " UTC" } }
}

/// Returns a day, such as `2026-11-27`; `without a date` if there is no time.
pub(crate) fn day(time: Option<&Timestamp>) -> String {
    let read = time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok());
    read.map_or_else(|| "without a date".to_owned(), |read| read.strftime("%Y-%m-%d").to_string())
}

/// Returns how long something took.
pub(crate) fn took(duration: Option<&Duration>) -> String {
    lasted(duration.and_then(|duration| (*duration).try_into().ok()).unwrap_or_default())
}

/// Returns how long something lasted.
pub(crate) fn lasted(duration: std::time::Duration) -> String {
    let millis = duration.as_secs_f64() * 1e3;
    if millis < 1000.0 { format!("{millis:.1} ms") } else { format!("{:.2} s", millis / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "chunk"), counted(2, "chunk")], ["1 chunk", "2 chunks"]);
        assert_eq!([0, 1, 1023].map(size), ["0 bytes", "1 byte", "1,023 bytes"]);
        assert_eq!([1024, 1 << 20, u64::MAX].map(size), ["1.0 KiB", "1.0 MiB", "16777216.0 TiB"]);
        let duration = |seconds, nanos| took(Some(&Duration { seconds, nanos }));
        assert_eq!([duration(0, 1_500_000), duration(2, 0)], ["1.5 ms", "2.00 s"]);
    }

    #[test]
    fn a_time_is_one_for_people_and_one_for_machines() {
        let second = Timestamp { seconds: 1_800_000_000, nanos: 5 };
        let told = time(Some(&second)).into_string();
        let expected = "<time datetime=\"2027-01-15T08:00:00Z\">2027-01-15 08:00:00 UTC</time>";
        assert_eq!(told, expected);
        assert_eq!(day(Some(&second)), "2027-01-15");
        let never = Timestamp { seconds: i64::MAX, nanos: 0 };
        assert_eq!(time(Some(&never)).into_string(), "–");
    }

    #[test]
    fn a_text_is_escaped_and_complete() {
        let hostile = "<script>alert(\"1\")</script>&amp;\r\n\0\u{202e}'";
        let told = html! { (Exact(hostile)) }.into_string();
        assert_eq!(
            told,
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;&#13;\n\u{fffd}\u{202e}'"
        );
    }
}
