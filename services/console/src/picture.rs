//! Pictures, of which windows show a part that people move, also by keyboard and without a script.

use maud::{Markup, html};

/// How a picture is read: what it is to programs that read pages aloud, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// One picture, by its name alone. A window shows its left side first.
    Whole,
    /// A group of links, each by its text. A window shows its middle first.
    Links,
}

/// Part of the plane, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// Returns a picture of what is drawn within `frame`. The page must say in words all that it says.
pub(crate) fn picture(name: &str, reading: Reading, frame: Frame, drawn: &Markup) -> Markup {
    let Frame { left, top, width, height } = frame;
    let (role, begins) = match reading {
        Reading::Whole => ("img", "left"),
        Reading::Links => ("group", "middle"),
    };
    html! {
        div class="picture" data-picture=(begins) {
            div class="view" tabindex="0" role="region" aria-label=(name) {
                svg role=(role) width=(px(width)) height=(px(height))
                    viewBox=(format!("{left:.1} {top:.1} {width:.1} {height:.1}")) {
                    title { (name) }
                    (drawn)
                }
            }
        }
    }
}

/// Returns a coordinate as an attribute has it.
pub(crate) fn px(length: f64) -> String {
    format!("{length:.1}")
}

/// Returns a number of things as a length that others are multiplied by.
pub(crate) fn times(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns a text of at most `most` characters for a place that has no room for more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_by_characters() {
        assert_eq!(shortened("Zürich", 6), "Zürich");
        assert_eq!(shortened("Zürich", 3), "Zü…");
        assert_eq!(shortened("", 3), "");
    }

    #[test]
    fn a_picture_has_a_name_and_a_frame() {
        let frame = Frame { left: -10.0, top: 0.0, width: 20.0, height: 5.26 };
        let drawn = html! { text { "a" } };
        let told = picture("<b>", Reading::Whole, frame, &drawn).into_string();
        assert!(told.contains("viewBox=\"-10.0 0.0 20.0 5.3\""), "{told}");
        assert!(told.contains("<title>&lt;b&gt;</title><text>a</text></svg>"), "{told}");
    }
}
