//! Makes a reading of the words that were found.

use std::cmp::Reverse;
use std::ops::BitOr;

use clew_core::{Citation, Reading, Span};
use clew_text::{is_grammar_word, one_line, words};

use super::calibrated::{ANSWERED, LED_ANSWERED, NEAR};
use super::candidate::{Candidate, Place};
use super::day::days_meant;
use super::session::Session;
use super::shown::{Lead, holds_words};
use crate::extractive::judge::MAX_WORDS_TOLD;
use crate::extractive::judged::Judged;
use crate::extractive::question::{Question, WordSet};

/// Maximum number of parts of a list.
const MOST_PARTS: usize = 8;
/// Maximum number of answers that contradict each other.
const MOST_RIVALS: usize = 3;

/// A part of an answer.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Index of the passage that tells it, among those shown.
    pub(super) passage: usize,
    /// Span of the sentence that tells it, in the text of the passage's evidence.
    pub(super) sentence: Span,
    /// Sentence of another passage that leads to it.
    pub(super) lead: Option<Lead>,
    /// Words of the part.
    pub(super) words: String,
    /// Probability that they answer, 0 to 1.
    pub(super) probability: f32,
}

/// An answer with what tells it.
pub(super) struct Said {
    pub(super) text: String,
    /// Parts, in the order of the text; at least one.
    pub(super) items: Vec<Item>,
    /// Probability from which on it counts as the answer.
    pub(super) threshold: f32,
}

impl Item {
    /// Says `words` by the best place of `candidate`.
    pub(super) fn of(candidate: &Candidate, words: String) -> Self {
        let Place { passage, sentence, lead, .. } = candidate.places[0];
        Self { passage, sentence, lead, words, probability: candidate.probability }
    }
}

impl Session<'_, '_> {
    /// Makes the reading of what was `found`, best first, by way of `taken`. `next` is what to look
    /// for if that does not suffice.
    pub(super) fn told(
        &self,
        found: &[Candidate],
        is_several: bool,
        taken: &[Candidate],
        next: Option<&str>,
    ) -> Judged {
        let least = |it: &Candidate| if taken.is_empty() { it.least() } else { LED_ANSWERED };
        let mut sure: Vec<&Candidate> = Vec::new();
        for candidate in found.iter().filter(|it| it.probability >= least(it)) {
            if !sure.iter().any(|other| other.says_same(candidate)) {
                sure.push(candidate);
            }
        }
        let Some(best) = sure.first() else { return self.refused(found, next) };
        let mut said = if is_several { self.list(&sure) } else { self.one_or_rivals(best, &sure) };
        said.threshold = sure.iter().map(|it| least(it)).fold(said.threshold, f32::min);
        let way: Vec<Item> = taken.iter().map(|step| Item::of(step, step.text.clone())).collect();
        self.answered(said, &way)
    }

    /// Says all of `sure`, at least one, in the order of the passages and their texts.
    fn list(&self, sure: &[&Candidate]) -> Said {
        let mut parts: Vec<&Candidate> = sure.iter().take(MOST_PARTS).copied().collect();
        parts.sort_by_key(|part| (part.places[0].passage, part.places[0].span));
        let items: Vec<Item> = parts.into_iter().map(|part| self.item(part)).collect();
        let words: Vec<&str> = items.iter().map(|item| item.words.as_str()).collect();
        let text = match &words[..] {
            // A part that is a list itself would not be told from the others.
            parts if parts.iter().any(|part| part.contains([',', ';'])) => parts.join("; "),
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            parts => parts.concat(),
        };
        Said { text, items, threshold: ANSWERED }
    }

