//! Sentences of the evidence, which are compared with the question.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use clew_core::{Evidence, Span, SpeakerRole};
use clew_text::{Shape, trimmed};

use super::question::{Question, WordSet};

/// Maximum number of passages read. Answers are seldom ranked lower.
pub(crate) const MAX_PASSAGES: usize = 10;
/// Maximum number of bytes of a passage that are read: several windows of any encoder.
pub(crate) const MAX_PASSAGE_BYTES: usize = 16 * 1024;
/// Maximum number of characters of a sentence; a longer one is split. Most of an answer's length.
const MAX_SENTENCE_CHARS: usize = 400;

/// The part of the evidence that is read.
#[derive(Debug)]
pub(crate) struct Material<'a> {
    /// The best passages; equal scores are ordered by document and place.
    pub(crate) passages: Vec<Passage<'a>>,
    /// Distinct sentences of the passages, passage by passage.
    pub(crate) sentences: Vec<Sentence<'a>>,
}

/// A passage that is read.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    /// Its evidence.
    pub(crate) evidence: &'a Evidence,
    /// Speaker of the passage.
    pub(crate) speaker: Speaker,
    /// Number of passages that are strictly better, so that equals are treated alike.
    pub(crate) rank: usize,
    /// Words of the question in its title.
    pub(crate) title_words: WordSet,
    /// Words of the question in its title and in the part of its text that is read.
    pub(crate) words: WordSet,
}

/// Speaker of a passage, as far as the heading of a turn shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The user, whose memory it is.
    User,
    /// A model.
    Assistant,
    /// One of several people, or nobody: the passage is not a turn, or not the beginning of one.
    Other,
}

impl Speaker {
    /// Returns the speaker of a passage.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let heading = |role: SpeakerRole| {
            let rest = evidence.text.strip_prefix(role.as_str());
            evidence.span.start == 0 && rest.is_some_and(|rest| rest.starts_with(": "))
        };
        if heading(SpeakerRole::User) {
            Self::User
        } else if heading(SpeakerRole::Assistant) {
            Self::Assistant
        } else {
            Self::Other
        }
    }

    /// Returns the length, in bytes, of the heading that names the speaker.
    pub(crate) fn heading(self) -> usize {
        match self {
            Self::User => SpeakerRole::User.as_str().len() + 2,
            Self::Assistant => SpeakerRole::Assistant.as_str().len() + 2,
            Self::Other => 0,
        }
    }
}

/// A sentence of a passage.
#[derive(Clone, Debug)]
pub(crate) struct Sentence<'a> {
    /// Index of its passage.
    pub(crate) passage: usize,
    /// Its span in the passage's text, without white space around it.
    pub(crate) span: Span,
    /// Start of the sentence before it, if the passage contains one.
    pub(crate) previous_start: Option<usize>,
    /// Its text.
    pub(crate) text: &'a str,
    /// Words of the question in it.
    pub(crate) words: WordSet,
    /// Kind of the sentence.
    pub(crate) shape: Shape,
}

impl<'a> Material<'a> {
    /// Reads the best of `evidence`, given in any order.
    pub(crate) fn new(question: &Question, evidence: &'a [Evidence]) -> Self {
        let passages = best_passages(question, evidence);
        let of_passage =
            |(index, passage): (usize, &Passage<'a>)| sentences_of(question, index, passage);
        let mut sentences: Vec<_> = passages.iter().enumerate().flat_map(of_passage).collect();
        let mut is_part = parts_of_others(&passages, &sentences).into_iter();
        let mut seen = BTreeSet::new();
        sentences.retain(|sentence| is_part.next() == Some(false) && seen.insert(sentence.text));
        Self { passages, sentences }
    }
}

/// Returns which of `sentences` lie within another one of their document. Neighbouring passages may
/// overlap, and one of them then cuts a sentence that the other contains whole.
fn parts_of_others(passages: &[Passage<'_>], sentences: &[Sentence<'_>]) -> Vec<bool> {
    let place = |index: usize| {
        let sentence: &Sentence<'_> = &sentences[index];
        let evidence = passages[sentence.passage].evidence;
        (&evidence.document_id, sentence.span.shifted(evidence.span.start))
    };
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by_key(|&index| {
        let (document, span) = place(index);
        (document, span.start, Reverse(span.end))
    });
    let mut is_part = vec![false; sentences.len()];
    let mut reached = None;
    for index in order {
        let (document, span) = place(index);
        is_part[index] = reached.is_some_and(|(last, end)| last == document && span.end <= end);
        if !is_part[index] {
            reached = Some((document, span.end));
        }
    }
    is_part
}

/// Returns whether `evidence` is a turn in which the user asked `question` and said nothing else.
pub(crate) fn asks(evidence: &Evidence, question: &str) -> bool {
    let speaker = Speaker::of(evidence);
    let said = evidence.text[speaker.heading()..].trim();
    let question = question.trim();
    speaker == Speaker::User
        && Shape::of(said) == Shape::Asking
        && said.to_lowercase() == question.to_lowercase()
}

/// Returns evidence best first, and equals by document and place.
pub(crate) fn best_first(evidence: &[Evidence]) -> Vec<&Evidence> {
    let mut ranked: Vec<&Evidence> = evidence.iter().collect();
    ranked.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.document_id.cmp(&b.document_id))
            .then_with(|| a.span.cmp(&b.span))
    });
    ranked
}

