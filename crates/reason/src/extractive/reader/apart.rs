//! Tells answers that stand apart from what the question names: "Where does Priya live?" is not
//! answered by "The office in Lisbon is closed.", wherever Priya is mentioned. English only.

use clew_core::Span;

use super::calibrated::APART;
use super::shown::{Shown, lower_words};
use crate::extractive::question::{Question, WordSet};

/// Words that may mean somebody whom another sentence names.
const PRONOUNS: [&str; 16] = [
    "he", "she", "they", "him", "her", "his", "hers", "their", "them", "i", "we", "me", "my",
    "our", "you", "your",
];
/// Words that may mean something that another sentence names, if they begin a sentence. Further on
/// they mostly mean what their own sentence names.
const BEGINNINGS: [&str; 6] = ["it", "its", "this", "these", "those", "that"];

/// Names in a question.
pub(super) struct Names {
    question: Question,
}

impl Names {
    /// Takes the names out of `question`.
    pub(super) fn of(question: &str) -> Self {
        Self { question: Question::new(question) }
    }

    /// Returns the probability that the words at `span` answer, lowered if their `sentence`, the
    /// title and the sentence that leads to the passage have none of the names, and no other word of
    /// the sentence may mean them.
    pub(super) fn weighed(
        &self,
        shown: &Shown<'_>,
        sentence: Span,
        span: Span,
        lead: &str,
        probability: f32,
    ) -> f32 {
        if !self.are_missing(shown, sentence, span, lead) {
            return probability;
        }
        let lowered = probability * APART;
        lowered / (1.0 - probability + lowered)
    }

    fn are_missing(&self, shown: &Shown<'_>, sentence: Span, span: Span, lead: &str) -> bool {
        let words = self.question.words();
        let is_name = |place: &usize| {
            let word = &words[*place];
            word.is_name && word.written.starts_with(char::is_uppercase)
        };
        let names: Vec<usize> = (0..words.len()).filter(is_name).collect();
        if names.is_empty() {
            return false;
        }
        let texts = [shown.text(sentence), shown.evidence.title.as_str(), lead];
        let held = texts.map(|text| self.question.words_in(text));
        let held = held.into_iter().fold(WordSet::default(), |all, these| all | these);
        let parts = [Span::new(sentence.start, span.start), Span::new(span.end, sentence.end)];
        let [before, after] = parts.map(|part| lower_words(shown.text(part)));
        let begins = before.first().is_some_and(|first| BEGINNINGS.contains(&first.as_str()));
        let is_pronoun = |word: &String| PRONOUNS.contains(&word.as_str());
        let refers = begins || before.iter().chain(&after).any(is_pronoun);
        !refers && !names.iter().any(|name| held.holds(*name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown::shown;
    use super::*;
    use crate::extractive::fixtures::passage;

    /// Weighs a probability of 0.7 for the words in the sentence of a passage that has them.
    fn weighed(question: &str, title: &str, text: &str, words: &str) -> f32 {
        let mut evidence = [passage("a", 0, text, 0.9)];
        evidence[0].title = title.to_owned();
        let shown = shown(&evidence);
        let start = text.find(words).unwrap();
        let span = Span::new(start, start + words.len());
        Names::of(question).weighed(&shown[0], shown[0].sentence_of(span), span, "", 0.7)
    }

    #[test]
    fn what_stands_apart_from_the_names_asked_about_is_less_probable() {
        let text = "Priya has a dog. The office in Lisbon is closed, and its key is lost.";
        let lowered = weighed("Where does Priya live?", "", text, "Lisbon");
        assert!(lowered > 0.1 && lowered < 0.5, "{lowered}");
        for (question, title, text, words) in [
            ("Where does Priya live?", "", "Priya has a dog. She lives in Lisbon.", "Lisbon"),
            ("Where does Priya live?", "", "Priya lives in Lisbon.", "Lisbon"),
            ("Where is Atlas made?", "", "Atlas is a van. It is made in Porto.", "Porto"),
            ("Where does Priya live?", "Priya", "Lives in Lisbon, with a dog.", "Lisbon"),
            ("Where is the office?", "", text, "Lisbon"),
        ] {
            assert_eq!(weighed(question, title, text, words), 0.7, "{question} {text}");
        }
    }

    #[test]
    fn a_pronoun_within_the_answer_means_nobody_else() {
        let text = "The song is called You, by a singer of Maine.";
        assert!(weighed("What did Priya hear?", "", text, "You") < 0.5);
    }
}
