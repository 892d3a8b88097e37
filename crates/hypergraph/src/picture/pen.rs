//! Drawing primitives of a figure.

use std::fmt::{self, Write};

use clew_text::{display_line, escaped};

/// Width of a character as a share of its height, on the high side for Helvetica.
const WIDTH: f64 = 0.56;
/// Maximum number of columns in a title.
const MOST_TITLE: usize = 400;
const PAPER: &str = "#fbfbf8";

/// Style of a text.
#[derive(Clone, Copy)]
pub(super) struct Ink {
    size: f64,
    colour: &'static str,
    weight: &'static str,
}

impl Ink {
    pub(super) const fn title() -> Self {
        Self { size: 16.0, colour: "#1b1f24", weight: "bold" }
    }

    pub(super) const fn plain() -> Self {
        Self { size: 12.0, colour: "#1b1f24", weight: "normal" }
    }

    pub(super) const fn small() -> Self {
        Self { size: 11.0, colour: "#4a5361", weight: "normal" }
    }

    pub(super) const fn bold(self) -> Self {
        Self { weight: "bold", ..self }
    }

    pub(super) const fn coloured(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    /// Returns how many columns ([`wrapped`]) a line of `width` has.
    pub(super) fn columns(self, width: f64) -> usize {
        let bold = if self.weight == "bold" { 1.15 } else { 1.0 };
        (width / self.size / WIDTH / bold) as usize
    }

    /// Returns the distance from one line to the next.
    pub(super) fn leading(self) -> f64 {
        (self.size * 1.3).round()
    }
}

/// Writer of the parts of a figure. Later parts cover earlier ones.
#[derive(Default)]
pub(super) struct Pen(String);

impl Pen {
    /// Draws a text that the caller has cut to length.
    pub(super) fn text(&mut self, (x, y): (f64, f64), ink: Ink, text: &str) {
        let Ink { size, colour, weight } = ink;
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" \
             fill=\"{colour}\">{}</text>\n",
            escaped(text)
        ));
    }

    /// Groups the parts that `inner` draws, under a title that viewers show beside the pointer.
    pub(super) fn titled(&mut self, title: &str, inner: impl FnOnce(&mut Self)) {
        let title = wrapped(title, MOST_TITLE, 1).concat();
        self.put(format_args!("<g><title>{}</title>\n", escaped(&title)));
        inner(self);
        self.put(format_args!("</g>\n"));
    }

    /// Draws a rounded area.
    pub(super) fn card(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        line: &str,
        area: &str,
    ) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"{:.1}\" fill=\"{area}\" stroke=\"{line}\" stroke-width=\"1.5\"/>\n",
            (height / 3.0).min(9.0)
        ));
    }

    /// Draws an entity.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), is_dashed: bool) {
        let dashes = if is_dashed { " stroke-dasharray=\"2.5 2\"" } else { "" };
        let area = if is_dashed { PAPER } else { "#56b4e9" };
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\" fill=\"{area}\" stroke=\"#0072b2\" \
             stroke-width=\"1.5\"{dashes}/>\n"
        ));
    }

    /// Draws a curve from a point to an entity.
    pub(super) fn tie(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let bend = f64::midpoint(from.0, to.0);
        self.put(format_args!(
            "<path d=\"M{:.1} {:.1}C{bend:.1} {:.1} {bend:.1} {:.1} {:.1} {:.1}\" fill=\"none\" \
             stroke=\"{colour}\" stroke-width=\"1.5\" stroke-opacity=\"0.7\"/>\n",
            from.0, from.1, from.1, to.1, to.0, to.1
        ));
    }

    /// Draws an arrow to the right.
    pub(super) fn arrow(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}m-6 -4l6 4l-6 4\" fill=\"none\" stroke=\"#98a2b0\" \
             stroke-width=\"2\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Returns the SVG elements that were drawn.
    pub(super) fn into_content(self) -> String {
        self.0
    }

    fn put(&mut self, part: fmt::Arguments<'_>) {
        self.0.write_fmt(part).expect("a string takes whatever is written");
    }
}

/// Returns the whole file, on paper with a margin.
pub(super) fn framed(content: &str, margin: f64, width: f64, height: f64) -> String {
    let (width, height) = (width + 2.0 * margin, height + 2.0 * margin);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"{0:.1} {0:.1} {width:.1} {height:.1}\" font-family=\"Helvetica, Arial, 'DejaVu \
         Sans', sans-serif\">\n<rect x=\"{0:.1}\" y=\"{0:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" fill=\"{PAPER}\"/>\n{content}</svg>\n",
        -margin
    )
}

/// Wraps a text to at most `most` lines of at most `columns` columns, between words if possible.
/// Most small letters are one column wide. Capitals, and characters beyond European scripts, are
/// wider.
pub(super) fn wrapped(text: &str, columns: usize, most: usize) -> Vec<String> {
    let text = display_line(text);
    let mut rest = text.as_str();
    let mut lines = Vec::new();
    while !rest.is_empty() && lines.len() < most {
        let (line, after) = first_line(rest, columns);
        if lines.len() + 1 == most && !after.is_empty() {
            let (line, _) = first_line(rest, columns.saturating_sub(1));
            lines.push(format!("{line}…"));
            break;
        }
        lines.push(line.to_owned());
        rest = after;
    }
    lines
}

/// Returns the part of a text that fits on a line, at least one character, and the rest.
fn first_line(text: &str, columns: usize) -> (&str, &str) {
    let mut taken = 0.0;
    for (at, c) in text.char_indices() {
        // Widths of DejaVu Sans, the widest of the usual fonts.
        taken += match c {
            'i' | 'j' | 'l' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' => 0.6,
            'f' | 'r' | 't' => 0.8,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.75,
            'A'..='Z' => 1.4,
            '\u{1100}'.. => 2.0,
            _ => 1.0,
        };
        if taken > columns as f64 && at > 0 {
            let blank = if c == ' ' { None } else { text[..at].rfind(' ') };
            let end = blank.unwrap_or(at);
            return (text[..end].trim_end(), text[end..].trim_start());
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("a ball  of\nthread", 7, 3), ["a ball", "of", "thread"]);
        assert_eq!(wrapped("a ball of thread", 5, 1), ["a…"]);
        assert_eq!(wrapped("a ball of thread", 7, 1), ["a ball…"]);
        assert_eq!(wrapped("a ball of thread", 6, 2), ["a ball", "of…"]);
        assert_eq!(wrapped("Llanfairpwllgwyngyll", 6, 1), ["Llanf…"]);
        assert_eq!(wrapped("WIDE WORDS", 8, 2), ["WIDE", "WORDS"]);
        assert_eq!(wrapped("千里の道も", 6, 2), ["千里の", "道も"]);
    }
}
