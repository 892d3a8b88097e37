//! Keys: the text that is embedded and indexed so that a value is found.

use std::slice::from_ref;

use clew_core::{
    AttributeName, Error, Expansion, KeyDesign, KeyPart, SpeakerRole, SummaryLevel, SummaryTask,
    Turn,
};
use clew_text::{key_phrases, one_line, summarise};

use crate::event::day;
use crate::{events, facts};

/// Number of key phrases of a value, as tried on BEAM (`BENCHMARKS.md`, section Keys).
const PHRASES: usize = 8;
/// Maximum size of a value's summary in bytes, as tried on BEAM.
const SUMMARY_BYTES: usize = 500;
/// Attribute that says which key of its turn a chunk is, in a corpus that names its keys.
const KEY: &str = "chat.key";

/// A key in the form of a document: its title and text are embedded and indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The expansions before the text, see [`expansion`]. May be empty.
    pub title: String,
    /// The text that is said. If the design leaves it out or nothing was said, all the expansions
    /// instead.
    pub text: String,
}

impl Key {
    /// Returns whether the key is empty, as in K = fact for a value that states none. Such a key
    /// must not become a document: a placeholder text would be similar to some question.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Returns the key of `value` by `design`, with a title of at most `max_title_bytes`. `before` is
/// the turn before it in the session.
pub fn key(
    value: &[Turn],
    before: Option<&Turn>,
    design: &KeyDesign,
    max_title_bytes: usize,
) -> Key {
    let all = || value.iter().map(Turn::line);
    let users = || by_people(value).map(Turn::line);
    let mut said: Vec<String> = Vec::new();
    for part in design.parts() {
        match part {
            KeyPart::Value => said.extend(all()),
            KeyPart::User => said.extend(users()),
            KeyPart::Expansion(_) => {}
        }
    }
    let (text, expansions) = (said.join("\n"), design.expansions());
    if text.trim().is_empty() {
        return Key { title: String::new(), text: expanded(value, before, &expansions) };
    }
    Key { title: expansion(value, before, &expansions, max_title_bytes), text }
}

/// Returns the expansions of `value` on one line of at most `max_bytes`, cut at a word. Empty if
/// there are none. `before` is the turn before it in the session.
///
/// It belongs in the title of the value's document, which is embedded and indexed with every chunk.
/// A chunker gives titles a quarter of the encoder's window, about 60 tokens. The most important
/// part therefore comes first, and a longer title helps only the text search for whole documents.
fn expansion(
    value: &[Turn],
    before: Option<&Turn>,
    expansions: &[Expansion],
    max_bytes: usize,
) -> String {
    shortened(expanded(value, before, expansions), max_bytes)
}

/// Returns the text by which a stored turn is found besides its own text: its day and its facts.
pub(crate) fn day_and_facts(turn: &Turn, facts: &[String], max_bytes: usize) -> String {
    let mut parts = vec![day_of(turn)];
    parts.extend(facts.iter().cloned());
    shortened(one_line(&parts.join(" ")), max_bytes)
}

/// Returns the facts in the result of [`day_and_facts`].
pub(crate) fn stated<'k>(turn: &Turn, day_and_facts: &'k str) -> &'k str {
    day_and_facts.strip_prefix(&day_of(turn)).unwrap_or(day_and_facts).trim_start()
}

/// Returns the expansions of a stored turn by `design`, on one line. `day_and_facts` is known.
pub(crate) fn made_of(turn: &Turn, day_and_facts: &str, design: &KeyDesign) -> String {
    let parts = design.expansions().into_iter().map(|expansion| match expansion {
        // The stored facts are used, whether a model or rules found them.
        Expansion::Fact => stated(turn, day_and_facts).to_owned(),
        other => expanded(from_ref(turn), None, &[other]),
    });
    one_line(&parts.collect::<Vec<_>>().join(" "))
}

