//! Tells answers that stand apart from what the question names: "Where does Priya live?" is not
//! answered by "The office in Lisbon is closed.", wherever Priya is mentioned, nor by "Jonas: I
//! live in Porto." English only.

use clew_core::Span;
use clew_text::Shape;

use super::calibrated::{APART, MISTAKEN};
use super::shown::{Shown, lower_words};
use crate::extractive::question::{Question, Word};

/// Words that may mean somebody whom another sentence names.
const PRONOUNS: [&str; 11] =
    ["he", "she", "they", "him", "her", "his", "hers", "their", "them", "you", "your"];
/// Words by which speakers mean themselves.
const OF_SPEAKER: [&str; 6] = ["i", "we", "me", "my", "our", "us"];
/// Words that may mean something that another sentence names, if they begin a sentence. Further on
/// they mostly mean what their own sentence names.
const BEGINNINGS: [&str; 6] = ["it", "its", "this", "these", "those", "that"];

/// Names in a question.
pub(super) struct Names {
    question: Question,
    /// Places of the names among the words of the question.
    places: Vec<usize>,
}

impl Names {
    /// Takes the names out of `question`.
    pub(super) fn of(question: &str) -> Self {
        let question = Question::new(question);
        let is_name = |word: &Word| word.is_name && word.written.starts_with(char::is_uppercase);
        let words = question.words().iter().enumerate();
        let places = words.filter(|(_, word)| is_name(word)).map(|(place, _)| place).collect();
        Self { question, places }
    }

    /// Returns the probability that the words at `span` answer, lowered if their `sentence`, the
    /// title, the speaker's name and the sentence that leads to the passage have none of the names,
    /// and no other word of the sentence may mean them. It is lowered more if somebody else says it
    /// of themselves, or if the sentence is a question.
    pub(super) fn weighed(
        &self,
        shown: &Shown<'_>,
        sentence: Span,
        span: Span,
        lead: &str,
        probability: f32,
    ) -> f32 {
        let factor = self.factor(shown, sentence, span, lead);
        let lowered = probability * factor;
        if factor < 1.0 { lowered / (1.0 - probability + lowered) } else { probability }
    }

    /// Returns the factor on the odds that the words at `span` answer.
    fn factor(&self, shown: &Shown<'_>, sentence: Span, span: Span, lead: &str) -> f32 {
        let said = shown.text(sentence);
        if Shape::of(said.trim()) == Shape::Asking {
            return MISTAKEN;
        }
        let holds_name = |text: &str| {
            let held = self.question.words_in(text);
            self.places.iter().any(|place| held.holds(*place))
        };
        let speaker = shown.speaker_name();
        let texts = [said, shown.evidence.title.as_str(), lead, speaker.unwrap_or_default()];
        if self.places.is_empty() || texts.into_iter().any(holds_name) {
            return 1.0;
        }
        let parts = [Span::new(sentence.start, span.start), Span::new(span.end, sentence.end)];
        let [before, after] = parts.map(|part| lower_words(shown.text(part)));
        let has = |pronouns: &[&str]| {
            before.iter().chain(&after).any(|word| pronouns.contains(&word.as_str()))
        };
        let begins = before.first().is_some_and(|first| BEGINNINGS.contains(&first.as_str()));
        match speaker {
            // Whom they speak to may be whom the question names.
            Some(_) if has(&["you", "your"]) => 1.0,
            Some(_) if has(&OF_SPEAKER) => MISTAKEN,
            None if has(&OF_SPEAKER) => 1.0,
            _ if begins || has(&PRONOUNS) => 1.0,
            _ => APART,
        }
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
    fn what_others_say_of_themselves_is_not_of_whom_the_question_names() {
        let text = "Jonas: What a day! I live in Lisbon.";
        assert!(weighed("Where does Priya live?", "", text, "Lisbon") < 0.2);
        for (question, text) in [
            ("Where does Jonas live?", text),
            ("Where does Priya live?", "Jonas: What a day! You live in Lisbon."),
            ("Where does Priya live?", "Jonas: I met Priya in Lisbon."),
            ("Where does Priya live?", "Note that I live in Lisbon."),
        ] {
            assert_eq!(weighed(question, "", text, "Lisbon"), 0.7, "{question} {text}");
        }
    }

    #[test]
    fn a_question_does_not_answer() {
        assert!(weighed("Where is she?", "", "She is here. Is she in Lisbon?", "Lisbon") < 0.2);
    }

    #[test]
    fn a_pronoun_within_the_answer_means_nobody_else() {
        let text = "The song is called You, by a singer of Maine.";
        assert!(weighed("What did Priya hear?", "", text, "You") < 0.5);
    }
}