    /// Says the best answer, or all answers if passages of different documents contradict each
    /// other and the time of each is known. What contradicts speaks of all that is asked for and
    /// that the best one speaks of: "I also want to shoot better" does not contradict "My number
    /// one goal is to win".
    fn one_or_rivals(&self, best: &Candidate, sure: &[&Candidate]) -> Said {
        let documents = |it: &Candidate| -> Vec<&str> {
            let document = |place: &Place| self.shown[place.passage].evidence.document_id.as_str();
            it.places.iter().map(document).collect()
        };
        let of_best = documents(best);
        let asked = Question::new(self.question);
        let about = |it: &Candidate| {
            let Place { passage, sentence, .. } = it.places[0];
            asked.words_in(self.shown[passage].text(sentence))
        };
        let about_best = about(best);
        let is_dated = |it: &Candidate| {
            it.places.iter().any(|place| self.shown[place.passage].day().is_some())
        };
        let is_rival = |other: &&&Candidate| {
            let is_apart = !documents(other).iter().any(|document| of_best.contains(document));
            is_dated(other) && is_apart && about_best.without(about(other)) == WordSet::default()
        };
        let rivals = sure.iter().filter(is_rival).take(MOST_RIVALS - 1).copied();
        let mut items: Vec<Item> = rivals.map(|rival| self.newest(rival)).collect();
        if !items.is_empty() && is_dated(best) {
            items.push(self.newest(best));
            if let Some(said) = self.by_time(items) {
                return said;
            }
        }
        let item = self.item(best);
        Said { text: item.words.clone(), items: vec![item], threshold: ANSWERED }
    }

