//! Keys: the text that is embedded and indexed so that a value is found.

use std::fmt;
use std::slice::from_ref;
use std::str::FromStr;

use clew_core::{Error, SummaryLevel, SummaryTask, Violations};
use clew_text::{key_phrases, one_line, summarise};

use crate::event::day;
use crate::{SpeakerRole, Turn, events, facts};

/// Number of key phrases of a value, as tried on BEAM (`BENCHMARKS.md`, section Keys).
const PHRASES: usize = 8;
/// Maximum size of a value's summary in bytes, as tried on BEAM.
const SUMMARY_BYTES: usize = 500;

/// A text derived from a value that precedes the value in its key.
///
/// All except the date and the turn before are derived from what users and other people say, as in
/// the paper (appendix D), and without a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The day of the first turn, such as `[8 May 2023]`, because questions name months.
    Date,
    /// The turn before, among several people: it explains words such as "that" and "yes". Empty for
    /// a user and an assistant, because their rounds contain it.
    Previous,
    /// The statements of speakers about themselves ([`facts`]).
    Fact,
    /// The subject of the value in a few key phrases ([`key_phrases`]).
    Phrase,
    /// The best sentences of the value ([`summarise`]).
    Summary,
    /// Events with their dates ([`events`]).
    Event,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The value itself: everything that is said.
    Value,
    /// Everything that is said except by assistants. In the paper, the value as a key (section
    /// 5.1).
    User,
    /// A text derived from the value.
    Expansion(Expansion),
}

const PARTS: [(&str, KeyPart); 8] = [
    ("value", KeyPart::Value),
    ("user", KeyPart::User),
    ("date", KeyPart::Expansion(Expansion::Date)),
    ("previous", KeyPart::Expansion(Expansion::Previous)),
    ("fact", KeyPart::Expansion(Expansion::Fact)),
    ("phrase", KeyPart::Expansion(Expansion::Phrase)),
    ("summary", KeyPart::Expansion(Expansion::Summary)),
    ("event", KeyPart::Expansion(Expansion::Event)),
];
const DEFAULT: &str = "default";

/// Design of keys: the parts of a value's key. K = V, K = fact, K = V + fact and so on
/// (LongMemEval, section 5.3, table 3).
///
/// Its name consists of the names of its parts joined by `+`, such as `value`, `fact` or
/// `value+fact`. Expansions precede what is said, whatever their order in the name. `default` is
/// another name of the best design for single turns.
///
/// Measured on hybrid scores as frac@5 / frac@10 of LoCoMo turns: `value` 57 / 68 %, `fact+value`
/// 62 / 71 %, `date+fact+value` 64 / 72 %, and the default, `date+previous+fact+value`, 71 / 80 %.
/// On rounds and sessions of LongMemEval, `fact+value` gains one to three points over `value`,
/// within the error of measurement. `BENCHMARKS.md`, section Keys, lists the other designs that
/// were tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDesign {
    /// The parts. Never empty, without repetition.
    parts: Vec<KeyPart>,
}

impl Default for KeyDesign {
    fn default() -> Self {
        let expansions = [Expansion::Date, Expansion::Previous, Expansion::Fact];
        let parts = expansions.map(KeyPart::Expansion).into_iter().chain([KeyPart::Value]);
        Self { parts: parts.collect() }
    }
}

impl KeyDesign {
    /// Returns the design of the value itself, K = V.
    pub fn value() -> Self {
        Self { parts: vec![KeyPart::Value] }
    }

    /// Returns each part as a separate design, in the order of the name. These are indexed if ranks
    /// are merged instead of keys (appendix E.3).
    pub fn apart(&self) -> Vec<Self> {
        self.parts.iter().map(|part| Self { parts: vec![*part] }).collect()
    }

    /// Returns whether the key contains everything that is said.
    pub(crate) fn holds_value(&self) -> bool {
        self.parts.contains(&KeyPart::Value)
    }

    /// Returns whether the key contains what people say, but not what assistants say.
    pub(crate) fn holds_users(&self) -> bool {
        self.parts.contains(&KeyPart::User)
    }

    pub(crate) fn expansions(&self) -> Vec<Expansion> {
        let expansion = |part: &KeyPart| match part {
            KeyPart::Expansion(expansion) => Some(*expansion),
            KeyPart::Value | KeyPart::User => None,
        };
        self.parts.iter().filter_map(expansion).collect()
    }
}

impl fmt::Display for KeyDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |wanted| PARTS.iter().find(|(_, known)| known == wanted).map(|known| known.0);
        let names: Vec<_> = self.parts.iter().filter_map(name).collect();
        f.pad(&names.join("+"))
    }
}

