//! Fitting of texts into limited space.

use clew_text::display_line;

/// Returns the number of terminal columns that `c` takes.
pub(crate) fn cell(c: char) -> f64 {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        _ if is_wide(c) => 2.0,
        _ => 1.0,
    }
}

/// Returns the width of `c` as a share of the font size, for DejaVu Sans, which is wider than
/// Helvetica and Arial.
pub(crate) fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' | '.' | ',' | ' ' | ':' | ';' => 0.34,
        'f' | 't' | 'r' | '-' | '(' | ')' | '[' | ']' | '/' | '"' => 0.44,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '—' | '→' => 1.0,
        'A'..='Z' | '&' | '<' | '>' | '=' | '+' | '#' => 0.8,
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        _ if is_wide(c) => 1.3,
        _ if c.is_ascii() => 0.635,
        _ if c.is_uppercase() => 1.1,
        _ => 0.8,
    }
}

fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}')
}

/// Returns the sum of the widths of the characters.
pub(crate) fn width(text: &str, of: fn(char) -> f64) -> f64 {
    text.chars().map(of).sum()
}

/// Returns a text on one line of at most `room`, cut between words if possible.
pub(crate) fn shortened(text: &str, room: f64, of: fn(char) -> f64) -> String {
    wrapped(text, room, 1, of).pop().unwrap_or_default()
}

/// Returns a text on at most `most` lines of at most `room` each, cut between words if possible.
pub(crate) fn wrapped(text: &str, room: f64, most: usize, of: fn(char) -> f64) -> Vec<String> {
    let text = display_line(text);
    let mut rest = text.as_str();
    let mut lines = Vec::new();
    while !rest.is_empty() && lines.len() < most {
        let is_last = lines.len() + 1 == most;
        let (line, after) = first_line(rest, room, of);
        if is_last && !after.is_empty() {
            let (line, _) = first_line(rest, room - of('…'), of);
            lines.push(format!("{line}…"));
            break;
        }
        lines.push(line.to_owned());
        rest = after;
    }
    lines
}

/// Returns the part that fits on a line, at least one character, and the rest.
fn first_line(text: &str, room: f64, of: fn(char) -> f64) -> (&str, &str) {
    let mut wide = 0.0;
    let mut blank = None;
    for (at, c) in text.char_indices() {
        wide += of(c);
        if c == ' ' {
            blank = Some(at);
        }
        if wide > room && at > 0 {
            // A word that fits on no line is better cut here than moved, which would leave this
            // line almost empty.
            let fits = |blank: usize| {
                let word = text[blank..].trim_start().split(' ').next().unwrap_or_default();
                blank * 3 > at || word.chars().count() < at
            };
            let end = blank.filter(|&blank| fits(blank)).unwrap_or(at);
            return (text[..end].trim_end(), text[end..].trim_start());
        }
    }
    (text, "")
}

/// Formats a size for people.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Formats a duration for people.
pub(crate) fn millis(millis: f64) -> String {
    if millis < 1000.0 { format!("{millis:.0} ms") } else { format!("{:.1} s", millis / 1e3) }
}

/// Formats a score with few digits.
pub(crate) fn score(score: f32) -> String {
    if score.abs() < 1000.0 { format!("{score:.2}") } else { format!("{score:.2e}") }
}

/// Formats a number of things.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Formats how much of the text was read.
pub(crate) fn share(read: u64, total: u64) -> String {
    if total == 0 {
        return format!("{} read", bytes(read));
    }
    let percent = read as f64 / total as f64 * 100.0;
    format!("{} of {} read ({percent:.1} %)", bytes(read), bytes(total))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("a ball  of\nthread", 7.0, 3, cell), ["a ball", "of", "thread"]);
        assert_eq!(wrapped("a ball of thread", 9.0, 1, cell), ["a ball…"]);
        assert_eq!(shortened("Llanfairpwllgwyngyll", 6.0, cell), "Llanf…");
        assert_eq!(shortened("a ball", 6.0, cell), "a ball");
        assert!(wrapped(" ", 9.0, 2, cell).is_empty());
    }

    proptest! {
        #[test]
        fn lines_fit(text in any::<String>(), room in 4_u8..40, most in 1_usize..4) {
            for of in [cell, em] {
                let lines = wrapped(&text, f64::from(room), most, of);
                prop_assert!(lines.len() <= most);
                for line in lines {
                    prop_assert!(width(&line, of) <= f64::from(room) + 1e-9, "{}", line);
                }
            }
        }
    }
}
