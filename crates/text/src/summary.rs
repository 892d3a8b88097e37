//! Extractive summaries: summarises texts into one by choosing among their sentences.
//!
//! This is the extractive counterpart of the prompts with which MemWalker builds its tree of
//! summaries ("Walking Down the Memory Maze", section 3 and appendix A.1), for machines without a
//! language model. A summary says nothing that its parts do not say.
//!
//! # Choice of sentences
//!
//! Sentences are taken greedily, best first, until no more fit. The gain of a sentence is the
//! weight of its terms that no chosen sentence holds yet, divided by the square root of its length.
//! The weight of a term is the logarithm of one plus the number of sentences that hold it, so that
//! recurring terms are covered first. This is the budgeted maximum coverage of Lin and Bilmes ("A
//! Class of Submodular Functions for Document Summarization", 2011, section 3.3), with only the
//! coverage part of their objective. That part needs no similarity of all pairs, so the cost is
//! linear in the text except for sorting, and coverage already keeps the chosen sentences from
//! repeating each other. The exponent ½ lies between their 0.3 and a plain density, which prefers
//! fragments.
//!
//! Questions, headings and code are used only where no sentence states something. For an inner
//! node, each part gives its best sentence before any part gives a second, as far as they fit:
//! whoever walks the tree has to recognise every child in it. The chosen sentences stand in the
//! order of the text.

mod choice;

use std::collections::HashSet;

use clew_core::{Cost, Quote, Span, Summary, SummaryLevel, SummaryTask};

use crate::{Shape, one_line, trimmed};

use choice::{Candidate, choose};

/// Returns the summary of a task's parts: whole sentences of theirs, with single blanks for white
/// space. If not even one sentence fits, it is the beginning of the best one.
///
/// The cost is linear in the parts except for sorting; the call blocks.
pub fn summarise(task: &SummaryTask) -> Summary {
    let sentences = sentences(&task.parts);
    let each_part_first = task.level == SummaryLevel::Inner;
    let states = |sentence: &&Sentence| sentence.shape == Shape::Statement;
    let stating: HashSet<usize> = sentences.iter().filter(states).map(|s| s.quote.part).collect();
    // A sentence that states nothing counts only where nothing else is there: in its part for an
    // inner node, in all parts for a leaf.
    let is_all_there_is = |sentence: &Sentence| match each_part_first {
        true => !stating.contains(&sentence.quote.part),
        false => stating.is_empty(),
    };
    let candidates: Vec<Candidate> = sentences
        .iter()
        .filter(|sentence| states(sentence) || is_all_there_is(sentence))
        .map(|sentence| Candidate::new(sentence.quote, &sentence.text))
        .collect();
    let mut chosen = choose(&candidates, task.max_bytes, each_part_first);
    chosen.sort_by_key(|quote| (quote.part, quote.span));
    if chosen.is_empty() {
        // No whole sentence fits.
        let best = choose(&candidates, usize::MAX, false).into_iter().next();
        chosen.extend(best.and_then(|quote| shortened(&task.parts, quote, task.max_bytes)));
    }
    let texts = chosen.iter().map(|quote| one_line(text_of(&task.parts, *quote)));
    Summary { text: texts.collect::<Vec<_>>().join(" "), quotes: chosen, cost: Cost::default() }
}

/// Sentence of a part.
struct Sentence {
    quote: Quote,
    text: String,
    shape: Shape,
}

fn sentences(parts: &[String]) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for (part, text) in parts.iter().enumerate() {
        for whole in crate::sentences(text) {
            let span = trimmed(text, whole);
            let quote = Quote { part, span };
            let written = text_of(parts, quote);
            if !written.is_empty() {
                let shape = Shape::of(written);
                sentences.push(Sentence { quote, text: one_line(written), shape });
            }
        }
    }
    sentences
}

fn text_of(parts: &[String], quote: Quote) -> &str {
    parts.get(quote.part).and_then(|part| quote.span.of(part)).unwrap_or_default()
}

/// Returns the beginning of a sentence that fits into `max_bytes`, up to the end of a word if there
/// is one.
fn shortened(parts: &[String], quote: Quote, max_bytes: usize) -> Option<Quote> {
    let text = text_of(parts, quote);
    let fitting = &text[..text.floor_char_boundary(max_bytes)];
    let end = fitting.rfind(char::is_whitespace).unwrap_or(fitting.len());
    let length = fitting[..end].trim_end().len();
    let start = quote.span.start;
    (length > 0).then(|| Quote { span: Span::new(start, start + length), ..quote })
}

#[cfg(test)]
mod tests;
