//! Drawing primitives of a figure.

use std::fmt::Write;

use clew_text::escaped;

use crate::words::{em, shortened, width, wrapped};

/// Colours. Those that distinguish things are distinguishable for colour-blind people (Okabe and
/// Ito).
pub(super) mod accent {
    pub(in super::super) const INK: &str = "#1b1f24";
    pub(in super::super) const SOFT: &str = "#4a5361";
    pub(in super::super) const GREY: &str = "#62686f";
    pub(in super::super) const GREY_FILL: &str = "#eeeff0";
    pub(in super::super) const LINE: &str = "#98a2b0";
    pub(in super::super) const PATH: &str = "#0072b2";
    pub(in super::super) const PATH_FILL: &str = "#e8f2f9";
    pub(in super::super) const ANSWER: &str = "#007a59";
    pub(in super::super) const ANSWER_FILL: &str = "#def3ec";
    pub(in super::super) const CHOSEN: &str = "#e69f00";
    pub(in super::super) const MISSING: &str = "#b35000";
    pub(in super::super) const MISSING_FILL: &str = "#fdf1e3";
    pub(in super::super) const WHITE: &str = "#ffffff";
}

/// Style of a text.
#[derive(Clone, Copy)]
pub(super) struct Face {
    size: f64,
    colour: &'static str,
    is_bold: bool,
    is_italic: bool,
    anchor: &'static str,
}

impl Face {
    const fn of(size: f64, colour: &'static str) -> Self {
        Self { size, colour, is_bold: false, is_italic: false, anchor: "start" }
    }

    pub(super) const fn title() -> Self {
        Self::of(20.0, accent::INK).bold()
    }

    pub(super) const fn large() -> Self {
        Self::of(15.0, accent::INK)
    }

    pub(super) const fn plain() -> Self {
        Self::of(12.0, accent::SOFT)
    }

    pub(super) const fn small() -> Self {
        Self::of(11.0, accent::SOFT)
    }

    pub(super) const fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }

    pub(super) const fn italic(self) -> Self {
        Self { is_italic: true, ..self }
    }

    pub(super) const fn coloured(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    pub(super) const fn anchored(self, anchor: &'static str) -> Self {
        Self { anchor, ..self }
    }

    /// Returns how many average characters of this face fit into `width`.
    fn room(self, width: f64) -> f64 {
        let bold = if self.is_bold { 1.12 } else { 1.0 };
        width / self.size / bold
    }

    /// Returns the width of `text`.
    pub(super) fn width(self, text: &str) -> f64 {
        width(text, em) / self.room(1.0)
    }

    /// Returns `text` cut to a width.
    pub(super) fn cut(self, text: &str, most: f64) -> String {
        shortened(text, self.room(most), em)
    }

    /// Returns `text` on at most `most` lines of a width.
    pub(super) fn lines(self, text: &str, room: f64, most: usize) -> Vec<String> {
        wrapped(text, self.room(room), most, em)
    }

    /// Returns the distance between two lines.
    pub(super) fn leading(self) -> f64 {
        (self.size * 1.3).round()
    }
}

/// A part of a figure, with its origin in the upper left corner.
#[derive(Default)]
pub(super) struct Panel {
    pub(super) body: String,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Panel {
    /// Extends the panel to at least this size.
    pub(super) fn covers(&mut self, width: f64, height: f64) {
        self.width = self.width.max(width);
        self.height = self.height.max(height);
    }

    /// Adds another panel at a position.
    pub(super) fn put(&mut self, part: &Self, x: f64, y: f64) {
        self.push(format_args!("<g transform=\"translate({x:.1} {y:.1})\">\n{}</g>\n", part.body));
    }

    /// Draws what `inner` draws, with a text that a browser shows as a tooltip.
    pub(super) fn titled(&mut self, title: &str, inner: impl FnOnce(&mut Self)) {
        const MOST_TITLE: f64 = 400.0;
        let title = escaped(&shortened(title, MOST_TITLE, em));
        self.push(format_args!("<g><title>{title}</title>"));
        inner(self);
        self.push(format_args!("</g>\n"));
    }

    /// Writes a text that the caller has already cut.
    pub(super) fn text(&mut self, x: f64, y: f64, face: Face, text: &str) {
        let mut style = String::new();
        if face.is_bold {
            style.push_str(" font-weight=\"bold\"");
        }
        if face.is_italic {
            style.push_str(" font-style=\"italic\"");
        }
        if face.anchor != "start" {
            style.push_str(&format!(" text-anchor=\"{}\"", face.anchor));
        }
        let (size, colour, text) = (face.size, face.colour, escaped(text));
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\"{style}>{text}</text>\n"
        ));
    }

    /// Writes a text over several lines with the first base line at `y`. Returns the base line
    /// below the last.
    pub(super) fn wrapped(
        &mut self,
        (x, mut y): (f64, f64),
        face: Face,
        text: &str,
        (room, most): (f64, usize),
    ) -> f64 {
        for line in face.lines(text, room, most) {
            self.text(x, y, face, &line);
            y += face.leading();
        }
        y
    }

    /// Draws a box with round corners.
    pub(super) fn rounded(
        &mut self,
        (x, y, width, height): (f64, f64, f64, f64),
        fill: &str,
        stroke: &str,
        more: &str,
    ) {
        let radius = 8_f64.min(width / 2.0);
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"{radius:.1}\" fill=\"{fill}\" stroke=\"{stroke}\" {more}/>\n"
        ));
    }

    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, fill: &str, more: &str) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{fill}\" {more}/>\n"
        ));
    }

    /// Draws a number in a disc.
    pub(super) fn badge(&mut self, (x, y): (f64, f64), number: usize, colour: &'static str) {
        let number = number.to_string();
        let face = Face::small().bold().coloured(accent::WHITE).anchored("middle");
        let radius = (face.width(&number) / 2.0 + 3.0).max(10.0);
        self.circle((x, y), radius, colour, "stroke=\"#fbfbf8\" stroke-width=\"1.5\"");
        self.text(x, y + 4.0, face, &number);
    }

    /// Draws a line.
    pub(super) fn line(&mut self, path: &str, colour: &str, wide: f64, more: &str) {
        self.push(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide}\" {more}/>\n"
        ));
    }

    /// Draws the head of an arrow with its tip at a position, pointing left if `is_leftward`.
    pub(super) fn tip(&mut self, (x, y): (f64, f64), is_leftward: bool, colour: &str) {
        let back = if is_leftward { 9.0 } else { -9.0 };
        self.push(format_args!("<path d=\"M{x:.1} {y:.1}l{back} -4.5v9z\" fill=\"{colour}\"/>\n"));
    }

    /// Draws a line downwards that ends in the head of an arrow.
    pub(super) fn down(&mut self, x: f64, (from, to): (f64, f64), colour: &str) {
        self.line(&format!("M{x:.1} {from:.1}V{:.1}", to - 6.0), colour, 1.5, "");
        self.push(format_args!("<path d=\"M{x:.1} {to:.1}l-4.5 -9h9z\" fill=\"{colour}\"/>\n"));
    }

    fn push(&mut self, markup: std::fmt::Arguments<'_>) {
        self.body.write_fmt(markup).expect("writing to a string does not fail");
    }
}
