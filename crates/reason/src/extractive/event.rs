//! Finding the sentence that tells of an event which a question names.

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

/// What the share of an event's words counts beside a cosine similarity, that of the words around it in the
/// question, and stating something of the speaker. Events are phrases of few words, so each tells more than in
/// a whole question.
const EVENT_SHARE: f32 = 0.5;
const EVENT_CONTEXT: f32 = 0.1;
const EVENT_STATED: f32 = 0.1;
/// What a time in the sentence counts: it is the one that dates the event.
const EVENT_DATED: f32 = 0.1;
/// What a word of beginning counts where a beginning is meant.
const EVENT_BEGUN: f32 = 0.1;
const BEGINNINGS: [&str; 7] = ["start", "started", "starting", "began", "begun", "joined", "since"];

/// Words that questions put for whatever was done with a thing, where it is told in other words.
const LIGHT: &str = "\
    attend attended bought buy did do event finish finished first get got had happened have \
    last made make meet met my participate participated purchase purchased purchasing receive \
    received saw see start started starting took visit visited";

/// The sentence that tells of an event best.
pub(super) struct Found {
    /// Its index.
    pub(super) sentence: usize,
    /// How sure it is that it tells of it, 0 to 1.
    pub(super) confidence: f32,
}

impl Compared<'_, '_> {
    /// The sentence that tells of `event` best, of those that no assistant says.
    pub(super) fn find(&self, event: &Event, cosines: &[f32]) -> Option<Found> {
        // A phrase of the middle of a sentence: its first capital tells a name.
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

/// A phrase without its light words, and those; all of it if there are no others.
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
