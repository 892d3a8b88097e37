//! Implementation of the core's reasoner: notes, an answer, and citations located in the documents.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Assignment, Citation, Cost, Error, Evidence, Reading, Reasoner, Span, Task};

use super::{NotedAnswer, Passage, Prompted, ReadEvidence};
use crate::extractive::{best_first, check_spans};

/// Minimum confidence at which a question counts as answered.
const THRESHOLD: f32 = 0.5;
/// Rationale if no passage contains text.
pub(crate) const NOTHING_TO_READ: &str = "nothing was found to read";

#[async_trait]
impl Reasoner for Prompted {
    /// Performs [`ReadEvidence`] on the best of the evidence, as much as fits the model's window.
    /// It is shown best first, or in order of time if the time of the question is known.
    ///
    /// Each citation is the span of a document that contains the quoted words, or the whole cited
    /// passage if it does not contain them. Passages that the model was not shown cannot be cited.
    ///
    /// The confidence is not a probability, because a model's statement is not one. It is 0 if the
    /// model says that the evidence does not suffice; otherwise it is 0.5 to 1, by the share of
    /// citations whose quotes occur in the passages that they cite. The threshold is 0.5, so the
    /// model's statement decides. A caller that accepts only verified quotes requires a confidence
    /// of 1.
    ///
    /// # Errors
    /// Returns the errors of [`Prompted::perform`], and [`clew_core::ErrorKind::Internal`] if a
    /// passage's text is not as long as its span.
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error> {
        check_spans(assignment.evidence)?;
        let ranked = ranked(assignment.evidence);
        if ranked.is_empty() {
            return Ok(reading(0.0, NOTHING_TO_READ.to_owned(), Cost::default()));
        }
        let act = ReadEvidence {
            task: assignment.task,
            question: assignment.question.to_owned(),
            asked_at: assignment.asked_at,
            points: assignment.points.to_vec(),
            passages: ranked.iter().map(|passage| shown(passage)).collect(),
            order: in_time(assignment, &ranked),
            reading: assignment.reading,
        };
        let ledger = self.ledger();
        let noted = self.perform(&act, deadline, &ledger).await?;
        Ok(answered(noted, &ranked, ledger.cost()))
    }
}

/// Returns the passages that are not blank, best first, and equals by document and place.
pub(crate) fn ranked(evidence: &[Evidence]) -> Vec<&Evidence> {
    let mut ranked = best_first(evidence);
    ranked.retain(|passage| !passage.text.trim().is_empty());
    ranked
}

/// Returns the indices of `ranked` in order of time, and at equal times in document order, for a
/// question whose time is known (LongMemEval, section 5.5). Passages without a time come last.
/// Returns nothing if time does not matter.
fn in_time(assignment: &Assignment<'_>, ranked: &[&Evidence]) -> Vec<usize> {
    let has_times = ranked.iter().any(|passage| passage.event_time.is_some());
    if assignment.task != Task::Answer || assignment.asked_at.is_none() || !has_times {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..ranked.len()).collect();
    order.sort_by_key(|&index| {
        let passage = ranked[index];
        let time = passage.event_time;
        (time.is_none(), time, &passage.document_id, passage.span)
    });
    order
}

pub(crate) fn shown(passage: &Evidence) -> Passage {
    Passage { title: passage.title.clone(), time: passage.event_time, text: passage.text.clone() }
}

pub(crate) fn reading(confidence: f32, rationale: String, cost: Cost) -> Reading {
    Reading {
        confidence,
        threshold: THRESHOLD,
        rationale,
        text: String::new(),
        citations: Vec::new(),
        sentences: 0,
        cost,
    }
}

fn answered(noted: NotedAnswer, evidence: &[&Evidence], cost: Cost) -> Reading {
    let notes: Vec<String> =
        noted.notes.iter().map(|note| format!("[{}] {}", note.passage + 1, note.text)).collect();
    let rationale = if notes.is_empty() { "nothing was noted".to_owned() } else { notes.join(" ") };
    let Some(text) = noted.answer else { return reading(0.0, rationale, cost) };
    let mut citations: Vec<Citation> = Vec::new();
    let mut true_quotes = 0;
    for cited in &noted.citations {
        let Some(passage) = evidence.get(cited.passage) else { continue };
        let (citation, is_true) = citation(&cited.quote, passage);
        true_quotes += usize::from(is_true);
        if !citations.contains(&citation) {
            citations.push(citation);
        }
    }
    let confidence = confidence(true_quotes, noted.citations.len());
    Reading { text, citations, ..reading(confidence, rationale, cost) }
}

/// Returns the confidence of an answer, given the number of its quotes that were found.
pub(crate) fn confidence(true_quotes: usize, quotes: usize) -> f32 {
    THRESHOLD + (1.0 - THRESHOLD) * true_quotes as f32 / quotes.max(1) as f32
}

/// Returns a citation of the quote in the passage's document, and whether the passage contains it.
/// Otherwise the citation is the whole passage.
pub(crate) fn citation(quote: &str, passage: &Evidence) -> (Citation, bool) {
    let found = find_quote(&passage.text, quote);
    let span = found.unwrap_or_else(|| Span::new(0, passage.text.len()));
    let citation = Citation {
        document_id: passage.document_id.clone(),
        version: passage.version,
        title: passage.title.clone(),
        span: span.shifted(passage.span.start),
        quote: span.of(&passage.text).unwrap_or_default().to_owned(),
    };
    (citation, found.is_some())
}

/// Returns the place of the words of `quote` in `text`, ignoring white space and the shapes of
/// quotation marks and dashes. Cost is usually linear.
pub(crate) fn find_quote(text: &str, quote: &str) -> Option<Span> {
    let (wanted, _) = folded(quote);
    if wanted.is_empty() {
        return None;
    }
    let (folded, places) = folded(text);
    let start = folded.find(&wanted)?;
    let first = places.get(start)?;
    let last = places.get(start + wanted.len() - 1)?;
    Some(Span::new(first.start, last.end))
}

/// Returns a text without white space and with one shape for each kind of mark, and for each of its
/// bytes the character that it comes from.
fn folded(text: &str) -> (String, Vec<Span>) {
    let mut folded = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len());
    for (start, written) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        let c = match written {
            '’' | '‘' => '\'',
            '“' | '”' => '"',
            '–' | '—' | '‑' => '-',
            other => other,
        };
        folded.push(c);
        let place = Span::new(start, start + written.len_utf8());
        places.resize(folded.len(), place);
    }
    (folded, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_are_found_whatever_their_blanks_and_marks() {
        let text = "She said:\n  “It’s  a clew — é.” Then she left.";
        let found = |quote| find_quote(text, quote).map(|span| span.of(text).unwrap());
        assert_eq!(found("\"It's a clew - é.\""), Some("“It’s  a clew — é.”"));
        assert_eq!(found("Then she left."), Some("Then she left."));
        assert_eq!(found("Then he left."), None);
        assert_eq!(found(" "), None);
    }

    proptest! {
        #[test]
        fn what_is_found_is_of_the_text(text in "[ab’' é—\n]{0,40}|\\PC{0,40}", quote in "[ab'é -]{0,4}") {
            if let Some(span) = find_quote(&text, &quote) {
                prop_assert!(span.of(&text).is_some());
            }
        }
    }
}