fn day_of(turn: &Turn) -> String {
    expanded(from_ref(turn), None, &[Expansion::Date])
}

/// Returns the expansions of a value on one line.
fn expanded(value: &[Turn], before: Option<&Turn>, expansions: &[Expansion]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for expansion in expansions {
        match expansion {
            Expansion::Date => {
                let day = value.first().and_then(|turn| day(turn.time?));
                parts.extend(day.map(|day| format!("[{day}]")));
            }
            Expansion::Previous => {
                let before = before.filter(|turn| turn.role == SpeakerRole::Other);
                parts.extend(before.map(Turn::line));
            }
            Expansion::Fact => parts.extend(value.iter().flat_map(facts)),
            Expansion::Phrase => parts.extend(phrases(value)),
            Expansion::Summary => parts.push(summary(value)),
            Expansion::Event => parts.extend(value.iter().flat_map(events)),
        }
    }
    one_line(&parts.join(" "))
}

fn by_people(value: &[Turn]) -> impl Iterator<Item = &Turn> {
    value.iter().filter(|turn| turn.role != SpeakerRole::Assistant)
}

fn phrases(value: &[Turn]) -> Option<String> {
    let texts: Vec<&str> = by_people(value).map(|turn| turn.text.as_str()).collect();
    // Phrases do not extend over an empty line.
    let text = texts.join("\n\n");
    let phrases = key_phrases(&text, PHRASES);
    (!phrases.is_empty()).then(|| phrases.join("; "))
}

/// Returns the best sentences of what people say in `value`.
pub(crate) fn summary(value: &[Turn]) -> String {
    let parts = by_people(value).map(Turn::line).collect();
    let task = SummaryTask { level: SummaryLevel::Leaf, parts, max_bytes: SUMMARY_BYTES };
    summarise(&task).text
}

/// Returns the attribute of chunks that are this key of their turn.
///
/// # Errors
/// Returns no error as long as the fixed attribute name is valid.
pub(crate) fn of_key(key: &str) -> Result<(AttributeName, String), Error> {
    Ok((AttributeName::try_from(KEY.to_owned())?, key.to_owned()))
}

