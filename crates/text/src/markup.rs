//! Texts as parts of a page, a picture or a line of output.

/// Escapes a text for elements and for attributes in double quotes, of XML and of HTML. Characters
/// that XML 1.0 or HTML does not allow become U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Unescaped, these would be read as another kind of white space.
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", u32::from(c))),
            '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Puts a text on one line for people to read. White space becomes single blanks. Characters that
/// control a terminal or the direction of writing are left out.
pub fn display_line(text: &str) -> String {
    let shown = |word: &str| word.chars().filter(|c| !steers(*c)).collect::<String>();
    let words = text.split_whitespace().map(shown).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_what_neither_xml_nor_html_allows_is_replaced() {
        assert_eq!(escaped("<a b=\"c\"> & 'd'"), "&lt;a b=&quot;c&quot;&gt; &amp; 'd'");
        assert_eq!(escaped("a\tb\r\nc"), "a&#9;b&#13;&#10;c");
        assert_eq!(escaped("a\0b\u{1b}c\u{ffff}\u{85}é"), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}é");
    }

    #[test]
    fn a_line_has_no_other_white_space_than_blanks_and_steers_nothing() {
        assert_eq!(display_line(" a\r\nb\u{2028}\u{1b}[31m \u{7} \u{202e}c\u{a0}"), "a b [31m c");
    }

    #[test]
    fn what_steers_a_terminal_is_left_out() {
        assert_eq!(display_line("a\u{1b}[31m \u{7} b\u{202e}\tc"), "a[31m b c");
    }
}
