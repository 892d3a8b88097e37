//! A question that is being read for, and what it costs.

use std::time::Instant;

use clew_core::{Cost, Error, Evidence, PassageRead, SpanReader};
use clew_text::{sentences, words};

use super::apart::Names;
use super::candidate::{Candidate, candidates};
use super::language::is_english;
use super::shown::{Framed, Shown, holds_words, shown};
use crate::extractive::leaning::Leaning;

/// Maximum number of words of a question that the reader is asked. Of a longer one the last
/// sentences count: what comes before them says why it is asked.
const MOST_QUESTION_WORDS: usize = 48;
/// Maximum number of passages by whose language a question without telling words is judged.
pub(super) const MOST_BY_LANGUAGE: usize = 3;

/// A question that is being read for.
pub(super) struct Session<'r, 'a> {
    reader: &'r dyn SpanReader,
    pub(super) question: &'r str,
    pub(super) leaning: &'r Leaning,
    /// Passages that are read, best first.
    pub(super) shown: Vec<Shown<'a>>,
    deadline: Instant,
    /// Number of tokens read so far.
    tokens: u64,
}

impl<'r, 'a> Session<'r, 'a> {
    /// Begins to read `evidence`, given in any order, for `question`.
    pub(super) fn new(
        reader: &'r dyn SpanReader,
        question: &'r str,
        leaning: &'r Leaning,
        evidence: &'a [Evidence],
        deadline: Instant,
    ) -> Self {
        let (question, shown) = (brief(question), shown(evidence));
        Self { reader, question, leaning, shown, deadline, tokens: 0 }
    }

    /// Asks as [`Self::ask`] does, without words that stand in the question: they are no answer.
    pub(super) async fn answers(
        &mut self,
        question: &str,
        passages: &[usize],
    ) -> Result<Vec<Candidate>, Error> {
        let seen = self.look(question, &Framed::alone(passages)).await?;
        Ok(self.found(question, &seen))
    }

    /// Asks the reader about the passages of these indices, and unites what it finds.
    pub(super) async fn ask(
        &mut self,
        question: &str,
        passages: &[usize],
    ) -> Result<Vec<Candidate>, Error> {
        let seen = self.look(question, &Framed::alone(passages)).await?;
        Ok(self.candidates(question, &seen))
    }

    /// Asks the reader about passages, and returns what it finds in each.
    pub(super) async fn look(
        &mut self,
        question: &str,
        framed: &[Framed],
    ) -> Result<Vec<(Framed, PassageRead)>, Error> {
        let to_read = framed.iter().map(|framed| framed.to_read(&self.shown)).collect();
        let read = self.reader.read_spans(question, to_read, self.deadline).await?;
        self.tokens = self.tokens.saturating_add(read.tokens);
        let read = checked(read.passages, framed.len())?;
        Ok(framed.iter().copied().zip(read).collect())
    }

    /// Unites what was found in passages, without words that stand in the question: they are no
    /// answer.
    pub(super) fn found(&self, question: &str, seen: &[(Framed, PassageRead)]) -> Vec<Candidate> {
        let mut found = self.candidates(question, seen);
        found.retain(|candidate| !holds_words(question, &candidate.text));
        found
    }

    fn candidates(&self, question: &str, seen: &[(Framed, PassageRead)]) -> Vec<Candidate> {
        let suits =
            |shown: &Shown<'_>| self.leaning.suits(shown.speaker, shown.evidence.event_time);
        candidates(&self.shown, seen, &Names::of(question), suits)
    }

    /// Returns the indices of all passages.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.shown.len()).collect()
    }

    /// Returns the indices of the passages that name `words`.
    pub(super) fn naming(&self, words: &str) -> Vec<usize> {
        (0..self.shown.len()).filter(|&index| self.shown[index].names(words)).collect()
    }

    /// Returns whether the question is in English, the language of the reader.
    pub(super) fn is_english(&self) -> bool {
        let texts = self.shown.iter().take(MOST_BY_LANGUAGE);
        is_english(self.question, texts.map(|shown| shown.evidence.text.as_str()))
    }

    /// Returns whether there is a reader, as far as anybody can tell.
    pub(super) async fn has_reader(&self) -> bool {
        self.tokens > 0 || matches!(self.reader.reader_model(self.deadline).await, Ok(Some(_)))
    }

    /// Returns the cost of reading so far.
    pub(super) fn cost(&self) -> Cost {
        cost_of(self.tokens)
    }
}

/// Checks that the reader read as many passages as it was given.
pub(super) fn checked(read: Vec<PassageRead>, expected: usize) -> Result<Vec<PassageRead>, Error> {
    if read.len() == expected {
        return Ok(read);
    }
    let got = read.len();
    Err(Error::internal(format!("expected {expected} passages from the reader, got {got}")))
}

/// Returns the cost of reading that many tokens.
pub(super) fn cost_of(tokens: u64) -> Cost {
    Cost { reranked_tokens: tokens, ..Cost::default() }
}

/// Returns the last sentences of a question that the reader can be asked together; of a longer
/// sentence, its beginning counts.
pub(super) fn brief(question: &str) -> &str {
    let mut start = question.len();
    for sentence in sentences(question).into_iter().rev() {
        let is_first = start == question.len();
        if !is_first && words(&question[sentence.start..]).count() > MOST_QUESTION_WORDS {
            break;
        }
        start = sentence.start;
    }
    question[start..].trim()
}
