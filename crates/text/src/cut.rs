//! Cuts a text into readable pieces: no piece ends inside a grapheme cluster, and none is only
//! white space.

use clew_core::Span;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Cuts `text[span]` at `cuts`, which ascend. Skips a cut that lies inside a grapheme cluster or
/// would leave a piece of only white space.
pub(crate) fn at(text: &str, span: Span, cuts: impl IntoIterator<Item = usize>) -> Vec<Span> {
    let mut pieces = Vec::new();
    let (mut start, mut seen, mut has_ink) = (span.start, span.start, false);
    for cut in cuts {
        if cut <= seen || cut >= span.end {
            continue;
        }
        has_ink |= holds_ink(&text[seen..cut]);
        seen = cut;
        if has_ink && is_grapheme_boundary(text, cut) {
            pieces.push(Span::new(start, cut));
            (start, has_ink) = (cut, false);
        }
    }
    if holds_ink(&text[start..span.end]) || pieces.is_empty() {
        pieces.push(Span::new(start, span.end));
    } else if let Some(last) = pieces.last_mut() {
        last.end = span.end;
    }
    pieces
}

/// Splits `text[span]` into runs without white space, each with the white space that follows it.
/// `span` begins and ends between grapheme clusters.
pub(crate) fn words(text: &str, span: Span) -> Vec<Span> {
    by_grapheme(text, span, |before, next| !holds_ink(before) && holds_ink(next.text))
}

/// Cuts `text[span]` into pieces as long as `fits` allows, each at least one grapheme cluster.
pub(crate) fn fill(text: &str, span: Span, fits: impl Fn(Span) -> bool) -> Vec<Span> {
    by_grapheme(text, span, |_, next| {
        !fits(Span::new(next.piece_start, next.start + next.text.len()))
    })
}

/// Splits `text[span]` in two as close to its middle as possible: between words if there are
/// several, otherwise between grapheme clusters. Returns `None` for a single cluster.
pub(crate) fn halves(text: &str, span: Span) -> Option<(Span, Span)> {
    let middle = span.start + span.len() / 2;
    [words(text, span), fill(text, span, |_| false)].into_iter().find_map(|pieces| {
        let cut = pieces.iter().skip(1).map(|p| p.start).min_by_key(|c| c.abs_diff(middle))?;
        Some((Span::new(span.start, cut), Span::new(cut, span.end)))
    })
}

/// Returns whether `text` contains anything other than white space.
pub(crate) fn holds_ink(text: &str) -> bool {
    text.contains(|c: char| !c.is_whitespace())
}

/// Returns whether `text` may be cut at byte `at`.
pub(crate) fn is_grapheme_boundary(text: &str, at: usize) -> bool {
    // The cursor has the whole text, so it never asks for context.
    text.is_char_boundary(at)
        && GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0) == Ok(true)
}

/// A grapheme cluster, and the start of the piece it would join.
struct Grapheme<'a> {
    text: &'a str,
    start: usize,
    piece_start: usize,
}

fn by_grapheme(
    text: &str,
    span: Span,
    mut begins_piece: impl FnMut(&str, &Grapheme<'_>) -> bool,
) -> Vec<Span> {
    let mut pieces = Vec::new();
    let (mut piece_start, mut has_ink, mut before) = (span.start, false, "");
    for (offset, cluster) in text[span.start..span.end].grapheme_indices(true) {
        let next = Grapheme { text: cluster, start: span.start + offset, piece_start };
        let is_ink = holds_ink(cluster);
        if has_ink && is_ink && begins_piece(before, &next) {
            pieces.push(Span::new(piece_start, next.start));
            (piece_start, has_ink) = (next.start, false);
        }
        has_ink |= is_ink;
        before = cluster;
    }
    if piece_start < span.end {
        pieces.push(Span::new(piece_start, span.end));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, spans: Vec<Span>) -> Vec<&str> {
        spans.into_iter().map(|span| span.of(text).unwrap()).collect()
    }

    fn whole(text: &str) -> Span {
        Span::new(0, text.len())
    }

    #[test]
    fn words_keep_the_white_space_after_them() {
        let text = "  one two\n\nthree ";
        assert_eq!(texts(text, words(text, whole(text))), ["  one ", "two\n\n", "three "]);
    }

    #[test]
    fn a_mark_on_a_space_is_not_torn_off() {
        let text = "a \u{301}b c";
        assert_eq!(texts(text, at(text, whole(text), [2, 6])), ["a \u{301}b ", "c"]);
    }

    #[test]
    fn no_piece_is_white_space_alone() {
        let text = " \n a\n\n";
        assert_eq!(texts(text, at(text, whole(text), [1, 2, 5, 6])), [text]);
    }

    #[test]
    fn halves_meet_between_words_and_else_between_graphemes() {
        let (left, right) = halves("a two three", Span::new(0, 11)).unwrap();
        assert_eq!((left.end, right.start), (6, 6));
        let flags = "\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}";
        assert_eq!(halves(flags, whole(flags)).unwrap().0.end, 8);
        assert_eq!(halves("e\u{301} ", whole("e\u{301} ")), None);
    }
}
