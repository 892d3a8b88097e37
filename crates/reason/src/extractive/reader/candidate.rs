//! Unites the words that the reader found in several passages into candidates for the answer.

use std::collections::BTreeMap;

use clew_core::{PassageRead, Span};

use super::apart::Names;
use super::calibrated::{ANSWERED, LED_ANSWERED};
use super::clean::{self, cleaned, key};
use super::shown::{Framed, Lead, Shown};

/// Words that may be the answer, with the places where they stand.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Words in the form in which they are compared.
    pub(super) key: String,
    /// Words as they stand at the best place.
    pub(super) text: String,
    /// Places, best first; at least one.
    pub(super) places: Vec<Place>,
    /// Probability that they answer, 0 to 1.
    pub(super) probability: f32,
}

/// A place where a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Index of the passage among those shown.
    pub(super) passage: usize,
    /// Span of the words in the text of the passage's evidence.
    pub(super) span: Span,
    /// Span of the sentence around them.
    pub(super) sentence: Span,
    /// Sentence of another passage after which they were found.
    pub(super) lead: Option<Lead>,
    /// Probability by this place alone.
    pub(super) probability: f32,
}

/// Returns the candidates of the passages read, best first. `read` tells how each was read, and
/// what the reader found in it. `names` are those of the question. `weight` of a passage, 0 to 1,
/// is how far it is from where the question wants the answer from.
///
/// At a place, the probability is that of its passage to answer, times the share of these words
/// relative to the best ones there: the shares themselves are divided among readings that differ
/// by a word, and the passage answers with any of them. Places are independent of each other, so
/// the probability that all are wrong is the product (noisy-or), except where a document overlaps
/// or repeats another.
pub(super) fn candidates(
    shown: &[Shown<'_>],
    read: &[(Framed, PassageRead)],
    names: &Names,
    weight: impl Fn(&Shown<'_>) -> f32,
) -> Vec<Candidate> {
    let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    for (framed, read) in read {
        let of = &shown[framed.passage];
        let leading = framed.lead.map(|lead| lead.text(shown));
        let before = leading.as_deref().map_or(0, Framed::before);
        let leading = leading.unwrap_or_default();
        let best = read.spans.iter().map(|found| sound(found.share)).fold(0.0, f32::max);
        for found in read.spans.iter().filter(|_| best > 0.0) {
            // Words of the leading sentence are found where its own passage is read.
            let Some(start) = found.span.start.checked_sub(before) else { continue };
            let span = Span { start, end: found.span.end.saturating_sub(before) };
            let span = of.in_text(span).and_then(|span| cleaned(&of.evidence.text, span));
            let Some(span) = span else { continue };
            let probability = sound(read.answers) * sound(found.share) / best * sound(weight(of));
            let sentence = of.sentence_of(span);
            let probability = names.weighed(of, sentence, span, &leading, probability);
            let Framed { passage, lead } = *framed;
            let place = Place { passage, span, sentence, lead, probability };
            places.entry(key(of.text(span))).or_default().push(place);
        }
    }
    let united = |(key, places)| Candidate::new(shown, key, places);
    let mut candidates: Vec<Candidate> = places.into_iter().map(united).collect();
    candidates.sort_by(|a, b| {
        let [a_at, b_at] = [a, b].map(|it| (it.places[0].passage, it.places[0].span));
        b.probability.total_cmp(&a.probability).then_with(|| a_at.cmp(&b_at))
    });
    candidates
}

impl Candidate {
    fn new(shown: &[Shown<'_>], key: String, mut places: Vec<Place>) -> Self {
        places.sort_by(|a, b| {
            let [a_at, b_at] = [a, b].map(|place| (place.passage, place.span));
            b.probability.total_cmp(&a.probability).then_with(|| a_at.cmp(&b_at))
        });
        let mut independent: Vec<Place> = Vec::new();
        for place in places {
            if !independent.iter().any(|other| repeats(shown, other, &place)) {
                independent.push(place);
            }
        }
        let wrong: f32 = independent.iter().map(|place| 1.0 - place.probability).product();
        let best = independent[0];
        let text = shown[best.passage].text(best.span).to_owned();
        Self { key, text, places: independent, probability: sound(1.0 - wrong) }
    }

    /// Returns the probability from which on the words count as the answer.
    pub(super) fn least(&self) -> f32 {
        if self.places[0].lead.is_some() { LED_ANSWERED } else { ANSWERED }
    }

    /// Returns whether both say the same, one of them perhaps in fewer words.
    pub(super) fn says_same(&self, other: &Self) -> bool {
        clean::says_same(&self.key, &other.key)
    }
}

/// Returns whether two places are the same text: of one document, or copied.
fn repeats(shown: &[Shown<'_>], a: &Place, b: &Place) -> bool {
    let [left, right] = [a, b].map(|place| &shown[place.passage]);
    let is_overlap = left.evidence.document_id == right.evidence.document_id && {
        let [a, b] = [(left, a), (right, b)]
            .map(|(of, place)| place.sentence.shifted(of.evidence.span.start));
        a.start < b.end && b.start < a.end
    };
    is_overlap || left.text(a.sentence) == right.text(b.sentence)
}

/// Returns a probability that is one: nothing a reader says makes another number.
pub(super) fn sound(probability: f32) -> f32 {
    if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use clew_core::{Evidence, FoundSpan};

    use super::super::shown::shown;
    use super::*;
    use crate::extractive::fixtures::passage;

    /// Reads the words `found` of each passage, with their shares.
    fn read(evidence: &[Evidence], answers: &[f32], found: &[&[(&str, f32)]]) -> Vec<Candidate> {
        let shown = shown(evidence);
        let of = |index: usize| {
            let text = &shown[index].evidence.text;
            let spans = found[index].iter().map(|&(words, share)| {
                let start = text.find(words).unwrap();
                FoundSpan { span: Span::new(start, start + words.len()), share }
            });
            (
                Framed { passage: index, lead: None },
                PassageRead { answers: answers[index], relevance: 0.5, spans: spans.collect() },
            )
        };
        let read: Vec<_> = (0..shown.len()).map(of).collect();
        candidates(&shown, &read, &Names::of(""), |_| 1.0)
    }

    #[test]
    fn the_same_words_in_several_passages_add_up() {
        let evidence = [
            passage("a", 0, "It was built by Ada Lovelace.", 0.9),
            passage("b", 0, "It was sold by Rolf in May.", 0.8),
            passage("c", 0, "The “Ada Lovelace” mill.", 0.7),
        ];
        let found = read(
            &evidence,
            &[0.5, 0.6, 0.5],
            &[
                &[("Ada Lovelace.", 0.5)],
                &[("Rolf", 0.9), ("May", 0.45)],
                &[("“Ada Lovelace”", 1.0)],
            ],
        );
        let told: Vec<_> = found.iter().map(|it| (it.text.as_str(), it.probability)).collect();
        assert_eq!(told, [("Ada Lovelace", 0.75), ("Rolf", 0.6), ("May", 0.3)]);
        assert_eq!(found[0].places.len(), 2);
    }

    #[test]
    fn what_overlaps_or_is_copied_counts_once() {
        let text = "It was built by Ada.";
        let evidence = [
            passage("a", 0, text, 0.9),
            passage("a", 10, &text[10..], 0.8),
            passage("b", 0, text, 0.7),
        ];
        let ada: &[(&str, f32)] = &[("Ada", 1.0)];
        let found = read(&evidence, &[0.5; 3], &[ada; 3]);
        assert_eq!((found.len(), found[0].probability), (1, 0.5));
    }

    #[test]
    fn numbers_that_are_none_are_no_probability() {
        let evidence = [passage("a", 0, "It was built by Ada and Rolf.", 0.9)];
        for (answers, share) in [(f32::NAN, 1.0), (1.0, f32::NAN), (0.5, f32::INFINITY), (9.0, 0.0)]
        {
            for found in read(&evidence, &[answers], &[&[("Ada", share), ("Rolf", 0.2)]]) {
                assert!((0.0..=1.0).contains(&found.probability), "{found:?}");
            }
        }
    }
}