    /// Says each of the different answers once, the newest first and with their days. Says only the
    /// newest if the question asks about the present, and the oldest if it asks about the past.
    /// Returns `None` if there are none, or if answers differ and a day is not known.
    pub(super) fn by_time(&self, mut items: Vec<Item>) -> Option<Said> {
        items.sort_by_key(|item| Reverse(self.shown[item.passage].evidence.event_time));
        let mut differing: Vec<Item> = Vec::new();
        for item in items {
            if !differing.iter().any(|other| other.words == item.words) {
                differing.push(item);
            }
        }
        let days: Vec<Option<String>> =
            differing.iter().map(|item| self.shown[item.passage].day()).collect();
        if differing.len() > 1 && days.contains(&None) {
            return None;
        }
        if self.leaning.asks_for_newest() {
            differing.truncate(1);
        } else if self.leaning.asks_for_oldest() {
            differing.drain(..differing.len().saturating_sub(1));
        }
        let text = match &differing[..] {
            [] => return None,
            [one] => one.words.clone(),
            all => {
                let days = days.into_iter().flatten();
                let each = all.iter().zip(days).map(|(it, day)| format!("{} ({day})", it.words));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        Some(Said { text, items: differing, threshold: ANSWERED })
    }

    /// Makes the reading of an answer, by way of `way`.
    pub(super) fn answered(&self, said: Said, way: &[Item]) -> Judged {
        let Said { text, items, threshold } = said;
        let confidence = items.iter().map(|item| item.probability).fold(0.0, f32::max);
        let mut citations: Vec<Citation> = Vec::new();
        for item in items.iter().chain(way) {
            let told = Lead { passage: item.passage, sentence: item.sentence };
            for Lead { passage, sentence } in [Some(told), item.lead].into_iter().flatten() {
                let citation = self.shown[passage].citation(sentence);
                if !citations.contains(&citation) {
                    citations.push(citation);
                }
            }
        }
        let mut rationale = format!("answered with a probability of {confidence:.2}");
        if !way.is_empty() {
            let words: Vec<String> = way.iter().map(|item| format!("“{}”", item.words)).collect();
            rationale = format!("{rationale}, by way of {}", words.join(", "));
        }
        let found = Reading { confidence, rationale, text, citations, ..self.nothing() };
        Judged::of(Reading { threshold, ..found })
    }

    /// Makes the reading that nothing found is likely enough.
    pub(super) fn refused(&self, found: &[Candidate], next: Option<&str>) -> Judged {
        let confidence = found.first().map_or(0.0, |best| best.probability);
        let mut rationale = format!("no answer is likelier than {confidence:.2}");
        let open: Vec<String> =
            self.uncovered(found).iter().map(|word| format!("{word:?}")).collect();
        if !open.is_empty() {
            rationale = format!("{rationale}, missing: {}", open.join(", "));
        }
        let missing = next.map_or_else(|| self.missing(found).join(", "), str::to_owned);
        let reading = Reading { confidence, rationale, ..self.nothing() };
        Judged { reading, missing: Some(missing) }
    }

    fn nothing(&self) -> Reading {
        Reading {
            confidence: 0.0,
            threshold: ANSWERED,
            rationale: String::new(),
            text: String::new(),
            citations: Vec::new(),
            sentences: self.shown.iter().map(|shown| shown.sentences.len()).sum(),
            cost: self.cost(),
        }
    }

    /// Returns what to look for next: the name of somebody or something that was found and is not
    /// read of yet, and the words that nothing found covers.
    pub(super) fn missing(&self, found: &[Candidate]) -> Vec<String> {
        let near = found.first().filter(|best| best.probability >= NEAR);
        let name = near.map(|best| one_line(&best.text)).filter(|name| self.is_unread(name));
        let mut missing: Vec<String> = name.into_iter().collect();
        missing.extend(self.uncovered(found));
        missing.truncate(MAX_WORDS_TOLD);
        missing
    }

    /// Returns the words of the question that no sentence with likely words covers, nor the title
    /// above it; if no words are likely, those that nothing read covers.
    fn uncovered(&self, found: &[Candidate]) -> Vec<String> {
        let asked = Question::new(self.question);
        let places = found.iter().flat_map(|candidate| &candidate.places);
        let near = places.filter(|place| place.probability >= NEAR).map(|place| {
            let shown = &self.shown[place.passage];
            let lead = place.lead.map_or_else(String::new, |lead| lead.text(&self.shown));
            let texts = [shown.text(place.sentence), &shown.evidence.title, &lead];
            texts
                .map(|text| asked.words_in(text))
                .into_iter()
                .fold(WordSet::default(), WordSet::bitor)
        });
        let covered = near.reduce(|all, some| all | some).unwrap_or_else(|| {
            let read = self.shown.iter().map(|shown| {
                asked.words_in(&shown.evidence.text) | asked.words_in(&shown.evidence.title)
            });
            read.fold(WordSet::default(), |all, some| all | some)
        });
        asked.written_without(covered, MAX_WORDS_TOLD)
    }

    /// Returns whether `text` looks like a name that is neither in the question nor the subject of
    /// a passage.
    fn is_unread(&self, text: &str) -> bool {
        let is_capital = |word: &str| {
            word.starts_with(char::is_uppercase) || is_grammar_word(&word.to_lowercase())
        };
        let mut written = words(text).filter_map(|word| word.of(text));
        let is_name = text.contains(char::is_uppercase) && written.all(is_capital);
        let has_title = || self.shown.iter().any(|it| holds_words(&it.evidence.title, text));
        is_name && !holds_words(self.question, text) && !has_title()
    }

    /// Says a candidate by its best place.
    fn item(&self, candidate: &Candidate) -> Item {
        self.item_at(candidate, &candidate.places[0])
    }

    /// Says a candidate by its newest place.
    fn newest(&self, candidate: &Candidate) -> Item {
        let time = |place: &&Place| self.shown[place.passage].evidence.event_time;
        // Of equal times the first counts, which is the better place.
        let newest = candidate.places.iter().rev().max_by_key(time);
        self.item_at(candidate, newest.unwrap_or(&candidate.places[0]))
    }

    /// Says a candidate by a place. A time such as "yesterday" becomes the days that it means.
    fn item_at(&self, candidate: &Candidate, place: &Place) -> Item {
        let Place { passage, span, sentence, lead, .. } = *place;
        let shown = &self.shown[passage];
        let within = Span::new(span.start - sentence.start, span.end - sentence.start);
        let told_at = shown.evidence.event_time;
        let days = told_at.and_then(|told_at| days_meant(shown.text(sentence), within, told_at));
        let words = days.unwrap_or_else(|| one_line(&candidate.text));
        Item { passage, sentence, lead, words, probability: candidate.probability }
    }
}
