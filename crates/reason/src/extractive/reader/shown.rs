//! Passages as the reader gets them, and the sentences of their texts.

use clew_core::{Citation, Evidence, ReadPassage, Span, SpeakerRole, Timestamp};
use clew_text::one_line;

use crate::extractive::sentence::{MAX_PASSAGE_BYTES, Speaker, best_first, pieces};

/// Maximum number of passages that are read for a question. Answers are seldom ranked lower.
pub(super) const MOST_PASSAGES: usize = 16;
/// Maximum number of bytes of passages that are read for a question: about 16,000 tokens.
pub(super) const MOST_BYTES: usize = 64 * 1024;

/// Maximum number of words of a speaker's name.
const MOST_NAME_WORDS: usize = 3;

/// A passage that the reader is shown.
pub(super) struct Shown<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) speaker: Speaker,
    /// Part of the text that is read: it begins after the name of the speaker.
    part: Span,
    /// Sentences of that part, without the white space around them. Long ones are in pieces.
    pub(super) sentences: Vec<Span>,
}

/// Returns the best of `evidence`, given in any order, as far as it is read.
pub(super) fn shown(evidence: &[Evidence]) -> Vec<Shown<'_>> {
    let mut left = MOST_BYTES;
    let mut shown = Vec::new();
    for evidence in best_first(evidence).into_iter().take(MOST_PASSAGES) {
        let passage = Shown::new(evidence, left);
        left -= passage.part.len();
        if !passage.sentences.is_empty() {
            shown.push(passage);
        }
    }
    shown
}

impl<'a> Shown<'a> {
    /// Shows at most the first `most` bytes.
    fn new(evidence: &'a Evidence, most: usize) -> Self {
        let speaker = Speaker::of(evidence);
        let start = speaker.heading();
        let end = start.saturating_add(most.min(MAX_PASSAGE_BYTES));
        let part = Span::new(start, evidence.text.floor_char_boundary(end).max(start));
        let text = &evidence.text[part.start..part.end];
        let sentences = clew_text::sentences(text).into_iter().flat_map(|span| pieces(text, span));
        let sentences = sentences.map(|span| span.shifted(start)).collect();
        Self { evidence, speaker, part, sentences }
    }

    /// Returns the passage for the reader. Its heading is the title, or who speaks and when.
    pub(super) fn to_read(&self) -> ReadPassage {
        let text = self.evidence.text[self.part.start..self.part.end].to_owned();
        ReadPassage { heading: self.heading(), text }
    }

    /// Returns the name before the text of a turn of a conversation of several people: "Jonas" of
    /// "Jonas: I am here."
    pub(super) fn speaker_name(&self) -> Option<&'a str> {
        let (name, _) = self.evidence.text.split_once(": ")?;
        let is_name = |word: &str| word.starts_with(char::is_uppercase);
        let is_turn = self.speaker == Speaker::Other && self.evidence.span.start == 0;
        let mut words = name.split(' ');
        (is_turn && name.split(' ').count() <= MOST_NAME_WORDS && words.all(is_name))
            .then_some(name)
    }

    fn heading(&self) -> String {
        let day = self.day().unwrap_or_default();
        let role = match self.speaker {
            Speaker::User => SpeakerRole::User.as_str(),
            Speaker::Assistant => SpeakerRole::Assistant.as_str(),
            Speaker::Other => "",
        };
        let title = one_line(&self.evidence.title);
        match (role, title.as_str(), day.as_str()) {
            ("", "", day) => day.to_owned(),
            ("", title, _) => title.to_owned(),
            (role, _, "") => role.to_owned(),
            (role, _, day) => format!("{role}, {day}"),
        }
    }

    /// Returns the day of the passage, if its time is known, such as `2024-05-20`.
    pub(super) fn day(&self) -> Option<String> {
        self.evidence.event_time.map(day)
    }

    /// Returns the span in the text of the evidence of a span that the reader found.
    pub(super) fn in_text(&self, found: Span) -> Option<Span> {
        let span = Span { start: found.start, end: found.end.max(found.start) };
        let is_inside = span.end <= self.part.len() && !span.is_empty();
        let span = is_inside.then(|| span.shifted(self.part.start))?;
        span.of(&self.evidence.text).map(|_| span)
    }

    /// Returns the sentence that holds `span`, or the sentences if it reaches beyond one.
    pub(super) fn sentence_of(&self, span: Span) -> Span {
        let touching = |sentence: &&Span| sentence.start < span.end && span.start < sentence.end;
        let mut touched = self.sentences.iter().filter(touching);
        let Some(first) = touched.next() else { return span };
        let last = touched.next_back().unwrap_or(first);
        Span::new(first.start.min(span.start), last.end.max(span.end))
    }

    /// Returns the text at `span`, which is one of its spans.
    pub(super) fn text(&self, span: Span) -> &'a str {
        span.of(&self.evidence.text).unwrap_or_default()
    }

    /// Returns the text at `span` as a quote.
    pub(super) fn citation(&self, span: Span) -> Citation {
        Citation {
            document_id: self.evidence.document_id.clone(),
            version: self.evidence.version,
            title: self.evidence.title.clone(),
            span: span.shifted(self.evidence.span.start),
            quote: self.text(span).to_owned(),
        }
    }

    /// Returns whether the title or the text that is read has `words` next to each other, ignoring
    /// case.
    pub(super) fn names(&self, words: &str) -> bool {
        let text = &self.evidence.text[self.part.start..self.part.end];
        holds_words(&self.evidence.title, words) || holds_words(text, words)
    }
}

