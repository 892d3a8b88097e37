//! Finds the sentence that describes an event that a question names.

use clew_text::Shape;

use super::compared::Compared;
use super::judge::{Support, names_missing};
use super::leaning::states_of_speaker;
use super::phrase::holds_any;
use super::question::{Question, WordSet};
use super::reckoning::Event;
use super::score::Weights;
use super::sentence::Speaker;
use super::verb::in_past;

/// Weights beside a cosine similarity of weight 1: of the share of an event's words, of containing
/// a word around it in the question, and of stating something, in general and of the speaker.
/// Events are phrases of few words, so each word counts for more than in a whole question.
const EVENT_SHARE: f32 = 0.5;
const EVENT_CONTEXT: f32 = 0.1;
const EVENT_STATED: f32 = 0.1;
/// Weight of a time in the sentence, which dates the event.
const EVENT_DATED: f32 = 0.1;
/// Weight of a word for a beginning, if the question asks about one.
const EVENT_BEGUN: f32 = 0.1;
const BEGINNINGS: [&str; 7] = ["start", "started", "starting", "began", "begun", "joined", "since"];

/// Verbs that questions use for anything that was done with a thing; the statement uses other
/// words.
const LIGHT: &str = "\
    attend attended bought buy did do event finish finished first get got had happened have \
    last made make meet met my participate participated purchase purchased purchasing receive \
    received saw see start started starting took visit visited";

/// The sentence that describes an event best.
pub(super) struct Found {
    /// Index of the sentence.
    pub(super) sentence: usize,
    /// Confidence that it describes the event, 0 to 1.
    pub(super) confidence: f32,
}

impl Compared<'_, '_> {
    /// Returns the sentence that describes `event` best, among those that no assistant says.
    pub(super) fn find(&self, event: &Event, cosines: &[f32]) -> Option<Found> {
        // "of" before the phrase makes its first word one within a sentence, so that a capital
        // marks a name.
        let (said, light) = without_light(&in_past(&event.text));
        let asked = Question::new(&format!("of {said}"));
        let context = Question::new(&format!("of {} {light}", in_past(&event.context)));
        let held: Vec<WordSet> = self.sentences.iter().map(|s| asked.words_in(s.text)).collect();
        let weights = Weights::among(&asked, &held);
        let mut best: Option<(f32, usize)> = None;
        for (index, sentence) in self.sentences.iter().enumerate() {
            let speaker = self.material.passages[sentence.passage].speaker;
            if speaker == Speaker::Assistant {
                continue;
            }
            let has_context = context.words_in(sentence.text) != WordSet::default();
            let is_dated = self.dated(event, sentence).is_some_and(|dated| dated.is_named());
            let is_begun = event.begins && holds_any(sentence.text, &BEGINNINGS);
            let flag = |holds: bool, counts: f32| if holds { counts } else { 0.0 };
            let rank = cosines[index]
                + EVENT_SHARE * weights.share(held[index])
                + flag(has_context, EVENT_CONTEXT)
                + flag(sentence.shape == Shape::Statement, EVENT_STATED)
                + flag(states_of_speaker(sentence), EVENT_STATED)
                + flag(is_dated, EVENT_DATED)
                + flag(is_begun, EVENT_BEGUN);
            if best.is_none_or(|(score, _)| rank > score) {
                best = Some((rank, index));
            }
        }
        let (_, sentence) = best?;
        let passage = self.sentences[sentence].passage;
        let read = asked.words_in(&self.material.passages[passage].evidence.text);
        let support = Support {
            best_cosine: cosines[sentence],
            best_share: weights.share(held[sentence]),
            names_missing: names_missing(&asked, read),
        };
        Some(Found { sentence, confidence: support.confidence() })
    }
}

/// Splits a phrase into its other words and its light verbs. If there are no other words, the whole
/// phrase counts as such.
fn without_light(phrase: &str) -> (String, String) {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let (light, rest): (Vec<&str>, Vec<&str>) = phrase
        .split_whitespace()
        .partition(|word| LIGHT.split(' ').any(|light| light == bare(word)));
    let rest = rest.join(" ");
    let says_something = !Question::new(&format!("of {rest}")).words().is_empty();
    if says_something { (rest, light.join(" ")) } else { (phrase.to_owned(), String::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_words_are_left_out_where_others_are_left() {
        let parted = |phrase: &str| without_light(phrase);
        assert_eq!(parted("I bought a harp"), ("I a harp".to_owned(), "bought".to_owned()));
        assert_eq!(parted("I started"), ("I started".to_owned(), String::new()));
        assert!(LIGHT.split(' ').is_sorted());
    }
}
