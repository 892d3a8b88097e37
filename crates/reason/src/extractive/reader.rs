//! Answers in the words of the evidence, which a reader finds. The crate's documentation describes
//! the whole.

mod apart;
mod bridge;
mod calibrated;
mod candidate;
mod choice;
mod clean;
mod day;
mod entailed;
mod form;
mod joined;
mod language;
mod options;
mod points;
mod quantity;
mod remembered;
mod same;
mod session;
mod shown;
mod steps;
#[cfg(test)]
mod tests;
mod told;

use std::time::Instant;

use clew_core::{Assignment, Cost, Error, MemoryPoint, NoReader, PassageRead, ReadPassage};
use clew_text::one_line;

use self::calibrated::{ENTAILED, EXPLAINED, LED_ANSWERED, SURE};
use self::candidate::{Candidate, sound};
use self::entailed::Asked;
use self::form::Form;
use self::language::is_english;
use self::points::{PointsRead, as_evidence};
pub(super) use self::remembered::Remembered;
use self::session::{MOST_BY_LANGUAGE, Session, brief, checked, cost_of};
use self::told::{Item, Said};
use super::ExtractiveReasoner;
use super::judged::{Judged, Told};
use super::leaning::Leaning;
use super::matter::Matter;
use super::nothing_to_read;

/// Reasons for answering by quotes, for people.
const NOT_ENGLISH: &str = "it is not in English, which the reader was trained on";
const NOT_IN_AS_MANY_WORDS: &str = "nothing says yes or no in as many words";
const NO_OPTION: &str = "the reader cannot tell which of the options it is";

impl ExtractiveReasoner {
    /// Reads for the words that answer.
    pub(super) async fn words_for(
        &self,
        assignment: &Assignment<'_>,
        matter: &Matter,
        leaning: &Leaning,
        deadline: Instant,
    ) -> Result<Told, Error> {
        let (question, evidence) = (matter.topic(assignment.question), assignment.evidence);
        let mut session = Session::new(&*self.reader, &question, leaning, evidence, deadline);
        let told = without_reader(session.read().await)?;
        Ok(told.unwrap_or(Told::Quotes { reason: "", cost: Cost::default() }))
    }

    /// Reads the points of a working memory for the answer to `question`. Returns `None` if there
    /// is no reader for it.
    pub(super) async fn points_for(
        &self,
        question: &str,
        points: &[MemoryPoint],
        deadline: Instant,
    ) -> Result<Option<PointsRead>, Error> {
        let (evidence, leaning) = (as_evidence(question, points), Leaning::default());
        let mut session = Session::new(&*self.reader, question, &leaning, &evidence, deadline);
        if session.shown.is_empty() || !session.is_english() {
            return Ok(None);
        }
        without_reader(session.read_points().await)
    }

    /// Returns how relevant each of `texts` is to `question`, with the cost; `None` if there is no
    /// reader for it.
    pub(super) async fn relevance(
        &self,
        question: &str,
        texts: &[String],
        deadline: Instant,
    ) -> Result<Option<(Vec<f32>, Cost)>, Error> {
        if !is_english(question, texts.iter().take(MOST_BY_LANGUAGE).map(String::as_str)) {
            return Ok(None);
        }
        let passage = |text: &String| ReadPassage { text: text.clone(), ..ReadPassage::default() };
        let passages = texts.iter().map(passage).collect();
        let read = self.reader.read_spans(brief(question), passages, deadline).await;
        let Some(read) = without_reader(read)? else { return Ok(None) };
        let relevance = |read: &PassageRead| sound(read.relevance);
        let of = checked(read.passages, texts.len())?.iter().map(relevance).collect();
        Ok(Some((of, cost_of(read.tokens))))
    }
}

impl Session<'_, '_> {
    /// Reads for the form of answer that the question wants.
    async fn read(&mut self) -> Result<Told, Error> {
        if self.shown.is_empty() {
            return Ok(Told::Read(Judged::of(nothing_to_read())));
        }
        if !self.is_english() {
            return Ok(self.quotes(NOT_ENGLISH).await);
        }
        let judged = match Form::of(self.question) {
            Form::One => self.read_for_words(false).await?,
            Form::Several => self.read_for_words(true).await?,
            Form::Choice { options, rest } => match self.choose(&options, &rest).await? {
                Some(judged) => judged,
                None => return Ok(self.quotes(NO_OPTION).await),
            },
            Form::Explained => self.explain().await?,
            Form::YesOrNo => {
                let said = match self.yes_or_no() {
                    Some(judged) if self.has_reader().await => Some(judged),
                    _ => self.same().await?,
                };
                let Some(judged) = said else {
                    return Ok(self.quotes(NOT_IN_AS_MANY_WORDS).await);
                };
                judged
            }
        };
        Ok(Told::Read(judged))
    }

    /// Reads for the words that answer, directly and by the question's steps.
    async fn read_for_words(&mut self, is_several: bool) -> Result<Judged, Error> {
        let mut found = self.joined_answers(SURE).await?;
        let Some(steps) = self.steps().await? else {
            return Ok(self.told(&found, is_several, &[], None));
        };
        // What a step leads to is on the way, and not the end.
        found.retain(|candidate| !steps.taken.iter().any(|taken| taken.says_same(candidate)));
        let best = |found: &[Candidate]| found.first().map_or(0.0, |best| best.probability);
        let by_steps = best(&steps.found);
        if by_steps >= LED_ANSWERED || by_steps > best(&found) {
            return Ok(self.told(&steps.found, is_several, &steps.taken, Some(&steps.asked)));
        }
        Ok(self.told(&found, is_several, &[], Some(&steps.asked)))
    }

    /// Says the whole sentence that explains.
    async fn explain(&mut self) -> Result<Judged, Error> {
        let found = self.joined_answers(SURE).await?;
        let Some(best) = found.first().filter(|best| best.probability >= EXPLAINED) else {
            return Ok(self.refused(&found, None));
        };
        let place = best.places[0];
        let sentence = one_line(self.shown[place.passage].text(place.sentence));
        let items = vec![Item::of(best, sentence.clone())];
        Ok(self.answered(Said { text: sentence, items, threshold: EXPLAINED }, &[]))
    }

    /// Answers yes or no if a sentence does, and nothing else says the opposite at an unknown time.
    fn yes_or_no(&self) -> Option<Judged> {
        let asked = Asked::of(self.question)?;
        let mut items: Vec<Item> = Vec::new();
        for (passage, shown) in self.shown.iter().enumerate() {
            for &sentence in &shown.sentences {
                let Some(is_so) = asked.answer(shown.text(sentence)) else { continue };
                let words = if is_so { "Yes" } else { "No" }.to_owned();
                items.push(Item { passage, sentence, lead: None, words, probability: ENTAILED });
            }
        }
        let said = self.by_time(items)?;
        Some(self.answered(said, &[]))
    }

    /// Gives the question back to be answered by quotes.
    async fn quotes(&self, reason: &'static str) -> Told {
        let reason = if self.has_reader().await { reason } else { "" };
        Told::Quotes { reason, cost: self.cost() }
    }
}

/// Returns `None` in place of the error that there is no reader.
fn without_reader<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.reason() == NoReader::REASON => Ok(None),
        read => read.map(Some),
    }
}