fn best_passages<'a>(question: &Question, evidence: &'a [Evidence]) -> Vec<Passage<'a>> {
    let rank_of = |item: &Evidence| evidence.iter().filter(|e| e.score > item.score).count();
    best_first(evidence)
        .into_iter()
        .take(MAX_PASSAGES)
        .map(|item| {
            let title_words = question.words_in(&item.title);
            let words = title_words | question.words_in(read_part(&item.text));
            Passage {
                evidence: item,
                speaker: Speaker::of(item),
                rank: rank_of(item),
                title_words,
                words,
            }
        })
        .collect()
}

fn sentences_of<'a>(question: &Question, index: usize, passage: &Passage<'a>) -> Vec<Sentence<'a>> {
    let text = read_part(&passage.evidence.text);
    let mut sentences = Vec::new();
    let mut previous_start = None;
    for whole in clew_text::sentences(text) {
        // The name of the speaker is not part of what is said.
        let whole = Span::new(whole.start.max(passage.speaker.heading()).min(whole.end), whole.end);
        for span in pieces(text, whole) {
            let piece = &text[span.start..span.end];
            sentences.push(Sentence {
                passage: index,
                span,
                previous_start,
                text: piece,
                words: question.words_in(piece),
                shape: Shape::of(piece),
            });
            previous_start = Some(span.start);
        }
    }
    sentences
}

/// Returns the part of `text` that is read.
fn read_part(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_PASSAGE_BYTES)]
}

/// Splits `text[span]`, without white space around it, into pieces of bounded length, between words
/// if there are several. Returns nothing if it is only white space.
pub(crate) fn pieces(text: &str, span: Span) -> Vec<Span> {
    let mut pieces = Vec::new();
    let mut rest = trimmed(text, span);
    while !rest.is_empty() {
        let content = &text[rest.start..rest.end];
        let length = match content.char_indices().nth(MAX_SENTENCE_CHARS) {
            None => content.len(),
            Some((limit, _)) => match content[..limit].rfind(char::is_whitespace) {
                Some(between_words) => between_words,
                None => limit,
            },
        };
        pieces.push(trimmed(text, Span::new(rest.start, rest.start + length)));
        rest = trimmed(text, Span::new(rest.start + length, rest.end));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(text: &str) -> Vec<&str> {
        pieces(text, Span::new(0, text.len())).iter().map(|s| s.of(text).unwrap()).collect()
    }

    #[test]
    fn a_sentence_is_taken_without_the_white_space_around_it() {
        assert_eq!(texts("\n  a clew \t"), ["a clew"]);
        assert!(texts(" \n ").is_empty());
    }

    #[test]
    fn a_long_sentence_is_cut_between_words_or_else_between_characters() {
        let words = "thread ".repeat(100);
        assert!(texts(&words).iter().all(|piece| piece.ends_with("thread")));
        let one_word = "ü".repeat(MAX_SENTENCE_CHARS + 1);
        assert_eq!(texts(&one_word).last(), Some(&"ü"));
    }

    proptest! {
        #[test]
        fn pieces_hold_all_of_a_sentence_but_white_space(text in "[ab é\n]{0,1500}") {
            let found = texts(&text);
            for piece in &found {
                prop_assert_eq!(piece.trim(), *piece);
                prop_assert!(!piece.is_empty() && piece.chars().count() <= MAX_SENTENCE_CHARS);
            }
            let without_space = |text: &str| text.replace(char::is_whitespace, "");
            prop_assert_eq!(without_space(&found.concat()), without_space(&text));
        }
    }
}