fn shortened(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let fitting = &text[..text.floor_char_boundary(max_bytes + 1)];
        let end = fitting.rfind(' ').unwrap_or_else(|| text.floor_char_boundary(max_bytes));
        text.truncate(end);
    }
    // Titles must not contain control characters. White space was already replaced by blanks.
    text.retain(|c| !c.is_control());
    text
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, Timestamp, TurnId};
    use proptest::prelude::*;

    use super::*;

    fn turn(number: u32, speaker: &str, text: &str) -> Turn {
        Turn {
            id: TurnId { session: "s".parse().unwrap(), number },
            speaker: speaker.to_owned(),
            role: SpeakerRole::Other,
            text: text.to_owned(),
            time: "2023-05-08T13:56:00Z".parse().ok(),
            attributes: Attributes::new(),
        }
    }

    fn design(name: &str) -> KeyDesign {
        name.parse().unwrap()
    }

    fn round() -> [Turn; 2] {
        let user = turn(1, "", "I bought a clay oven yesterday.\nHow hot is a clay oven?");
        let answer = turn(2, "", "I love them. Ovens of 2020 are hot.");
        [Turn { role: SpeakerRole::User, ..user }, Turn { role: SpeakerRole::Assistant, ..answer }]
    }

    #[test]
    fn each_expansion_goes_before_the_value() {
        let value = [turn(2, "Ada", "I do!\nI love them."), turn(3, "Bo", "Nice.")];
        let before = turn(1, "Bo", "You keep\nbees?");
        for (name, expected) in [
            ("value", ""),
            ("date+value", "[8 May 2023]"),
            ("value+date", "[8 May 2023]"),
            ("previous+value", "Bo: You keep bees?"),
            ("fact+value", "Ada love them."),
            ("fact+user+date", "Ada love them. [8 May 2023]"),
        ] {
            let key = key(&value, Some(&before), &design(name), 1024);
            assert_eq!(key.title, expected, "{name}");
            assert_eq!(key.text, "Ada: I do!\nI love them.\nBo: Nice.", "{name}");
        }
    }

    #[test]
    fn what_is_made_of_a_value_is_the_key_where_the_value_is_not() {
        let round = round();
        let said = "I bought a clay oven yesterday.\nHow hot is a clay oven?";
        for (name, expected) in [
            ("user", said),
            ("fact", "I bought a clay oven yesterday."),
            ("phrase", "clay oven yesterday; hot"),
            ("summary", "I bought a clay oven yesterday."),
            ("event", "[7 May 2023] I bought a clay oven yesterday."),
            ("date+fact", "[8 May 2023] I bought a clay oven yesterday."),
        ] {
            let key = key(&round, None, &design(name), 1024);
            assert_eq!((key.title.as_str(), key.text.as_str()), ("", expected), "{name}");
        }
        let both = key(&round, None, &design("value+fact"), 1024);
        assert_eq!(both.text, format!("{said}\nI love them. Ovens of 2020 are hot."));
        assert_eq!(both.title, "I bought a clay oven yesterday.");
    }

    #[test]
    fn there_may_be_nothing_in_a_key() {
        let [_, answer] = round();
        for name in ["user", "fact", "phrase", "summary", "event", "previous", "user+fact"] {
            assert!(key(from_ref(&answer), None, &design(name), 1024).is_empty(), "{name}");
        }
        assert!(key(&[], None, &KeyDesign::default(), 1024).is_empty());
        let dated = key(from_ref(&answer), None, &design("user+date"), 1024);
        assert_eq!(dated.text, "[8 May 2023]");
    }

    #[test]
    fn long_expansions_are_cut_at_a_word_but_not_where_they_are_the_key() {
        let value = [turn(1, "Ada", "I keep seven hives.")];
        for (max_bytes, expected) in [
            (21, "Ada keep seven hives."),
            (20, "Ada keep seven"),
            (14, "Ada keep seven"),
            (13, "Ada keep"),
            (2, "Ad"),
            (0, ""),
        ] {
            assert_eq!(expansion(&value, None, &[Expansion::Fact], max_bytes), expected);
            assert_eq!(key(&value, None, &design("value+fact"), max_bytes).title, expected);
            let alone = key(&value, None, &design("fact"), max_bytes);
            assert_eq!(alone.text, "Ada keep seven hives.");
        }
    }

    proptest! {
        #[test]
        fn expansions_are_titles(
            text in "\\PC{0,60}|[ab. \u{0}\u{85}é]{0,60}|(I saw it yesterday. ?){0,3}",
            max_bytes in 0usize..80,
            micros: i64,
        ) {
            let time = Some(Timestamp::from_micros(micros));
            let turn = Turn { time, ..turn(1, "", &text) };
            let all = KeyPart::ALL.map(KeyPart::as_str).join("+");
            let key = key(from_ref(&turn), Some(&turn), &design(&all), max_bytes);
            prop_assert!(key.title.len() <= max_bytes);
            prop_assert!(!key.title.contains(char::is_control));
        }

        #[test]
        fn the_value_is_in_every_key_that_names_it(
            texts in prop::collection::vec("[a-z. \n]{0,20}", 0..4),
            parts in prop::sample::subsequence(&KeyPart::ALL[1..], 0..7),
        ) {
            let turns: Vec<Turn> = texts.iter().map(|text| turn(1, "", text)).collect();
            let names: Vec<&str> = parts.iter().map(|part| part.as_str()).chain(["value"]).collect();
            let key = key(&turns, None, &design(&names.join("+")), 1024);
            if texts.iter().any(|text| !text.trim().is_empty()) {
                prop_assert!(key.text.ends_with(&texts.join("\n")));
            }
        }
    }
}
