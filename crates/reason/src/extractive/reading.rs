//! Makes a reading from a compared question, by the question's matter.

use clew_chat::time::{Moment, asked_about};
use clew_core::{Assignment, Citation, Reading};

use super::compared::Compared;
use super::compose::{compose, quote};
use super::counting::{Counted, Counting, Sum, Told};
use super::event::Found;
use super::joined;
use super::judge::{Support, THRESHOLD, names_missing};
use super::judged::Ruled;
use super::leaning::states_of_speaker;
use super::matter::Matter;
use super::question::{Question, WordSet};
use super::reckoning::{Dated, Event, Reckoning, dated};
use super::score::{self, Weights};
use super::sentence::{Sentence, Speaker};

/// Minimum confidence at which a user's statements about themselves are returned to a request for
/// advice: they need not answer it, only bear on it.
const ADVICE_THRESHOLD: f32 = 0.15;

impl<'r, 'a> Compared<'r, 'a> {
    /// Returns the reading by the rules for the matter, if they apply.
    pub(super) fn ruled(&self, matter: &Matter) -> Option<Ruled> {
        match matter {
            Matter::Reckoning(reckoning) => {
                let yields = matches!(reckoning, Reckoning::When { .. });
                Some(Ruled { reading: self.reckoned(reckoning)?, yields })
            }
            Matter::Counting(counting) => self.counted(counting),
            Matter::Advice => Some(Ruled { reading: self.advised()?, yields: false }),
            Matter::Recollection => {
                let yields = !self.leaning.asks_for_item();
                Some(Ruled { reading: self.quoted(None), yields })
            }
            Matter::Fact => None,
        }
    }

    /// Returns the sentences that answer, beginning with the sentence `leads` if it is given.
    pub(super) fn quoted(&self, leads: Option<usize>) -> Reading {
        let is_sought = |s: &Sentence<'_>| self.leaning.is_sought(self.material, s);
        let is_told = self.sentences.iter().any(|sentence| is_sought(sentence));
        let support = self.support(self.sentences, &self.cosines[0], is_told);
        let confidence = support.confidence();
        let citations = if confidence >= THRESHOLD {
            let mut ranked = self.ranked();
            if is_told {
                ranked.retain(|(sentence, _)| is_sought(sentence));
            }
            if let Some(leads) = leads.map(|leads| self.sentences[leads]) {
                let best = ranked.first().map_or(0.0, |(_, score)| *score);
                ranked.retain(|(sentence, _)| !std::ptr::eq(*sentence, leads));
                ranked.insert(0, (leads, best));
            }
            compose(self.material, &ranked)
        } else {
            Vec::new()
        };
        Reading {
            confidence,
            threshold: THRESHOLD,
            rationale: support.rationale(self.question, self.material),
            text: joined(&citations),
            citations,
            sentences: self.sentences.len(),
            cost: self.cost,
        }
    }

    /// Computes the support of `sentences` for an answer. With `by_passage`, the words of their
    /// passages count as theirs: a turn need not repeat its topic in each sentence.
    fn support(&self, sentences: &[&Sentence<'_>], cosines: &[f32], by_passage: bool) -> Support {
        let support = Support::new(self.question, self.material, self.weights, sentences, cosines);
        let of_passage = |sentence: &&Sentence<'_>| {
            self.weights.share(self.material.passages[sentence.passage].words)
        };
        let share = sentences.iter().map(of_passage).fold(support.best_share, f32::max);
        if by_passage { Support { best_share: share, ..support } } else { support }
    }

    fn ranked(&self) -> Vec<(&'r Sentence<'a>, f32)> {
        let cosines = &self.cosines[0];
        score::ranked(self.material, self.weights, self.sentences, cosines, self.leaning)
    }

    /// Returns `said`, followed by the quotes it is based on.
    fn said(&self, said: &str, sentences: &[usize], confidence: f32) -> Reading {
        let mut citations: Vec<Citation> = Vec::new();
        for &index in sentences {
            let citation = quote(self.material, self.sentences[index]);
            if !citations.contains(&citation) {
                citations.push(citation);
            }
        }
        Reading {
            confidence,
            threshold: THRESHOLD,
            rationale: format!("reckoned from {} statements", citations.len()),
            text: format!("{said} {}", joined(&citations)),
            citations,
            sentences: self.sentences.len(),
            cost: self.cost,
        }
    }

