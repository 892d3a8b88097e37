//! Composes a short answer: chooses its sentences and their order.

use std::collections::BTreeSet;

use clew_core::{Citation, Span};
use clew_text::{Shape, Term, terms};

use super::question::WordSet;
use super::sentence::{Material, Sentence};

/// Maximum number of sentences chosen. A pronoun may bring along the sentence before it.
const MAX_PARTS: usize = 3;
/// Maximum number of characters in the answer's text.
const MAX_CHARS: usize = 600;
/// Distance from the best score within which a sentence is quoted even if it adds no word of the
/// question.
const CLOSE_SCORE: f32 = 0.05;
/// Distance from the best score beyond which a sentence is not quoted, whatever words it adds.
const FAR_SCORE: f32 = 0.25;
/// Share of common terms at which two sentences say the same. Below 1, so that a changed ending
/// does not repeat a sentence; high, so that another year or name makes another sentence.
const SAME_TERMS: f32 = 0.9;
/// Maximum number of characters in a sentence that is brought along to explain a pronoun.
const MAX_PREVIOUS_CHARS: usize = 200;

/// Words that refer to the sentence before, in lower case, sorted for binary search.
const POINTERS: [&str; 14] = [
    "he", "her", "his", "it", "its", "she", "that", "their", "them", "these", "they", "this",
    "those", "thus",
];

/// A stretch of a passage to quote.
#[derive(Clone, Debug)]
struct Part<'a> {
    passage: usize,
    span: Span,
    text: &'a str,
    terms: BTreeSet<Term>,
}

/// Returns the quotes that answer, in the order of their documents' texts. Documents come in the
/// order of their best sentences. `ranked` contains sentences of `material` with their scores, best
/// first.
pub(crate) fn compose(material: &Material<'_>, ranked: &[(&Sentence<'_>, f32)]) -> Vec<Citation> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut covered = WordSet::default();
    let Some(&(_, best_score)) = ranked.first() else { return Vec::new() };
    for &(sentence, score) in ranked {
        if parts.len() == MAX_PARTS || score < best_score - FAR_SCORE {
            break;
        }
        let adds_words = sentence.words.without(covered) != WordSet::default();
        let states_something = sentence.shape == Shape::Statement;
        let is_wanted = states_something && (adds_words || score >= best_score - CLOSE_SCORE);
        if !parts.is_empty() && !is_wanted {
            continue;
        }
        let is_new = |part: &Part<'_>| !parts.iter().any(|other| repeats(material, other, part));
        let mut quotes =
            with_previous(material, sentence).into_iter().chain([alone(material, sentence)]);
        if let Some(part) = quotes.find(|part| fits(&parts, part) && is_new(part)) {
            covered = covered | sentence.words;
            parts.push(part);
        }
    }
    in_document_order(material, parts).iter().map(|part| citation(material, part)).collect()
}

/// Returns a sentence as a quote.
pub(crate) fn quote(material: &Material<'_>, sentence: &Sentence<'_>) -> Citation {
    citation(material, &alone(material, sentence))
}

/// Returns the sentence together with the one before it, if its first word refers back and the
/// sentence before is short, in the same paragraph and not a fragment.
fn with_previous<'a>(material: &Material<'a>, sentence: &Sentence<'_>) -> Option<Part<'a>> {
    let first_word = sentence.text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    POINTERS.binary_search(&first_word.to_lowercase().as_str()).ok()?;
    let part = part(material, sentence, sentence.previous_start?);
    let previous = &part.text[..part.text.len() - sentence.text.len()];
    let is_short = previous.chars().count() <= MAX_PREVIOUS_CHARS;
    let is_same_paragraph = previous.lines().all(|line| !line.trim().is_empty());
    let says_something = Shape::of(previous.trim()) != Shape::Fragment;
    (is_short && is_same_paragraph && says_something).then_some(part)
}

fn alone<'a>(material: &Material<'a>, sentence: &Sentence<'_>) -> Part<'a> {
    part(material, sentence, sentence.span.start)
}

/// Returns the part of the sentence's passage from `start` to the end of the sentence.
fn part<'a>(material: &Material<'a>, sentence: &Sentence<'_>, start: usize) -> Part<'a> {
    let span = Span::new(start, sentence.span.end);
    let text = &material.passages[sentence.passage].evidence.text[span.start..span.end];
    Part { passage: sentence.passage, span, text, terms: terms(text).collect() }
}

