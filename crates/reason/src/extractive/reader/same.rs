//! Answers whether two have the same of something: "Do Maria and Jonas work in the same team?" is
//! answered by the team of each. English only.

use clew_core::Error;

use super::calibrated::ANSWERED;
use super::candidate::Candidate;
use super::clean::says_same;
use super::form::{AUXILIARIES, name_at_start};
use super::session::Session;
use super::told::{Item, Said};
use crate::extractive::judged::Judged;
use crate::extractive::phrase::{after_start, bare, split, split_any};

/// Auxiliaries of several, with those of one.
const OF_ONE: [(&str, &str); 5] =
    [("are", "is"), ("were", "was"), ("do", "does"), ("did", "did"), ("have", "has")];
/// Maximum number of words of what is the same, such as "type of music".
const MOST_KIND_WORDS: usize = 4;

/// A question whether two have the same of something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Same {
    pub(super) subjects: [String; 2],
    /// Question about the first of them, and about the second.
    pub(super) questions: [String; 2],
}

impl Same {
    /// Reads a question; returns `None` if it asks something else.
    pub(super) fn of(question: &str) -> Option<Self> {
        let question = bare(question);
        let rest = after_start(question, &AUXILIARIES)?;
        let auxiliary = question[..question.len() - rest.len()].trim().to_lowercase();
        let (_, of_one) = OF_ONE.iter().find(|(of_several, _)| *of_several == auxiliary)?;
        let (front, kind) = split_any(rest, &["the same", "same"])?;
        let is_kind = (1..=MOST_KIND_WORDS).contains(&kind.split_whitespace().count());
        let (first, after) = split(front, "and")?;
        let second = name_at_start(after)?;
        let middle = after[second.len()..].trim();
        let first = after_start(first, &["both"]).unwrap_or(first);
        let is_name = |text: &str| text.contains(char::is_uppercase);
        if !is_kind || !is_name(first) || middle.contains(',') {
            return None;
        }
        let subjects = [first, second].map(|subject| bare(subject).to_owned());
        let space = if middle.is_empty() { "" } else { " " };
        let ask = |subject: &String| format!("What {kind} {of_one} {subject}{space}{middle}?");
        let questions = subjects.each_ref().map(ask);
        Some(Self { subjects, questions })
    }
}

impl Session<'_, '_> {
    /// Answers whether two have the same of something, if the passages tell it of both.
    pub(super) async fn same(&mut self) -> Result<Option<Judged>, Error> {
        let Some(same) = Same::of(self.question) else { return Ok(None) };
        let mut found = Vec::new();
        for (subject, question) in same.subjects.iter().zip(&same.questions) {
            let best = self.best_about(subject, question).await?;
            let Some(best) = best.filter(|best| best.probability >= ANSWERED) else {
                return Ok(None);
            };
            found.push(best);
        }
        let is_same = says_same(&found[0].key, &found[1].key);
        let words = if is_same { "Yes" } else { "No" };
        // Both must be right.
        let probability = found.iter().map(|it| it.probability).fold(1.0, f32::min);
        let item = |it: &Candidate| Item { probability, ..Item::of(it, it.text.clone()) };
        let items = found.iter().map(item).collect();
        let said = Said { text: words.to_owned(), items, threshold: ANSWERED };
        Ok(Some(self.answered(said, &[])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_are_asked_about_one_by_one() {
        for (question, first, second) in [
            (
                "Do Maria Silva and Jonas Weber work in the same team?",
                "What team does Maria Silva work in?",
                "What team does Jonas Weber work in?",
            ),
            (
                "Are both Tara and the Old Mill from the same type of stone?",
                "What type of stone is Tara from?",
                "What type of stone is the Old Mill from?",
            ),
            (
                "Did Ada and Rolf attend the same school?",
                "What school did Ada attend?",
                "What school did Rolf attend?",
            ),
        ] {
            assert_eq!(Same::of(question).unwrap().questions, [first, second]);
        }
        for question in [
            "Is Ada at the same school?",
            "Do Ada and Rolf sing?",
            "Who has the same harp as Ada and Rolf?",
            "Are Ada and Rolf the same?",
            "Are the harps and lutes of the same make?",
        ] {
            assert_eq!(Same::of(question), None, "{question}");
        }
    }

    proptest! {
        #[test]
        fn any_question_is_read(question in "(Are |Do |Ada |and |both |the same |\\(|é|\\? ){0,12}|\\PC{0,50}") {
            if let Some(same) = Same::of(&question) {
                prop_assert!(same.questions.iter().all(|asked| asked.ends_with('?')));
            }
        }
    }
}
