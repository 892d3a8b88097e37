//! Sentence boundaries.
//!
//! The rules are for English first: a full stop ends a sentence unless it belongs to an
//! abbreviation, an initial, a number or an enumeration, or a lower-case word follows. Chinese and
//! Japanese full stops always end a sentence. A line break ends one too, unless it plainly wraps a
//! longer line.

mod abbreviation;
mod line;
mod stop;

use clew_core::Span;

use crate::cut;

/// Returns the sentences of `text`, in order. They partition it: each but the first begins with
/// something other than white space, and white space belongs to the sentence before it.
///
/// Cost is linear in the length of `text`.
pub fn sentences(text: &str) -> Vec<Span> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut starts = Vec::new();
    for paragraph in line::paragraphs(text) {
        let content = &text[paragraph.start..paragraph.end];
        starts.push(paragraph.start + content.len() - content.trim_start().len());
        starts.extend(stop::sentence_starts(content).map(|start| paragraph.start + start));
    }
    cut::at(text, Span::new(0, text.len()), starts)
}

/// Splits `text` into runs of whole sentences, each as long as `max_bytes` bytes allow. The runs
/// partition `text`. A longer sentence is cut between grapheme clusters; a single cluster is never
/// cut. White space at the end of a cut sentence may exceed the limit.
///
/// Cost is linear in the length of `text`.
pub fn passages(text: &str, max_bytes: usize) -> Vec<Span> {
    let mut passages: Vec<Span> = Vec::new();
    for sentence in sentences(text) {
        let pieces = match sentence.len() <= max_bytes {
            true => vec![sentence],
            false => cut::fill(text, sentence, |span| span.len() <= max_bytes),
        };
        for piece in pieces {
            match passages.last_mut() {
                Some(last) if piece.end - last.start <= max_bytes => last.end = piece.end,
                _ => passages.push(piece),
            }
        }
    }
    passages
}

/// Returns `span` without the white space at both ends of `text[span]`.
///
/// # Panics
/// Panics if `span` is not a span of `text`.
pub fn trimmed(text: &str, span: Span) -> Span {
    let content = &text[span.start..span.end];
    let start = span.start + (content.len() - content.trim_start().len());
    Span::new(start, start + content.trim().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|span| span.of(text).unwrap().trim()).collect()
    }

    #[test]
    fn sentences_end_where_a_reader_would_end_them() {
        // `¦` marks the expected end of a sentence.
        for case in [
            "One sentence. ¦Another one! ¦A third?",
            "Dr. Smith met Mrs. Jones at 5 p.m. on Jan. 5, 2024. ¦They talked.",
            "J. R. R. Tolkien wrote it. ¦He lived in Oxford.",
            "He works in the U.S. Army. ¦She left the U.S. ¦They stayed.",
            "Pi is 3.14159 and v1.2.3 is out. ¦Upgrade now.",
            "See Fig. 3 and Sec. 4.2, e.g. the table, i.e. the first. ¦Then go on.",
            "Apples, pears, etc. were sold. ¦Bread etc. ¦Milk came later.",
            "Well... maybe not. ¦Wait... ¦Really?",
            "\"Come here!\" he said. ¦\"Why?\" she asked.",
            "He said \"Stop.\" ¦She did.",
            "It ended (finally.) ¦Then it began.",
            "Use `foo.bar()`. ¦It returns 1.",
            "Smith et al. showed this. ¦Others vs. them did not.",
            "Acme Inc. Chairman Bob resigned. ¦The shares fell.",
            "1. First do this.\n¦2. Then do that.",
            "- a bullet\n¦- another bullet\n¦* a third",
            "# Heading\n¦Text under it.",
            "Alice: Hi there\n¦Bob: Hello! ¦How are you?\n¦Alice: fine",
            "short line\n¦Another line",
            "| a | b |\n¦| c | d |",
            "今日は晴れです。¦明日は雨です。",
            "Is it?! ¦Yes.",
            "What? ¦no way. ¦Never mind the gap.",
        ] {
            let expected: Vec<&str> = case.split('¦').map(str::trim).collect();
            let text = case.replace('¦', "");
            assert_eq!(split(&text), expected);
        }
    }

    #[test]
    fn a_wrapped_line_does_not_end_a_sentence() {
        let text = "The quick brown fox jumps over the lazy dog and then it\n\
                    runs away from the big Bad Wolf, who lives in the old\n\
                    Forest behind the hill. It is never seen again.\n\n\
                    Next paragraph";
        let got = split(text);
        assert_eq!(got.len(), 3, "{got:#?}");
        assert!(got[0].ends_with("behind the hill."));
        assert_eq!(got[2], "Next paragraph");
    }

    #[test]
    fn lines_of_code_and_tables_stand_alone() {
        let text =
            "let first_value = compute();\nlet second_value = compute();\n| a | b |\n| c | d |";
        assert_eq!(split(text).len(), 4);
    }

    #[test]
    fn passages_are_as_many_sentences_as_fit() {
        let text = "One two. Three four. Five six seven eight nine.";
        let spans = passages(text, 22);
        let cut: Vec<_> = spans.iter().map(|span| span.of(text).unwrap()).collect();
        assert_eq!(cut, ["One two. Three four. ", "Five six seven eight n", "ine."]);
        assert!(passages("", 22).is_empty());
    }

    proptest! {
        #[test]
        fn passages_partition_the_text(
            text in "[ \n.a-cA-C\u{301}\u{1f1e9}]{0,80}|\\PC{0,60}",
            max_bytes in 0usize..40,
        ) {
            let spans = passages(&text, max_bytes);
            let rebuilt: String = spans.iter().map(|span| span.of(&text).unwrap()).collect();
            prop_assert_eq!(&rebuilt, &text);
            for span in spans {
                let inked = trimmed(&text, span);
                let is_cluster = cut::halves(&text, inked).is_none();
                prop_assert!(inked.len() <= max_bytes || is_cluster, "{:?}", span);
            }
        }

        #[test]
        fn sentences_partition_the_text(text in "[ \n.!?\"a-cA-C1é。\u{301}\u{1f1e9}…'()-]{0,80}|\\PC{0,60}") {
            let spans = sentences(&text);
            let rebuilt: String = spans.iter().map(|span| span.of(&text).unwrap()).collect();
            prop_assert_eq!(&rebuilt, &text);
            for span in spans.iter().skip(1) {
                prop_assert!(!span.of(&text).unwrap().starts_with(char::is_whitespace));
                prop_assert!(cut::is_grapheme_boundary(&text, span.start));
            }
        }
    }
}
