//! Preferences among sentences that fit a question about equally well: by speaker and by time.

use clew_chat::is_in_first_person;
use clew_chat::time::{Moment, asked_about, closeness};
use clew_core::{TimeRange, Timestamp};
use clew_text::{Shape, spelt_ordinal};

use super::matter::Matter;
use super::phrase::holds_any;
use super::sentence::{Material, Sentence, Speaker};

/// Expressions that ask about the present, and about the past.
const NOW: [&str; 9] = [
    "now",
    "currently",
    "current",
    "latest",
    "most recent",
    "most recently",
    "these days",
    "so far",
    "nowadays",
];
const BEFORE: [&str; 9] = [
    "earlier",
    "previously",
    "previous",
    "initially",
    "initial",
    "originally",
    "used to",
    "formerly",
    "at first",
];

/// Weights of time, speaker and list item beside a cosine similarity of weight 1. They decide among
/// near equals: a sentence that fits clearly better comes before a newer one.
const NEWER: f32 = 0.05;
const ASKED_TIME: f32 = 0.12;
const ASKED_SPEAKER: f32 = 0.2;
const ITEM: f32 = 0.3;
const ASKED_RANGE: f32 = 0.15;
/// Factor for the probability that words answer which somebody else said than the question asks
/// about, or at quite another time.
const UNSUITED: f32 = 0.5;

/// Preferences of a question among about equal sentences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaning {
    /// Weight of the newest passage over the oldest; negative if the oldest is preferred.
    newest: f32,
    /// Speaker that the question asks about.
    speaker: Option<Speaker>,
    /// Number of the list item that the question asks for.
    item: Option<u32>,
    /// Time that the question asks about.
    range: Option<TimeRange>,
}

impl Leaning {
    /// Returns the preferences of `question`. If the time of the question is not known, the newest
    /// is preferred only if the question says so.
    pub(crate) fn of(question: &str, matter: &Matter, asked_at: Option<Timestamp>) -> Self {
        let newest = match matter {
            Matter::Advice | Matter::Recollection => 0.0,
            Matter::Fact | Matter::Counting(_) | Matter::Reckoning(_) => {
                match (holds_any(question, &NOW), holds_any(question, &BEFORE)) {
                    (true, false) => ASKED_TIME,
                    (false, true) => -ASKED_TIME,
                    _ if asked_at.is_some() => NEWER,
                    _ => 0.0,
                }
            }
        };
        let (speaker, item) = match matter {
            Matter::Advice => (Some(Speaker::User), None),
            Matter::Recollection => (Some(Speaker::Assistant), ordinal(question)),
            Matter::Fact | Matter::Counting(_) | Matter::Reckoning(_) => (None, None),
        };
        let range = match matter {
            Matter::Fact => asked_at
                .and_then(|time| Moment::try_new(time, 0).ok())
                .and_then(|moment| asked_about(question, moment)),
            Matter::Advice | Matter::Recollection | Matter::Counting(_) | Matter::Reckoning(_) => {
                None
            }
        };
        // A question about a time wants what happened then, not what is newest.
        let newest = if range.is_some() { 0.0 } else { newest };
        Self { newest, speaker, item, range }
    }

    /// Returns what the preferences add to the score of a sentence.
    pub(crate) fn score(&self, material: &Material<'_>, sentence: &Sentence<'_>) -> f32 {
        let speaker = if self.is_sought(material, sentence) { ASKED_SPEAKER } else { 0.0 };
        let is_item = self.item.is_some_and(|number| begins_with(sentence.text, number));
        let item = if is_item { ITEM } else { 0.0 };
        let time = material.passages[sentence.passage].evidence.event_time;
        let near = self.range.zip(time).map_or(0.0, |(range, time)| closeness(range, time));
        speaker + item + ASKED_RANGE * near + self.of_time(material, sentence)
    }

    /// Returns whether the question asks for an item of a list by its number.
    pub(crate) fn asks_for_item(&self) -> bool {
        self.item.is_some()
    }

    /// Returns whether the question asks about the present, so that only the newest of several
    /// answers counts.
    pub(crate) fn asks_for_newest(&self) -> bool {
        self.newest >= ASKED_TIME
    }

    /// Returns whether the question asks about the past, so that only the oldest of several answers
    /// counts.
    pub(crate) fn asks_for_oldest(&self) -> bool {
        self.newest <= -ASKED_TIME
    }

    /// Returns how well a passage of this speaker and time suits the question, from a quarter to 1.
    pub(crate) fn suits(&self, speaker: Speaker, time: Option<Timestamp>) -> f32 {
        let by_speaker = match (self.speaker, speaker) {
            (None, _) | (_, Speaker::Other) => 1.0,
            (Some(sought), speaker) => {
                if sought == speaker {
                    1.0
                } else {
                    UNSUITED
                }
            }
        };
        let near = self.range.zip(time).map_or(1.0, |(range, time)| closeness(range, time));
        by_speaker * (UNSUITED + (1.0 - UNSUITED) * near)
    }

    /// Returns what the time of a sentence adds to its score.
    pub(crate) fn of_time(&self, material: &Material<'_>, sentence: &Sentence<'_>) -> f32 {
        self.newest * newness(material, sentence.passage)
    }

    /// Returns whether the sentence is by the speaker that the question asks about. A sentence of
    /// the user must also state something of the user.
    pub(crate) fn is_sought(&self, material: &Material<'_>, sentence: &Sentence<'_>) -> bool {
        let speaker = material.passages[sentence.passage].speaker;
        self.speaker == Some(speaker)
            && match speaker {
                Speaker::User => states_of_speaker(sentence),
                Speaker::Assistant | Speaker::Other => true,
            }
    }
}

