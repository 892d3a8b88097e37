//! Summarises evidence without a language model, by the sentences that stand for most of it.

use clew_core::{Citation, Evidence, Quote, Reading, SummaryLevel, SummaryTask};

use super::sentence::best_first;
use super::{joined, nothing_to_read};

/// Maximum length of a summary, in bytes: about 400 tokens.
const MAX_BYTES: usize = 1_800;
/// Maximum length, in bytes, of the passages that are read, best first: about 16,000 tokens.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Summarises the best passages in the order of their documents. The search has decided what the
/// summary is about, so the confidence is 1 if there is anything to summarise.
pub(super) fn summarise(evidence: &[Evidence]) -> Reading {
    let passages = in_order(evidence);
    let summary = clew_text::summarise(&SummaryTask {
        level: SummaryLevel::Leaf,
        parts: passages.iter().map(|passage| passage.text.clone()).collect(),
        max_bytes: MAX_BYTES,
    });
    let quoted = summary.quotes.iter().filter_map(|quote| citation(&passages, quote));
    let citations: Vec<Citation> = quoted.collect();
    if citations.is_empty() {
        return nothing_to_read();
    }
    Reading {
        confidence: 1.0,
        rationale: format!("{} sentences out of {} passages", citations.len(), passages.len()),
        text: joined(&citations),
        sentences: citations.len(),
        citations,
        ..nothing_to_read()
    }
}

/// Returns as many of the best passages as are read, without those that overlap a better one, in
/// the order of their documents' texts. Documents come in the order of their best passages.
fn in_order(evidence: &[Evidence]) -> Vec<&Evidence> {
    let (mut bytes, mut kept) = (0, Vec::<&Evidence>::new());
    for passage in best_first(evidence) {
        let shares = |other: &&Evidence| {
            other.document_id == passage.document_id
                && other.span.start < passage.span.end
                && passage.span.start < other.span.end
        };
        if bytes + passage.text.len() > MAX_READ_BYTES {
            break;
        }
        if !kept.iter().any(shares) {
            bytes += passage.text.len();
            kept.push(passage);
        }
    }
    let documents: Vec<_> = kept.iter().map(|passage| passage.document_id.clone()).collect();
    let rank = |passage: &Evidence| documents.iter().position(|id| *id == passage.document_id);
    kept.sort_by_key(|passage| (rank(passage), passage.span));
    kept
}

fn citation(passages: &[&Evidence], quote: &Quote) -> Option<Citation> {
    let passage = passages.get(quote.part)?;
    Some(Citation {
        document_id: passage.document_id.clone(),
        version: passage.version,
        title: passage.title.clone(),
        span: quote.span.shifted(passage.span.start),
        quote: quote.span.of(&passage.text)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extractive::fixtures::passage;

    #[test]
    fn sentences_stand_in_the_order_of_the_text_and_are_quoted() {
        let late = "The harbour was rebuilt by the city in 1843. It has forty berths for ships.";
        let early = "The city had a harbour of wood. A fire burnt the wooden harbour in 1840.";
        let evidence = [passage("a", 500, late, 0.9), passage("a", 0, early, 0.5)];
        let reading = summarise(&evidence);
        let spans: Vec<_> = reading.citations.iter().map(|citation| citation.span).collect();
        assert!(spans.is_sorted() && spans.len() >= 3, "{reading:?}");
        assert!(reading.confidence >= reading.threshold);
        for citation in &reading.citations {
            let (start, text) = if citation.span.start < 500 { (0, early) } else { (500, late) };
            let span = citation.span.start - start..citation.span.end - start;
            assert_eq!(text[span], citation.quote);
        }
    }

    #[test]
    fn what_overlaps_is_read_once_and_nothing_is_no_summary() {
        let text = "The harbour was rebuilt in 1843.";
        let evidence = [passage("a", 0, text, 0.9), passage("a", 0, text, 0.8)];
        assert_eq!(summarise(&evidence).citations.len(), 1);
        let reading = summarise(&[]);
        assert!(reading.text.is_empty() && reading.confidence < reading.threshold);
    }
}
