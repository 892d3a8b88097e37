//! Small steps of judgement without a language model, with explicit limits.

use std::collections::BTreeSet;

use clew_core::{Clues, Concerns, MemoryPoint};
use clew_text::{Term, key_phrases, one_line, sentences, terms};

use super::question::{Question, WordSet};

/// Maximum number of sentences of an outline whose phrases are used.
const MAX_SENTENCES: usize = 16;

/// Returns at most `most` phrases of an outline that occur in the same sentence as words of the
/// question and contain another word: the counterpart of [`crate::prompted::ProposeClues`]. It
/// finds what the outline says, not what the question implies, and proposes no queries.
pub fn propose_clues(question: &str, outline: &str, most: usize) -> Clues {
    let asked: BTreeSet<Term> = terms(question).collect();
    let shared = |text: &str| terms(text).filter(|term| asked.contains(term)).count();
    let mut near: Vec<(usize, &str)> = sentences(outline)
        .into_iter()
        .filter_map(|span| span.of(outline))
        .map(|sentence| (shared(sentence), sentence.trim()))
        .filter(|(shared, _)| *shared > 0)
        .collect();
    // The sort is stable: ties keep the order of the sentences.
    near.sort_by_key(|(shared, _)| usize::MAX - shared);
    near.truncate(MAX_SENTENCES);
    let mut clues: Vec<String> = Vec::new();
    for (_, sentence) in near {
        for phrase in key_phrases(sentence, most) {
            let clue = one_line(phrase);
            let is_new = terms(phrase).any(|term| !asked.contains(&term));
            if is_new && clues.len() < most && !clues.contains(&clue) {
                clues.push(clue);
            }
        }
    }
    Clues { clues, ..Clues::default() }
}

/// Returns the words of the question that no point of a memory contains, names and numbers first,
/// as at most `most` concerns: the counterpart of [`crate::prompted::RaiseConcerns`].
///
/// [`Concerns::Resolved`] means that every word is covered, which is weaker than that the question
/// is resolved. It never finds fault with a point.
pub fn raise_concerns(question: &str, points: &[MemoryPoint], most: usize) -> Concerns {
    let asked = Question::new(question);
    let mut covered = WordSet::default();
    for point in points {
        let of_entities = point.entities.iter().map(|entity| asked.words_in(entity));
        covered = of_entities.fold(covered | asked.words_in(&point.text), |all, some| all | some);
    }
    let concerns = asked.written_without(covered, most);
    if concerns.is_empty() { Concerns::Resolved } else { Concerns::Global(concerns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clues_are_phrases_beside_words_of_the_question() {
        let outline = "Ariadne gave Theseus a ball of red thread. Minos ruled the island of Crete.";
        let clues = propose_clues("How did Theseus escape?", outline, 4).clues;
        assert!(clues.iter().any(|clue| clue == "red thread"), "{clues:?}");
        assert!(!clues.iter().any(|clue| clue.contains("Minos")), "{clues:?}");
        assert_eq!(propose_clues("Who?", outline, 4), Clues::default());
        assert!(propose_clues("Theseus?", outline, 1).clues.len() == 1);
    }

    #[test]
    fn concerns_are_words_that_no_point_holds() {
        let point = |entity: &str, text: &str| MemoryPoint {
            entities: vec![entity.to_owned()],
            text: text.to_owned(),
        };
        let points = [point("Theseus", "He killed the Minotaur.")];
        let concerns = raise_concerns("When did Theseus sail to Naxos?", &points, 5);
        assert_eq!(concerns, Concerns::Global(vec!["Naxos".to_owned(), "sail".to_owned()]));
        let concerns = raise_concerns("Who killed the Minotaur?", &points, 5);
        assert_eq!(concerns, Concerns::Resolved);
    }
}