/// A sentence that leads to another passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lead {
    /// Index of its passage among those shown.
    pub(super) passage: usize,
    /// Its span in the text of that passage's evidence.
    pub(super) sentence: Span,
}

/// A passage as it is read: alone, or after a sentence that leads to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framed {
    /// Index among the passages shown.
    pub(super) passage: usize,
    pub(super) lead: Option<Lead>,
}

impl Lead {
    /// Returns the sentence, after its passage's title unless it names that itself.
    pub(super) fn text(&self, shown: &[Shown<'_>]) -> String {
        let of = &shown[self.passage];
        let (title, sentence) = (one_line(&of.evidence.title), one_line(of.text(self.sentence)));
        if title.is_empty() || holds_words(&sentence, &title) {
            sentence
        } else {
            format!("{title}: {sentence}")
        }
    }
}

impl Framed {
    /// Frames passages of these indices alone.
    pub(super) fn alone(passages: &[usize]) -> Vec<Self> {
        passages.iter().map(|&passage| Self { passage, lead: None }).collect()
    }

    /// Returns the passage for the reader.
    pub(super) fn to_read(self, shown: &[Shown<'_>]) -> ReadPassage {
        let passage = shown[self.passage].to_read();
        match self.lead {
            Some(lead) => {
                let text = format!("{}\n{}", lead.text(shown), passage.text);
                ReadPassage { text, ..passage }
            }
            None => passage,
        }
    }

    /// Returns the number of bytes that are read before a passage with that sentence.
    pub(super) fn before(leading: &str) -> usize {
        leading.len() + 1
    }
}

/// Returns the words of `text`, in lower case.
pub(super) fn lower_words(text: &str) -> Vec<String> {
    let words = clew_text::words(text).filter_map(|word| word.of(text));
    words.map(str::to_lowercase).collect()
}

/// Returns whether `text` has the words of `words`, in their order and next to each other, ignoring
/// case; never if there are none.
pub(super) fn holds_words(text: &str, words: &str) -> bool {
    let (text, words) = (lower_words(text), lower_words(words));
    !words.is_empty() && text.windows(words.len()).any(|run| run == words)
}

/// Writes the day of a time as `2024-05-20`.
fn day(time: Timestamp) -> String {
    time.to_string().split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extractive::fixtures::passage;

    fn turn(text: &str, title: &str, time: &str) -> Evidence {
        let evidence = passage("d", 0, text, 0.5);
        Evidence { title: title.to_owned(), event_time: time.parse().ok(), ..evidence }
    }

    #[test]
    fn the_heading_is_the_title_or_who_speaks_and_when() {
        for (text, title, time, heading, read) in [
            ("The harp.", "Harps", "2024-05-20", "Harps", "The harp."),
            ("The harp.", "", "2024-05-20", "2024-05-20", "The harp."),
            ("user: My harp.", "My harp", "2024-05-20", "user, 2024-05-20", "My harp."),
            ("assistant: It is.", "", "", "assistant", "It is."),
            ("Ada: My harp.", "", "", "", "Ada: My harp."),
        ] {
            let evidence = [turn(text, title, time)];
            let shown = shown(&evidence);
            let expected = ReadPassage { heading: heading.to_owned(), text: read.to_owned() };
            assert_eq!(shown[0].to_read(), expected);
        }
    }

    #[test]
    fn a_span_is_quoted_by_the_sentences_that_it_touches() {
        let evidence = [turn("user: I came. I saw.  I won.", "", "")];
        let shown = shown(&evidence);
        let quote = |from, until| {
            let span = shown[0].in_text(Span::new(from, until)).unwrap();
            shown[0].text(shown[0].sentence_of(span))
        };
        assert_eq!(quote(0, 1), "I came.");
        assert_eq!(quote(10, 13), "I saw.");
        assert_eq!(quote(2, 10), "I came. I saw.");
        assert_eq!(shown[0].in_text(Span::new(20, 99)), None);
        assert_eq!(shown[0].in_text(Span::new(3, 3)), None);
    }

    #[test]
    fn what_is_read_is_bounded_and_the_best_comes_first() {
        let long = "A harp is here. ".repeat(10_000);
        let evidence: Vec<Evidence> =
            (0..30u16).map(|n| passage(&n.to_string(), 0, &long, f32::from(n))).collect();
        let read = shown(&evidence);
        assert_eq!(read[0].evidence.document_id.as_str(), "29");
        assert!(read.iter().map(|shown| shown.part.len()).sum::<usize>() <= MOST_BYTES);
        let short: Vec<Evidence> =
            (0..30u16).map(|n| passage(&n.to_string(), 0, "A harp.", f32::from(n))).collect();
        assert_eq!(shown(&short).len(), MOST_PASSAGES);
        assert!(shown(&[passage("blank", 0, " \n", 0.5)]).is_empty());
    }

    #[test]
    fn words_stand_next_to_each_other() {
        assert!(holds_words("The Film: “Madame La Présidente”", "madame la Présidente"));
        assert!(!holds_words("Ada met Bob", "Ada Bob") && !holds_words("Ada", "?"));
    }
}
