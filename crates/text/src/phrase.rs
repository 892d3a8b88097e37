//! Key phrases: short runs of content words that say what a text is about.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use clew_core::Span;

use crate::{Term, is_common_verb, is_grammar_word, terms, words};

/// Maximum number of words in a phrase. Longer runs tend to be clauses rather than names of a
/// topic.
const MAX_WORDS: usize = 3;

/// Returns at most `most` key phrases of `text`, best first, each as first written there.
///
/// Candidates are found as in RAKE (Rose et al., "Automatic Keyword Extraction from Individual
/// Documents", 2010): the longest runs of words between grammar words and punctuation. The score
/// differs: a phrase scores by how often its terms occur in the text, while RAKE scores by the
/// length of the runs that contain them. In a passage of a few hundred words most terms occur once,
/// and scoring by length would rank words that happen to be adjacent first. Ties go to the phrase
/// with more terms, then to the earlier one. A phrase is left out if better phrases already contain
/// all its terms.
///
/// Cost is linear in the text, except for sorting the phrases.
pub fn key_phrases(text: &str, most: usize) -> Vec<&str> {
    let candidates = candidates(text);
    let mut counts: HashMap<&Term, usize> = HashMap::new();
    for term in candidates.iter().flat_map(|(_, terms)| terms) {
        *counts.entry(term).or_default() += 1;
    }
    // Keyed by terms, so that inflected forms of a phrase are one. The first form found is
    // returned.
    let mut phrases: BTreeMap<&[Term], Span> = BTreeMap::new();
    for (span, terms) in &candidates {
        phrases.entry(terms).or_insert(*span);
    }
    let score = |terms: &[Term]| -> usize {
        terms.iter().map(|term| counts.get(term).map_or(0, |count| count - 1)).sum()
    };
    let mut ranked: Vec<(&[Term], Span)> = phrases.into_iter().collect();
    ranked.sort_by_key(|(terms, span)| (Reverse(score(terms)), Reverse(terms.len()), span.start));
    let mut chosen: Vec<(&[Term], Span)> = Vec::new();
    for (terms, span) in ranked {
        if chosen.len() == most {
            break;
        }
        let is_new = |term: &Term| !chosen.iter().any(|(taken, _)| taken.contains(term));
        if terms.iter().any(is_new) {
            chosen.push((terms, span));
        }
    }
    chosen.into_iter().filter_map(|(_, span)| span.of(text)).collect()
}

/// Returns the runs of content words, with their terms.
fn candidates(text: &str) -> Vec<(Span, Vec<Term>)> {
    let mut runs: Vec<(Span, Vec<Term>)> = Vec::new();
    let mut run: Option<(Span, Vec<Term>, usize)> = None;
    let mut end_run = |run: &mut Option<(Span, Vec<Term>, usize)>| {
        if let Some((span, terms, words)) = run.take()
            && words <= MAX_WORDS
        {
            runs.push((span, terms));
        }
    };
    for span in words(text) {
        let word = &text[span.start..span.end];
        let lower = word.to_lowercase();
        let is_content = word.chars().any(char::is_alphabetic)
            && (lower.chars().nth(2).is_some()
                || word.chars().nth(1).is_some_and(char::is_uppercase))
            && !is_grammar_word(&lower)
            && !is_common_verb(&lower);
        if !is_content {
            end_run(&mut run);
            continue;
        }
        let (word_terms, joins) = (terms(word), |last: &Span| {
            let gap = &text[last.end..span.start];
            gap == "-" || (gap.trim().is_empty() && gap.matches('\n').count() < 2)
        });
        match &mut run {
            Some((whole, run_terms, words)) if joins(whole) => {
                whole.end = span.end;
                run_terms.extend(word_terms);
                *words += 1;
            }
            _ => {
                end_run(&mut run);
                run = Some((span, word_terms.collect(), 1));
            }
        }
    }
    end_run(&mut run);
    runs.retain(|(_, terms)| !terms.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLEW: &str = "Ariadne gave Theseus a ball of red thread. He tied the red thread to the gate \
        of the labyrinth, and went in. The red threads led him out of the dark labyrinth. \
        Nobody had come out of the labyrinth before.";

    #[test]
    fn what_a_text_keeps_coming_back_to_comes_first() {
        let phrases = key_phrases(CLEW, 4);
        assert_eq!(phrases[..2], ["red thread", "dark labyrinth"], "{phrases:?}");
        assert_eq!(phrases.len(), 4);
    }

    #[test]
    fn there_may_be_none() {
        assert!(key_phrases("", 5).is_empty());
        assert!(key_phrases("It was he, who had been there.", 5).is_empty());
        assert!(key_phrases(CLEW, 0).is_empty());
    }

    proptest! {
        #[test]
        fn phrases_are_parts_of_the_text(text in "([ab é.\n-]|the |Thread ){0,200}|\\PC{0,100}") {
            let phrases = key_phrases(&text, 5);
            prop_assert!(phrases.len() <= 5);
            for phrase in &phrases {
                prop_assert!(text.contains(phrase) && !phrase.trim().is_empty());
            }
            prop_assert_eq!(key_phrases(&text, 5), phrases);
        }
    }
}