/// Returns whether the sentence states something of its speaker.
pub(crate) fn states_of_speaker(sentence: &Sentence<'_>) -> bool {
    sentence.shape == Shape::Statement && is_in_first_person(sentence.text)
}

/// Returns 0 for the oldest passages to 1 for the newest; 0 if there is no time.
fn newness(material: &Material<'_>, passage: usize) -> f32 {
    let times = || material.passages.iter().filter_map(|passage| passage.evidence.event_time);
    let (Some(oldest), Some(newest)) = (times().min(), times().max()) else { return 0.0 };
    let Some(time) = material.passages[passage].evidence.event_time else { return 0.0 };
    let (age, span) = (time.saturating_since(oldest), newest.saturating_since(oldest));
    if span.is_zero() { 0.0 } else { age.as_secs_f32() / span.as_secs_f32() }
}

/// Returns the number of an ordinal in the question, such as "the 7th" or "the fifth".
fn ordinal(question: &str) -> Option<u32> {
    let words = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let lower: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let number = |word: &String| {
        let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end))?;
        digits.parse::<u32>().ok()
    };
    let spelt = |word: &String| spelt_ordinal(word);
    lower.iter().find_map(number).or_else(|| lower.iter().find_map(spelt))
}

/// Returns whether a sentence is the list item with that number.
fn begins_with(sentence: &str, number: u32) -> bool {
    let rest = sentence.trim_start_matches(['#', '*', '-', ' ', '(']);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse() == Ok(number) && rest[digits..].starts_with(['.', ')', ':'])
}

#[cfg(test)]
mod tests {
    use clew_core::Evidence;

    use super::*;
    use crate::extractive::fixtures::passage;
    use crate::extractive::question::Question;

    /// Returns the sentences that a question prefers, if it prefers any.
    fn leaned_to(question: &str, asked_at: &str, evidence: &[Evidence]) -> Vec<String> {
        let matter = Matter::of(question);
        let leaning = Leaning::of(question, &matter, asked_at.parse().ok());
        let material = Material::new(&Question::new(question), evidence);
        let score = |sentence: &Sentence<'_>| leaning.score(&material, sentence);
        let best = material.sentences.iter().map(score).fold(f32::MIN, f32::max);
        let least = material.sentences.iter().map(score).fold(f32::MAX, f32::min);
        let is_best = |sentence: &&Sentence<'_>| best > least && score(sentence) == best;
        let texts = material.sentences.iter().filter(is_best);
        texts.map(|sentence| sentence.text.to_owned()).collect()
    }

    #[test]
    fn the_newest_is_preferred_where_there_is_a_now_and_the_oldest_where_before_is_meant() {
        let dated = |document, time: &str, text| Evidence {
            event_time: time.parse().ok(),
            ..passage(document, 0, text, 0.5)
        };
        let (old, new) = ("I own three lutes today.", "I own five lutes today.");
        let evidence = [dated("a", "2024-05-01", old), dated("b", "2024-05-20", new)];
        for (question, asked_at, expected) in [
            ("What do I own?", "2024-06-01", vec![new]),
            ("What do I own?", "", vec![]),
            ("What do I own now?", "", vec![new]),
            ("What did I previously own?", "2024-06-01", vec![old]),
            ("What did I own a month ago?", "2024-06-01", vec![old]),
        ] {
            assert_eq!(leaned_to(question, asked_at, &evidence), expected, "{question}");
        }
    }

    #[test]
    fn who_said_it_and_when_suits_a_question_or_not() {
        let of = |question: &str, asked_at: &str| {
            Leaning::of(question, &Matter::of(question), asked_at.parse().ok())
        };
        let asked = of("Which strings did you recommend?", "");
        assert_eq!(asked.suits(Speaker::Assistant, None), 1.0);
        assert_eq!(asked.suits(Speaker::User, None), UNSUITED);
        let asked = of("What did I eat yesterday?", "2024-06-02");
        let suits = |time: &str| asked.suits(Speaker::User, time.parse().ok());
        assert_eq!(suits("2024-06-01"), 1.0);
        assert!(suits("2024-05-01") < 0.6 && suits("2024-05-01") > UNSUITED);
        let which = |question| {
            let leaning = of(question, "2024-06-02");
            (leaning.asks_for_newest(), leaning.asks_for_oldest(), leaning.asks_for_item())
        };
        assert_eq!(which("What do I own now?"), (true, false, false));
        assert_eq!(which("What did I previously own?"), (false, true, false));
        assert_eq!(which("What do I own?"), (false, false, false));
        assert!(which("Remind me of the 2nd step that you mentioned.").2);
    }

    #[test]
    fn what_was_asked_of_the_assistant_is_sought_in_what_it_said() {
        let evidence = [
            passage("u", 0, "user: I want to restring my harp.", 0.5),
            passage(
                "a",
                0,
                "assistant: Tune the harp.\n1. Take nylon.\n2. Take steel strings.",
                0.5,
            ),
        ];
        let question = "Which strings did you recommend for my harp?";
        assert_eq!(leaned_to(question, "", &evidence).len(), 3);
        let question = "Can you remind me of the 2nd step that you recommended for my harp?";
        assert_eq!(leaned_to(question, "", &evidence), ["2. Take steel strings."]);
        let question = "Can you recommend strings for me?";
        assert_eq!(leaned_to(question, "", &evidence), ["I want to restring my harp."]);
    }
}