    /// Computes the answer from the days of the events. If one of several events is not found,
    /// there is no answer.
    fn reckoned(&self, reckoning: &Reckoning) -> Option<Reading> {
        // Texts without times are not a memory of days: "Which was built first, A or B?" is read
        // like any question.
        if self.material.passages.iter().all(|passage| passage.evidence.event_time.is_none()) {
            return None;
        }
        let events = reckoning.events();
        let mut found: Vec<Found> = Vec::new();
        for (event, cosines) in events.iter().zip(&self.cosines[1..]) {
            found.push(self.find(event, cosines)?);
        }
        let confidence = found.iter().map(|found| found.confidence).fold(1.0, f32::min);
        let is_known = confidence >= THRESHOLD;
        let days: Option<Vec<Dated>> = events
            .iter()
            .zip(&found)
            .map(|(event, found)| self.dated(event, self.sentences[found.sentence]))
            .collect();
        let now = self.assignment.asked_at.map(|time| Dated::at(time).first_day());
        match reckoning {
            Reckoning::When { .. } if !is_known => return None,
            _ if !is_known => {
                let missing = events.iter().zip(&found).find(|(_, f)| f.confidence < THRESHOLD);
                let missing = missing.map_or("", |(event, _)| event.text.as_str());
                return Some(Reading {
                    confidence,
                    threshold: THRESHOLD,
                    rationale: format!("nothing tells of {missing:?}"),
                    text: String::new(),
                    citations: Vec::new(),
                    sentences: self.sentences.len(),
                    cost: self.cost,
                });
            }
            _ => {}
        }
        let said = reckoning.told(&days?, now)?;
        let sentences: Vec<usize> = found.iter().map(|found| found.sentence).collect();
        Some(self.said(&said, &sentences, confidence))
    }

    /// Returns the days of the event that a sentence describes.
    pub(super) fn dated(&self, event: &Event, sentence: &Sentence<'_>) -> Option<Dated> {
        let told_at = self.material.passages[sentence.passage].evidence.event_time;
        dated(sentence.text, event, told_at, self.assignment.asked_at)
    }

    /// Counts or adds up, or quotes the statement that says the number.
    fn counted(&self, counting: &Counting) -> Option<Ruled> {
        // The price of something is often said one sentence after its name.
        let by_passage = match counting {
            Counting::Sum(sum) if !sum.parts.is_empty() => {
                return self.added(sum).map(|reading| Ruled { reading, yields: false });
            }
            Counting::Sum(_) => true,
            Counting::Number(_) => false,
        };
        let confidence = self.support(self.sentences, &self.cosines[0], by_passage).confidence();
        if confidence < THRESHOLD {
            return None;
        }
        let ranked: Vec<usize> = self.counted_among(counting);
        let told: Vec<Told<'_>> = ranked.iter().map(|&index| self.told(index)).collect();
        match counting.counted(&told)? {
            Counted::Said(said) => {
                Some(Ruled { reading: self.quoted(Some(ranked[said])), yields: true })
            }
            Counted::Made(said, which) => {
                let which: Vec<usize> = which.into_iter().map(|place| ranked[place]).collect();
                Some(Ruled { reading: self.said(&said, &which, confidence), yields: false })
            }
        }
    }

