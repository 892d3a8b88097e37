//! Designs of keys: the parts of the text that is embedded and indexed so that a value is found.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Violations};

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
    /// The statements of speakers about themselves.
    Fact,
    /// The subject of the value in a few key phrases.
    Phrase,
    /// The best sentences of the value.
    Summary,
    /// Events with their dates.
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

impl Expansion {
    /// Returns the expansion's name in the names of designs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Previous => "previous",
            Self::Fact => "fact",
            Self::Phrase => "phrase",
            Self::Summary => "summary",
            Self::Event => "event",
        }
    }
}

impl KeyPart {
    /// All parts.
    pub const ALL: [Self; 8] = [
        Self::Value,
        Self::User,
        Self::Expansion(Expansion::Date),
        Self::Expansion(Expansion::Previous),
        Self::Expansion(Expansion::Fact),
        Self::Expansion(Expansion::Phrase),
        Self::Expansion(Expansion::Summary),
        Self::Expansion(Expansion::Event),
    ];

    /// Returns the part's name in the names of designs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::User => "user",
            Self::Expansion(expansion) => expansion.as_str(),
        }
    }
}

/// Another name of the default design.
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

    /// Returns the parts, in the order of the name.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Returns whether the key contains everything that is said.
    pub fn holds_value(&self) -> bool {
        self.parts.contains(&KeyPart::Value)
    }

    /// Returns whether the key contains what people say, but not what assistants say.
    pub fn holds_users(&self) -> bool {
        self.parts.contains(&KeyPart::User)
    }

    /// Returns the expansions among the parts, in the order of the name.
    pub fn expansions(&self) -> Vec<Expansion> {
        let expansion = |part: &KeyPart| match part {
            KeyPart::Expansion(expansion) => Some(*expansion),
            KeyPart::Value | KeyPart::User => None,
        };
        self.parts.iter().filter_map(expansion).collect()
    }
}

impl fmt::Display for KeyDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parts.iter().map(|part| part.as_str()).collect();
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
            let known = KeyPart::ALL.into_iter().find(|known| known.as_str() == part);
            match known {
                Some(part) if !parts.contains(&part) => parts.push(part),
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
    let names = KeyPart::ALL.map(KeyPart::as_str).join("`, `");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn design(name: &str) -> KeyDesign {
        name.parse().unwrap()
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
}
