//! Summarises texts into one by choosing among their sentences.
//!
//! This is the extractive counterpart of the prompts with which MemWalker builds its tree of summaries
//! ("Walking Down the Memory Maze", section 3 and appendix A.1), for machines without a language model:
//! a summary says nothing that its parts do not say.
//!
//! # How it chooses
//!
//! Sentences are taken greedily by how much they add, until no more fit: the weight of their terms that no
//! chosen sentence holds yet, over the square root of their length. A term weighs the logarithm of one plus
//! the number of sentences that hold it, so that what comes up again and again is covered first. That is
//! the budgeted maximum coverage of Lin and Bilmes ("A Class of Submodular Functions for Document
//! Summarization", 2011, section 3.3), of their objective the coverage part alone: it needs no
//! similarity of all pairs, so that its cost is linear in the text but for sorting, and covering already
//! keeps the chosen from repeating each other. The exponent ½ lies between theirs of 0.3 and a plain
//! density, which prefers fragments.
//!
//! Sentences that state something come before questions, headings and code. For an inner node each part
//! gives its best sentence before any gives a second, as far as they fit: whoever walks the tree has to
//! recognise every child in it. The chosen stand in the order of the text.

mod choice;

use std::collections::HashSet;

use clew_core::{Cost, Quote, Span, Summary, SummaryLevel, SummaryTask};
use clew_text::{Shape, one_line};

use crate::choice::{Candidate, choose};

/// The summary of a task's parts: whole sentences of theirs, with single blanks for white space, or the
/// beginning of the best one if not even one fits.
///
/// Cost is linear in the parts but for sorting; it blocks.
pub fn summarise(task: &SummaryTask) -> Summary {
    let sentences = sentences(&task.parts);
    let each_part_first = task.level == SummaryLevel::Inner;
    let states = |sentence: &&Sentence| sentence.shape == Shape::Statement;
    let stating: HashSet<usize> = sentences.iter().filter(states).map(|s| s.quote.part).collect();
    // What states nothing counts where nothing else is there: in its part, or in all of them.
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
        // Nothing fits whole.
        let best = choose(&candidates, usize::MAX, false).into_iter().next();
        chosen.extend(best.and_then(|quote| shortened(&task.parts, quote, task.max_bytes)));
    }
    let texts = chosen.iter().map(|quote| one_line(text_of(&task.parts, *quote)));
    Summary { text: texts.collect::<Vec<_>>().join(" "), quotes: chosen, cost: Cost::default() }
}

/// A sentence of a part.
struct Sentence {
    quote: Quote,
    text: String,
    shape: Shape,
}

fn sentences(parts: &[String]) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for (part, text) in parts.iter().enumerate() {
        for whole in clew_text::sentences(text) {
            let span = clew_text::trimmed(text, whole);
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

/// The beginning of a sentence that fits into `max_bytes`, up to the end of a word where it has one.
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