    /// Returns the sentences that may be counted, best first: statements of the user, or of anyone
    /// if no speaker is known, within the time that the question asks about.
    fn counted_among(&self, counting: &Counting) -> Vec<usize> {
        let Assignment { question, asked_at, .. } = *self.assignment;
        let moment = asked_at.and_then(|time| Moment::try_new(time, 0).ok());
        let range = moment.and_then(|moment| asked_about(question, moment));
        let event = match counting {
            Counting::Number(things) => things.written.clone(),
            Counting::Sum(sum) => sum.written.clone(),
        };
        let event = Event { text: event, ..Event::default() };
        let is_in_range = |sentence: &Sentence<'_>| {
            let Some(range) = range else { return true };
            self.dated(&event, sentence).is_none_or(|dated| dated.overlaps(range))
        };
        let place = |sentence: &Sentence<'_>| {
            self.sentences.iter().position(|other| std::ptr::eq(*other, sentence))
        };
        self.ranked()
            .into_iter()
            .filter(|(sentence, _)| {
                let speaker = self.material.passages[sentence.passage].speaker;
                speaker != Speaker::Assistant
                    && states_of_speaker(sentence)
                    && is_in_range(sentence)
            })
            .filter_map(|(sentence, _)| place(sentence))
            .collect()
    }

    fn told(&self, index: usize) -> Told<'_> {
        let sentence = self.sentences[index];
        Told {
            text: sentence.text,
            passage: &self.material.passages[sentence.passage].evidence.text,
            day: self.dated(&Event::default(), sentence),
            preference: self.leaning.of_time(self.material, sentence),
        }
    }

    /// Adds up the prices of the things that a sum names: of each, the amount in a turn that
    /// mentions it.
    fn added(&self, sum: &Sum) -> Option<Reading> {
        let mut which: Vec<usize> = Vec::new();
        let mut confidence = 1.0f32;
        for (part, cosines) in sum.parts.iter().zip(&self.cosines[1..]) {
            let words = Question::new(&format!("of {part}"));
            let read =
                |passage: usize| words.words_in(&self.material.passages[passage].evidence.text);
            let held: Vec<WordSet> = self.sentences.iter().map(|s| read(s.passage)).collect();
            let weights = Weights::among(&words, &held);
            // The best sentence of each passage counts, because the amount may be in another
            // sentence.
            let near = |passage: usize| {
                let of_passage = self.sentences.iter().zip(cosines);
                let of_passage = of_passage.filter(|(sentence, _)| sentence.passage == passage);
                of_passage.map(|(_, cosine)| *cosine).fold(-1.0, f32::max)
            };
            let support = |passage: usize| Support {
                best_cosine: near(passage),
                best_share: weights.share(read(passage)),
                names_missing: names_missing(&words, read(passage)),
            };
            let mut best: Option<(f32, usize)> = None;
            for (index, sentence) in self.sentences.iter().enumerate() {
                let speaker = self.material.passages[sentence.passage].speaker;
                if speaker == Speaker::Assistant
                    || Sum::amount(sentence.text).is_none()
                    || !sum.fits(sentence.text)
                {
                    continue;
                }
                // Between two sentences of one turn, their own similarity decides.
                let fits = support(sentence.passage).confidence();
                if best.is_none_or(|(other, at)| {
                    fits > other || fits == other && cosines[index] > cosines[at]
                }) {
                    best = Some((fits, index));
                }
            }
            let (fits, index) = best?;
            confidence = confidence.min(fits);
            which.push(index);
        }
        let is_distinct = which.windows(2).all(|pair| pair[0] != pair[1]);
        let told: Vec<Told<'_>> = which.iter().map(|&index| self.told(index)).collect();
        let all: Vec<usize> = (0..told.len()).collect();
        (is_distinct && confidence >= THRESHOLD)
            .then(|| self.said(&sum.total(&told, &all), &which, confidence))
    }

    /// Returns what users said of themselves that bears on the advice.
    fn advised(&self) -> Option<Reading> {
        let is_own = |sentence: &Sentence<'_>| self.leaning.is_sought(self.material, sentence);
        let own: Vec<(&Sentence<'a>, f32)> = (self.sentences.iter().zip(&self.cosines[0]))
            .filter(|(sentence, _)| is_own(sentence))
            .map(|(sentence, cosine)| (*sentence, *cosine))
            .collect();
        if own.is_empty() {
            return None;
        }
        let (sentences, cosines): (Vec<&Sentence<'_>>, Vec<f32>) = own.into_iter().unzip();
        let support = self.support(&sentences, &cosines, true);
        let confidence = support.confidence();
        let mut reading = Reading {
            confidence,
            threshold: ADVICE_THRESHOLD,
            rationale: support.rationale(self.question, self.material),
            text: String::new(),
            citations: Vec::new(),
            sentences: self.sentences.len(),
            cost: self.cost,
        };
        if confidence >= ADVICE_THRESHOLD {
            let mut ranked = self.ranked();
            ranked.retain(|(sentence, _)| is_own(sentence));
            reading.citations = compose(self.material, &ranked);
            reading.text = format!("You said: {}", joined(&reading.citations));
        }
        Some(reading)
    }
}
