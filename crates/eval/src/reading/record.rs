//! What a reader found for a question.

use clew_core::PassageRead;
use serde::Serialize;

use super::ReadingQuestion;
use crate::calibration::Forecast;
use crate::{Error, MissKind};

/// What a reader found for one question, with its scores.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingRecord {
    /// Id of the question.
    pub id: String,
    /// Name of the data set that the question comes from; may be empty.
    pub source: String,
    /// Whether the passage answers the question.
    pub is_answerable: bool,
    /// Probability that it does, as the reader has it, 0 to 1.
    pub answers: f64,
    /// Best words that the reader found; empty if it found none.
    pub found: String,
    /// Probability that they are the answer if the passage answers at all, 0 to 1.
    pub share: f64,
    /// Exact match of the words; 0 if the passage does not answer.
    pub exact_match: f64,
    /// F1 of the words; 0 if the passage does not answer.
    pub f1: f64,
    /// Tokens that the reader read.
    pub tokens: u64,
    /// Time from question to result, in seconds.
    pub seconds: f64,
}

/// Wrong result of a reader, with all that tells why it is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadingMiss {
    /// Id of the question.
    pub id: String,
    /// Name of the data set that the question comes from; may be empty.
    pub source: String,
    /// Kind of error: other words, a wrong refusal, or an answer where there is none.
    pub kind: MissKind,
    /// Text of the question.
    pub question: String,
    /// Right answers; none if the passage does not answer.
    pub expected: Vec<String>,
    /// Best words that the reader found, whether or not they are its answer.
    pub found: String,
    /// Probability that the passage answers, as the reader has it.
    pub answers: f64,
    /// Probability that the words are the answer if it does.
    pub share: f64,
    /// Title of the passage.
    pub title: String,
    /// The passage.
    pub context: String,
}

impl ReadingRecord {
    /// Scores what a reader found for `question`.
    ///
    /// # Errors
    /// Returns [`Error::BadRecord`] if a probability is not from 0 to 1 or a span is no part of the
    /// passage.
    pub fn new(
        question: &ReadingQuestion,
        read: &PassageRead,
        tokens: u64,
        seconds: f64,
    ) -> Result<Self, Error> {
        let bad = |problem| Error::BadRecord { question_id: question.id.clone(), problem };
        let best = read.spans.first();
        let (answers, share) = (read.answers, best.map_or(0.0, |best| best.share));
        for probability in [answers, share] {
            if !(0.0..=1.0).contains(&probability) {
                return Err(bad(format!("expected probabilities from 0 to 1, got {probability}")));
            }
        }
        let found = match best.map(|best| best.span) {
            None => "",
            Some(span) => question.context.get(span.start..span.end).ok_or_else(|| {
                let length = question.context.len();
                bad(format!("expected a span of the passage of {length} bytes, got {span:?}"))
            })?,
        };
        let (exact_match, f1) = question.score(found);
        Ok(Self {
            id: question.id.clone(),
            source: question.source.clone(),
            is_answerable: question.is_answerable(),
            answers: f64::from(answers),
            found: found.to_owned(),
            share: f64::from(share),
            exact_match,
            f1,
            tokens,
            seconds,
        })
    }

    /// Returns whether the words are the answer at this threshold, and not that there is none.
    pub fn is_answered(&self, threshold: f64) -> bool {
        !self.found.is_empty() && self.answers >= threshold
    }

    /// Returns exact match and F1 at this threshold: those of the words or, if the passage does not
    /// answer, 1 for saying so (`evaluate-v2.0.py` of SQuAD).
    pub fn scores(&self, threshold: f64) -> (f64, f64) {
        match (self.is_answerable, self.is_answered(threshold)) {
            (true, true) => (self.exact_match, self.f1),
            (false, false) => (1.0, 1.0),
            (true, false) | (false, true) => (0.0, 0.0),
        }
    }

    /// Returns whether the words are the answer: an F1 of at least 0.5.
    pub fn are_words_right(&self) -> bool {
        self.is_answerable && self.f1 >= 0.5
    }

    /// Returns the probability that the passage answers, with whether it does.
    pub fn on_passage(&self) -> Forecast {
        Forecast { probability: self.answers, is_so: self.is_answerable }
    }

    /// Returns the probability that the words are the answer, with whether they are.
    pub fn on_words(&self) -> Forecast {
        Forecast { probability: self.answers * self.share, is_so: self.are_words_right() }
    }

