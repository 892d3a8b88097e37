//! Windows: how a question and a passage become the tokens of one sequence or several.
//!
//! `[CLS] question [SEP] heading [SEP] passage [SEP]`; without a heading, its part and its
//! separator are left out. A passage that is longer than the room in a window is read in several,
//! which overlap, so that an answer at the end of one is whole in the next.

use clew_core::Span;
use clew_tokenizer::{EncoderTokenizer, Token};

use crate::Error;
use crate::folder::TOKENIZER;

/// Maximum number of windows over one passage. Bounds the work that a passage can ask for.
const MOST_WINDOWS: usize = 64;
/// Number of special tokens of a window with a heading.
const SPECIAL_TOKENS: usize = 4;

/// Tokens of a question and of a part of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedWindow {
    /// All tokens. Those of the passage are the last ones before the final separator.
    ids: Vec<u32>,
    /// Byte range of each token of the passage.
    spans: Vec<Span>,
}

impl EncodedWindow {
    /// Returns the token ids, special tokens included.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the byte range in the passage's text of each of its tokens in this window.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the index of the first token of the passage.
    pub fn passage_from(&self) -> usize {
        self.ids.len() - 1 - self.spans.len()
    }
}

/// Numbers of tokens that a reader was trained with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum number of tokens in a window, special tokens included.
    pub(super) window: usize,
    /// Maximum number of tokens of a question.
    pub(super) question: usize,
    /// Maximum number of tokens of a heading.
    pub(super) heading: usize,
    /// Number of tokens of a passage that two neighbouring windows share.
    pub(super) overlap: usize,
    /// Maximum number of tokens of an answer.
    pub(super) longest_answer: usize,
}

impl Limits {
    /// Returns whether every window goes on behind the one before it, however long question and
    /// heading are.
    pub(super) fn are_consistent(&self) -> bool {
        SPECIAL_TOKENS + self.question + self.heading + self.overlap < self.window
    }

    /// Returns the number of tokens of a passage in a window whose other tokens are `head` and the
    /// final separator.
    fn room(&self, head: usize) -> usize {
        self.window - head - 1
    }

    /// Returns the maximum number of tokens that are read of a passage.
    pub(super) fn most_read(&self, head: usize) -> usize {
        let room = self.room(head);
        room + (MOST_WINDOWS - 1) * (room - self.overlap)
    }
}

/// Special tokens of windows.
pub(super) struct Frame {
    first: u32,
    separator: u32,
}

impl Frame {
    /// Finds the special tokens that a tokenizer puts around a text.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] unless it is one before the text and one behind it.
    pub(super) fn of(tokenizer: &EncoderTokenizer) -> Result<Self, Error> {
        match tokenizer.special_ids() {
            ([first], [separator]) => Ok(Self { first: *first, separator: *separator }),
            (before, after) => Err(Error::Unsupported {
                file: TOKENIZER.to_owned(),
                expected: "one special token before a text and one behind it".to_owned(),
                found: format!("{} and {}", before.len(), after.len()),
            }),
        }
    }

    /// Returns the tokens of a window before those of the passage.
    pub(super) fn head(&self, question: &[u32], heading: &[u32]) -> Vec<u32> {
        let mut head = [&[self.first], question, &[self.separator]].concat();
        if !heading.is_empty() {
            head.extend_from_slice(heading);
            head.push(self.separator);
        }
        head
    }

    /// Returns the windows over the `tokens` of a passage.
    pub(super) fn windows(
        &self,
        head: &[u32],
        tokens: &[Token],
        limits: &Limits,
    ) -> Vec<EncodedWindow> {
        let room = limits.room(head.len());
        let starts = (0..tokens.len()).step_by(room - limits.overlap);
        // Beyond the first, a window is there only for tokens that the one before does not have.
        let needed =
            starts.take_while(|&start| start == 0 || start + limits.overlap < tokens.len());
        let windows = needed.take(MOST_WINDOWS).map(|start| {
            let part = &tokens[start..tokens.len().min(start + room)];
            let ids = head.iter().copied().chain(part.iter().map(|token| token.id));
            EncodedWindow {
                ids: ids.chain([self.separator]).collect(),
                spans: part.iter().map(|token| token.span).collect(),
            }
        });
        windows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { first: 100, separator: 200 };
    const LIMITS: Limits =
        Limits { window: 12, question: 2, heading: 1, overlap: 3, longest_answer: 2 };

    fn passage(tokens: u32) -> Vec<Token> {
        let token = |id: u32| Token { id, span: Span::new(id as usize, id as usize + 1) };
        (0..tokens).map(token).collect()
    }

    /// Returns the first token and the number of tokens of the passage in each window.
    fn parts(tokens: u32) -> Vec<(usize, usize)> {
        let head = FRAME.head(&[1, 2], &[3]);
        let windows = FRAME.windows(&head, &passage(tokens), &LIMITS);
        windows.iter().map(|window| (window.spans[0].start, window.spans.len())).collect()
    }

    #[test]
    fn a_window_is_framed_and_a_heading_is_a_part_of_its_own() {
        let with = FRAME.windows(&FRAME.head(&[1, 2], &[3]), &passage(2), &LIMITS);
        assert_eq!(with[0].ids, [100, 1, 2, 200, 3, 200, 0, 1, 200]);
        assert_eq!(with[0].passage_from(), 6);
        let without = FRAME.windows(&FRAME.head(&[1], &[]), &passage(1), &LIMITS);
        assert_eq!(without[0].ids, [100, 1, 200, 0, 200]);
    }

    #[test]
    fn windows_overlap_and_end_with_the_passage() {
        // Five tokens of a passage fit beside these heads.
        assert_eq!(parts(0), []);
        assert_eq!(parts(1), [(0, 1)]);
        assert_eq!(parts(5), [(0, 5)]);
        assert_eq!(parts(6), [(0, 5), (2, 4)]);
        assert_eq!(parts(7), [(0, 5), (2, 5)]);
        assert_eq!(parts(8), [(0, 5), (2, 5), (4, 4)]);
        assert_eq!(parts(1000).len(), MOST_WINDOWS);
    }

    #[test]
    fn as_much_is_read_as_the_windows_hold() {
        let head = FRAME.head(&[1, 2], &[3]);
        let most = LIMITS.most_read(head.len());
        assert_eq!(parts(most as u32).len(), MOST_WINDOWS);
        assert_eq!(parts(most as u32 + 1), parts(most as u32));
        assert_eq!(parts(most as u32 - 2).len(), MOST_WINDOWS - 1);
    }

    #[test]
    fn windows_that_would_not_go_on_are_inconsistent() {
        assert!(LIMITS.are_consistent());
        assert!(!Limits { overlap: 5, ..LIMITS }.are_consistent());
        assert!(!Limits { question: 4, ..LIMITS }.are_consistent());
    }
}
