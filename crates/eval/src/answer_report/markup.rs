//! Text and colours of a page, in tables and in plots.

/// Number of colours. Further runs reuse them and differ by their numbers.
const SERIES: usize = 8;

/// Returns the class of the colour of the run at `index`.
pub(super) fn series(index: usize) -> String {
    format!("s{}", index % SERIES + 1)
}

/// Escapes `text` so that it can stand between tags and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in a page in any form.
            c if c.is_control() && !c.is_whitespace() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
