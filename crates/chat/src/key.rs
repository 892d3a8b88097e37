//! Keys: what is embedded and text-indexed so that a value is found.

use std::fmt;
use std::str::FromStr;

use clew_core::{Error, Timestamp};
use clew_text::one_line;
use jiff::tz::TimeZone;

use crate::{Role, Turn, facts};

/// Something that goes before a value in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The day of the first turn, such as `[8 May 2023]`: questions name months.
    Date,
    /// The turn before, among several people: what "that" and "yes" mean. Of a user and an assistant
    /// nothing, since their rounds hold it.
    Previous,
    /// What speakers state of themselves ([`facts`]).
    Facts,
}

const EXPANSIONS: [(&str, Expansion); 3] =
    [("date", Expansion::Date), ("previous", Expansion::Previous), ("fact", Expansion::Facts)];
const PLAIN: &str = "plain";
const DEFAULT: &str = "default";

/// How a key is made of a value: K = expansions + V, which the paper calls key merging ("LongMemEval",
/// section 5.3, table 3).
///
/// Measured on hybrid scores as frac@5 / frac@10 of LoCoMo turns: plain 57 / 68 %, `fact` 62 / 71,
/// `date+fact` 64 / 72, `date+previous+fact`, the default, 71 / 80. On rounds and sessions of LongMemEval
/// `fact` brings one to three points, within the error of measurement. `BENCHMARKS.md`, section Keys, has what
/// else was tried.
///
/// Its name is `plain` where the value is the key, otherwise those of its expansions with `+` between them,
/// such as `date+fact`; `default` is another name of the best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDesign {
    /// What goes before the value, in this order.
    pub expansions: Vec<Expansion>,
}

impl Default for KeyDesign {
    fn default() -> Self {
        Self { expansions: vec![Expansion::Date, Expansion::Previous, Expansion::Facts] }
    }
}

impl fmt::Display for KeyDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.expansions.is_empty() {
            return f.pad(PLAIN);
        }
        let name =
            |wanted| EXPANSIONS.iter().find(|(_, known)| known == wanted).map(|known| known.0);
        let names: Vec<_> = self.expansions.iter().filter_map(name).collect();
        f.pad(&names.join("+"))
    }
}

impl FromStr for KeyDesign {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            PLAIN => return Ok(Self { expansions: Vec::new() }),
            DEFAULT => return Ok(Self::default()),
            _ => {}
        }
        let mut expansions = Vec::new();
        for part in name.split('+') {
            let known = EXPANSIONS.iter().find(|(known, _)| *known == part);
            match known {
                Some((_, expansion)) if !expansions.contains(expansion) => {
                    expansions.push(*expansion);
                }
                _ => return Err(unknown(name)),
            }
        }
        Ok(Self { expansions })
    }
}

fn unknown(name: &str) -> Error {
    let names = EXPANSIONS.map(|(name, _)| name).join("`, `");
    Error::invalid(
        "keys",
        format!(
            "expected `{PLAIN}`, `{DEFAULT}` or some of `{names}` with `+` between them, each once, \
             got `{name}`"
        ),
    )
}

/// What goes before `value` in its key by `design`, on one line of at most `max_bytes`, cut at a word; empty
/// where there is nothing. `before` is the turn before it in the session.
///
/// It belongs into the title of the value's document, which is embedded and text-indexed with every chunk. A
/// chunker gives titles a quarter of the encoder's window, some 60 tokens, so what matters most goes
/// first and a longer title helps only the search by words for whole documents.
pub fn expansion(
    value: &[Turn],
    before: Option<&Turn>,
    design: &KeyDesign,
    max_bytes: usize,
) -> String {
    let mut parts: Vec<String> = Vec::new();
    for expansion in &design.expansions {
        match expansion {
            Expansion::Date => parts.extend(value.first().and_then(|turn| day(turn.time?))),
            Expansion::Previous => {
                let before = before.filter(|turn| turn.role == Role::Other);
                parts.extend(before.map(Turn::line));
            }
            Expansion::Facts => parts.extend(value.iter().flat_map(facts)),
        }
    }
    shortened(one_line(&parts.join(" ")), max_bytes)
}

fn day(time: Timestamp) -> Option<String> {
    let time = jiff::Timestamp::from_microsecond(time.as_micros()).ok()?;
    Some(time.to_zoned(TimeZone::UTC).strftime("[%-d %B %Y]").to_string())
}

fn shortened(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let fitting = &text[..text.floor_char_boundary(max_bytes + 1)];
        let end = fitting.rfind(' ').unwrap_or_else(|| text.floor_char_boundary(max_bytes));
        text.truncate(end);
    }
    // Titles hold no control characters, and white space is already blank.
    text.retain(|c| !c.is_control());
    text
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use clew_core::Attributes;
    use proptest::prelude::*;

    use super::*;
    use crate::TurnId;

    fn turn(number: u32, speaker: &str, text: &str) -> Turn {
        Turn {
            id: TurnId { session: "s".parse().unwrap(), number },
            speaker: speaker.to_owned(),
            role: Role::Other,
            text: text.to_owned(),
            time: "2023-05-08T13:56:00Z".parse().ok(),
            attributes: Attributes::new(),
        }
    }

    fn design(name: &str) -> KeyDesign {
        name.parse().unwrap()
    }

    #[test]
    fn names_are_read_back() {
        for name in ["plain", "date", "fact", "previous+fact", "date+previous+fact"] {
            assert_eq!(design(name).to_string(), name);
        }
        assert_eq!(design("default"), KeyDesign::default());
        for bad in ["", "+", "fact+", "fact+fact", "plain+fact", "facts"] {
            let error = bad.parse::<KeyDesign>().unwrap_err();
            assert!(error.to_string().contains("`date`, `previous`, `fact`"), "{error}");
        }
    }

    #[test]
    fn each_expansion_goes_before_the_value() {
        let value = [turn(2, "Ada", "I do!\nI love them."), turn(3, "Bo", "Nice.")];
        let before = turn(1, "Bo", "You keep\nbees?");
        for (name, expected) in [
            ("plain", ""),
            ("date", "[8 May 2023]"),
            ("previous", "Bo: You keep bees?"),
            ("fact", "Ada love them."),
            ("fact+date", "Ada love them. [8 May 2023]"),
        ] {
            assert_eq!(expansion(&value, Some(&before), &design(name), 1024), expected);
        }
        assert_eq!(expansion(&[], None, &design("date+previous+fact"), 1024), "");
    }

    #[test]
    fn long_expansions_are_cut_at_a_word() {
        let value = [turn(1, "Ada", "I keep seven hives.")];
        for (max_bytes, expected) in [
            (21, "Ada keep seven hives."),
            (20, "Ada keep seven"),
            (14, "Ada keep seven"),
            (13, "Ada keep"),
            (2, "Ad"),
            (0, ""),
        ] {
            assert_eq!(expansion(&value, None, &design("fact"), max_bytes), expected);
        }
    }

    proptest! {
        #[test]
        fn expansions_are_titles(text in "\\PC{0,60}|[ab. \u{0}\u{85}é]{0,60}", max_bytes in 0usize..80) {
            let turn = turn(1, "", &text);
            let title = expansion(from_ref(&turn), Some(&turn), &design("previous+fact+date"), max_bytes);
            prop_assert!(title.len() <= max_bytes);
            prop_assert!(!title.contains(char::is_control));
        }
    }
}