impl FromStr for KeyDesign {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        if name == DEFAULT {
            return Ok(Self::default());
        }
        let mut parts = Vec::new();
        for part in name.split('+') {
            let known = PARTS.iter().find(|(known, _)| *known == part);
            match known {
                Some((_, part)) if !parts.contains(part) => parts.push(*part),
                _ => return Err(unknown(name)),
            }
        }
        Ok(Self { parts })
    }
}

fn unknown(name: &str) -> Error {
    Error::invalid("keys", expected(name))
}

fn expected(name: &str) -> String {
    let names = PARTS.map(|(name, _)| name).join("`, `");
    format!(
        "expected `{DEFAULT}` or some of `{names}` with `+` between them, each once, got `{name}`"
    )
}

/// Maximum number of keys of a corpus, because each is embedded for each turn.
const MOST_KEYS: usize = 8;

/// Adds the problems of `keys`, by each of which the turns of a corpus are to be found separately,
/// to `violations`.
pub fn check_keys(field: &str, keys: &[String], violations: &mut Violations) {
    if keys.len() > MOST_KEYS {
        violations.push(field, format!("expected at most {MOST_KEYS}, got {}", keys.len()));
    }
    let mut holds_value = keys.is_empty();
    for (at, name) in keys.iter().enumerate() {
        let Some(design) = violations.take(designed(field, name)) else { continue };
        holds_value |= design.holds_value();
        if keys[..at].contains(name) {
            violations.push(field, format!("expected each once, got `{name}` again"));
        }
        if design.expansions().contains(&Expansion::Previous) {
            let problem = format!(
                "expected no `previous`, as in `{name}`: turns may come in any order, so that a key is made of its \
                 turn alone"
            );
            violations.push(field, problem);
        }
    }
    if !holds_value {
        let problem = "expected one with `value` in it: a turn in which nothing is stated is found by nothing else";
        violations.push(field, problem);
    }
}

/// Returns the design with this name. An error names the `field` that contains it.
fn designed(field: &str, name: &str) -> Result<KeyDesign, Error> {
    name.parse().map_err(|_| Error::invalid(field, expected(name)))
}

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
    for part in &design.parts {
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
    use clew_core::{Attributes, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::TurnId;

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
    fn names_are_read_back() {
        let names = ["value", "user", "date", "fact", "phrase", "summary", "event", "value+fact"];
        for name in names.into_iter().chain(["date+previous+fact+value", "user+value"]) {
            assert_eq!(design(name).to_string(), name);
        }
        assert_eq!(design("default"), KeyDesign::default());
        assert_eq!(KeyDesign::default(), design("date+previous+fact+value"));
        assert_eq!(KeyDesign::value(), design("value"));
        for bad in ["", "+", "fact+", "fact+fact", "plain", "default+fact", "facts"] {
            let error = bad.parse::<KeyDesign>().unwrap_err();
            assert!(error.to_string().contains("`value`, `user`, `date`"), "{error}");
        }
    }

    #[test]
    fn keys_of_a_corpus_are_made_of_a_turn_alone_and_hold_what_is_said() {
        let refused = |names: &[&str]| {
            let keys: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut violations = Violations::default();
            check_keys("chat.keys", &keys, &mut violations);
            violations.into_result().err().map(|error| error.violations()[0].description.clone())
        };
        for good in [&[][..], &["value"], &["fact", "date+fact+value"], &["value", "user+summary"]]
        {
            assert_eq!(refused(good), None, "{good:?}");
        }
        for (bad, told) in [
            (&["fact"][..], "with `value`"),
            (&["user"], "with `value`"),
            (&["value", "value"], "each once"),
            (&["value", "facts"], "`summary`"),
            (&["default"], "no `previous`"),
            (&["value"; 9], "at most 8"),
        ] {
            let problem = refused(bad).unwrap();
            assert!(problem.contains(told), "{bad:?}: {problem}");
        }
    }

    #[test]
    fn parts_are_designs_of_their_own() {
        assert_eq!(design("value+fact").apart(), [design("value"), design("fact")]);
        assert_eq!(design("event").apart(), [design("event")]);
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
            let all = PARTS.map(|(name, _)| name).join("+");
            let key = key(from_ref(&turn), Some(&turn), &design(&all), max_bytes);
            prop_assert!(key.title.len() <= max_bytes);
            prop_assert!(!key.title.contains(char::is_control));
        }

        #[test]
        fn the_value_is_in_every_key_that_names_it(
            texts in prop::collection::vec("[a-z. \n]{0,20}", 0..4),
            parts in prop::sample::subsequence(&PARTS[1..], 0..7),
        ) {
            let turns: Vec<Turn> = texts.iter().map(|text| turn(1, "", text)).collect();
            let names: Vec<&str> = parts.iter().map(|(name, _)| *name).chain(["value"]).collect();
            let key = key(&turns, None, &design(&names.join("+")), 1024);
            if texts.iter().any(|text| !text.trim().is_empty()) {
                prop_assert!(key.text.ends_with(&texts.join("\n")));
            }
        }
    }
}