fn fits(parts: &[Part<'_>], part: &Part<'_>) -> bool {
    let taken: usize = parts.iter().map(|part| part.text.chars().count() + 1).sum();
    taken + part.text.chars().count() <= MAX_CHARS
}

/// Returns whether the two parts overlap in their document or say the same.
fn repeats(material: &Material<'_>, a: &Part<'_>, b: &Part<'_>) -> bool {
    let [left, right] = [a, b].map(|part| &material.passages[part.passage].evidence);
    if left.document_id == right.document_id {
        let [first, second] = [a, b].map(|part| in_document(material, part));
        if first.start < second.end && second.start < first.end {
            return true;
        }
    }
    let common = a.terms.intersection(&b.terms).count() as f32;
    let either = a.terms.union(&b.terms).count() as f32;
    common >= SAME_TERMS * either
}

fn in_document(material: &Material<'_>, part: &Part<'_>) -> Span {
    part.span.shifted(material.passages[part.passage].evidence.span.start)
}

/// Moves each part next to the first one of its document.
fn in_document_order<'a>(material: &Material<'_>, parts: Vec<Part<'a>>) -> Vec<Part<'a>> {
    let document = |part: &Part<'_>| &material.passages[part.passage].evidence.document_id;
    let mut ordered: Vec<(usize, Part<'a>)> = Vec::with_capacity(parts.len());
    for (place, part) in parts.into_iter().enumerate() {
        let first = ordered.iter().find(|(_, other)| document(other) == document(&part));
        ordered.push((first.map_or(place, |&(first, _)| first), part));
    }
    ordered.sort_by_key(|(first, part)| (*first, in_document(material, part)));
    ordered.into_iter().map(|(_, part)| part).collect()
}

fn citation(material: &Material<'_>, part: &Part<'_>) -> Citation {
    let evidence = material.passages[part.passage].evidence;
    Citation {
        document_id: evidence.document_id.clone(),
        version: evidence.version,
        title: evidence.title.clone(),
        span: in_document(material, part),
        quote: part.text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Evidence;

    use super::*;
    use crate::extractive::fixtures::passage;
    use crate::extractive::question::Question;

    /// Returns the quotes if the sentences that contain the `scored` words rank as given.
    fn answer(question: &str, evidence: &[Evidence], scored: &[(&str, f32)]) -> Vec<String> {
        let material = Material::new(&Question::new(question), evidence);
        let find = |text: &str| material.sentences.iter().find(|s| s.text.contains(text)).unwrap();
        let ranked: Vec<_> = scored.iter().map(|&(text, score)| (find(text), score)).collect();
        compose(&material, &ranked).into_iter().map(|citation| citation.quote).collect()
    }

    #[test]
    fn a_second_sentence_is_close_or_adds_a_word_of_the_question() {
        let text = "The harp was made in Tara. The harp is kept in a hall. The harp has strings.";
        let evidence = [passage("a", 0, text, 1.0)];
        let ranked = [("made", 0.8), ("strings", 0.72), ("hall", 0.7)];
        let found = answer("In which hall is the harp?", &evidence, &ranked);
        assert_eq!(found, ["The harp was made in Tara.", "The harp is kept in a hall."]);
        let far = [("made", 0.8), ("hall", 0.5)];
        assert_eq!(answer("In which hall is the harp?", &evidence, &far).len(), 1);
        let close = [("made", 0.8), ("strings", 0.78)];
        assert_eq!(answer("In which hall is the harp?", &evidence, &close).len(), 2);
    }

    #[test]
    fn quotes_follow_their_documents_and_the_best_document_comes_first() {
        let evidence = [
            passage("a", 0, "The lute came later than that.", 0.9),
            passage("b", 0, "The harp came first of all. The lyre came second to none.", 0.8),
        ];
        let ranked = [("lyre", 0.8), ("lute", 0.79), ("harp", 0.78)];
        assert_eq!(
            answer("What came?", &evidence, &ranked),
            [
                "The harp came first of all.",
                "The lyre came second to none.",
                "The lute came later than that."
            ]
        );
    }

    #[test]
    fn a_pronoun_brings_the_sentence_that_says_who_it_is_unless_that_was_quoted() {
        let text = "Ada Lovelace wrote notes.\nShe published them in 1843. It rained all day.";
        let evidence = [passage("a", 0, text, 1.0)];
        let whole = "Ada Lovelace wrote notes.\nShe published them in 1843.";
        assert_eq!(answer("When?", &evidence, &[("1843", 0.8)]), [whole]);
        assert_eq!(
            answer("When?", &evidence, &[("wrote", 0.8), ("1843", 0.78)]),
            ["Ada Lovelace wrote notes.", "She published them in 1843."]
        );
        let long = format!("{} wrote.", "Ada ".repeat(60));
        for previous in [&long, "## Ada Lovelace's rest\n", "Ada Lovelace wrote notes.\n\n"] {
            let evidence = [passage("a", 0, &format!("{previous} She rested in 1843."), 1.0)];
            assert_eq!(answer("When?", &evidence, &[("1843", 0.8)]), ["She rested in 1843."]);
        }
    }

    #[test]
    fn another_year_is_another_sentence() {
        let told = |year| format!("The town hall of Tara was rebuilt in {year} by its citizens.");
        let text = format!("{} {}", told(1843), told(1901));
        let evidence = [passage("a", 0, &text, 1.0)];
        let found = answer("When?", &evidence, &[("1843", 0.8), ("1901", 0.8)]);
        assert_eq!(found, [told(1843), told(1901)]);
    }

    #[test]
    fn a_heading_or_question_is_quoted_only_if_nothing_is_better() {
        let text = "# The harp of Tara\nWhere is the harp of Tara?\nNobody knows any more today.";
        let evidence = [passage("a", 0, text, 1.0)];
        let ranked = [("Nobody", 0.8), ("Where", 0.8), ("# The", 0.8)];
        let found = answer("Where is the harp?", &evidence, &ranked);
        assert_eq!(found, ["Nobody knows any more today."]);
        assert_eq!(answer("Where is the harp?", &evidence, &ranked[2..]), ["# The harp of Tara"]);
    }
}