    /// Returns what is wrong at this threshold with the result for `question`, which this is.
    /// Returns `None` if nothing is.
    pub fn miss(&self, question: &ReadingQuestion, threshold: f64) -> Option<ReadingMiss> {
        let kind = match (self.is_answerable, self.is_answered(threshold)) {
            (false, false) => return None,
            (false, true) => MissKind::AnsweredWrongly,
            (true, false) => MissKind::RefusedWrongly,
            (true, true) if self.are_words_right() => return None,
            (true, true) => MissKind::WrongSpan,
        };
        Some(ReadingMiss {
            id: self.id.clone(),
            source: self.source.clone(),
            kind,
            question: question.question.clone(),
            expected: question.answers.clone(),
            found: self.found.clone(),
            answers: self.answers,
            share: self.share,
            title: question.title.clone(),
            context: question.context.clone(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clew_core::{FoundSpan, Span};

    use super::*;

    /// Returns a result whose words are right if the passage answers.
    pub(in crate::reading) fn result(id: &str, is_answerable: bool, answers: f64) -> ReadingRecord {
        let right = f64::from(u8::from(is_answerable));
        ReadingRecord {
            id: id.to_owned(),
            source: String::new(),
            is_answerable,
            answers,
            found: "words".to_owned(),
            share: 1.0,
            exact_match: right,
            f1: right,
            tokens: 100,
            seconds: 0.5,
        }
    }

    fn question(answers: &[&str]) -> ReadingQuestion {
        ReadingQuestion {
            id: "q".to_owned(),
            source: "s".to_owned(),
            title: "T".to_owned(),
            context: "Bo saw Al é.".to_owned(),
            question: "Who?".to_owned(),
            answers: answers.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    fn read(answers: f32, spans: &[(usize, usize, f32)]) -> PassageRead {
        let span = |&(start, end, share): &(usize, usize, f32)| FoundSpan {
            span: Span { start, end },
            share,
        };
        PassageRead { answers, relevance: 0.5, spans: spans.iter().map(span).collect() }
    }

    fn record(answers: &[&str], read: &PassageRead) -> ReadingRecord {
        ReadingRecord::new(&question(answers), read, 7, 0.25).unwrap()
    }

    #[test]
    fn scores_depend_on_the_threshold() {
        let right = record(&["Al", "Al Bo"], &read(0.75, &[(7, 9, 0.5), (0, 2, 0.25)]));
        assert_eq!((&*right.found, right.tokens, right.seconds), ("Al", 7, 0.25));
        assert_eq!((right.scores(0.75), right.scores(0.76)), ((1.0, 1.0), (0.0, 0.0)));
        assert_eq!(right.on_words(), Forecast { probability: 0.375, is_so: true });
        assert_eq!(right.on_passage(), Forecast { probability: 0.75, is_so: true });
        let none = record(&[], &read(0.75, &[(7, 9, 0.5)]));
        assert_eq!((none.scores(0.75), none.scores(0.76)), ((0.0, 0.0), (1.0, 1.0)));
        assert!(!none.on_words().is_so && !none.on_passage().is_so);
        // Without words there is no answer, however sure the reader is.
        let wordless = record(&["Al"], &read(1.0, &[]));
        assert_eq!((wordless.scores(0.0), wordless.is_answered(0.0)), ((0.0, 0.0), false));
    }

    #[test]
    fn what_is_wrong_is_told_by_kind() {
        let kind = |answers: &[&str], read: &PassageRead| {
            record(answers, read).miss(&question(answers), 0.5).map(|miss| miss.kind)
        };
        let found = read(0.5, &[(0, 2, 1.0)]);
        assert_eq!(kind(&["Bo"], &found), None);
        assert_eq!(kind(&["Al"], &found), Some(MissKind::WrongSpan));
        assert_eq!(kind(&[], &found), Some(MissKind::AnsweredWrongly));
        assert_eq!(kind(&[], &read(0.4, &[])), None);
        assert_eq!(kind(&["Al"], &read(0.4, &[(7, 9, 1.0)])), Some(MissKind::RefusedWrongly));
        let miss = record(&["Al"], &found).miss(&question(&["Al"]), 0.5).unwrap();
        assert_eq!((&*miss.found, &*miss.expected[0], &*miss.title), ("Bo", "Al", "T"));
    }

    #[test]
    fn results_that_make_no_sense_are_refused() {
        let cases = [
            (read(1.5, &[]), "probabilities from 0 to 1, got 1.5"),
            (read(f32::NAN, &[]), "got NaN"),
            (read(0.5, &[(0, 2, -0.5)]), "got -0.5"),
            (read(0.5, &[(7, 90, 0.5)]), "a span of the passage of 13 bytes"),
            // Within a character.
            (read(0.5, &[(7, 11, 0.5)]), "a span of the passage"),
        ];
        for (read, expected) in cases {
            let error = ReadingRecord::new(&question(&["Al"]), &read, 0, 0.0).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
