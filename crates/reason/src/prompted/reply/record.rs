//! Fields of a reply with the types that an act expects.

use super::json::Loose;
use crate::prompted::unreadable::{Found, Unreadable};

/// Named values of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub expected: &'static str,
    pub fields: Vec<(String, Loose)>,
}

/// What says that there is nothing.
const NOTHING: [&str; 8] = ["", "none", "n/a", "na", "nothing", "null", "-", "<none>"];
/// Words that may stand before a number.
const BEFORE_NUMBERS: [&str; 10] = [
    "summary", "passage", "node", "child", "action", "number", "option", "point", "entity", "level",
];

/// Whether a text says that there is nothing.
pub(crate) fn is_nothing(text: &str) -> bool {
    let word = text.trim().trim_end_matches('.').to_lowercase();
    NOTHING.contains(&word.as_str())
}

impl Record {
    fn get(&self, key: &str) -> Option<&Loose> {
        let field = self.fields.iter().find(|(name, _)| name == key);
        field.map(|(_, value)| value).filter(|value| **value != Loose::Null)
    }

    fn needed(&self, key: &'static str) -> Result<&Loose, Unreadable> {
        self.get(key).ok_or_else(|| self.refused(Found::Missing(key)))
    }

    /// An error about this record.
    pub fn refused(&self, found: Found) -> Unreadable {
        Unreadable { expected: self.expected, found }
    }

    fn wrong(&self, key: &'static str) -> Unreadable {
        self.refused(Found::Wrong(key))
    }

    /// Whether the field is there and not null.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A text that says something.
    pub fn text(&self, key: &'static str) -> Result<String, Unreadable> {
        let text = as_text(self.needed(key)?).ok_or_else(|| self.wrong(key))?;
        if text.is_empty() { Err(self.refused(Found::Missing(key))) } else { Ok(text) }
    }

    /// A text, if there is one that says something.
    pub fn optional_text(&self, key: &'static str) -> Result<Option<String>, Unreadable> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = as_text(value).ok_or_else(|| self.wrong(key))?;
        Ok(Some(text).filter(|text| !is_nothing(text)))
    }

    /// The texts of a list; none if it is missing. A text alone is a list of one.
    pub fn texts(&self, key: &'static str) -> Result<Vec<String>, Unreadable> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Loose::Text(text)) if is_nothing(text) => Ok(Vec::new()),
            Some(value @ Loose::Text(_)) => Ok(as_text(value).into_iter().collect()),
            Some(Loose::List(items)) => {
                let texts: Option<Vec<String>> = items.iter().map(as_text).collect();
                let texts = texts.ok_or_else(|| self.wrong(key))?;
                Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
            }
            Some(_) => Err(self.wrong(key)),
        }
    }

    /// The records of a list; none if it is missing.
    pub fn records(&self, key: &'static str) -> Result<Vec<Self>, Unreadable> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Loose::Text(text)) if is_nothing(text) => Ok(Vec::new()),
            Some(Loose::List(items)) => {
                let record = |item: &Loose| match item {
                    Loose::Object(fields) => Ok(self.with(fields)),
                    _ => Err(self.wrong(key)),
                };
                items.iter().map(record).collect()
            }
            Some(Loose::Object(fields)) => Ok(vec![self.with(fields)]),
            Some(_) => Err(self.wrong(key)),
        }
    }

    fn with(&self, fields: &[(String, Loose)]) -> Self {
        Self { expected: self.expected, fields: fields.to_vec() }
    }

    /// Yes or no.
    pub fn flag(&self, key: &'static str) -> Result<bool, Unreadable> {
        match self.needed(key)? {
            Loose::Flag(flag) => Ok(*flag),
            Loose::Text(text) => yes_or_no(text).ok_or_else(|| self.wrong(key)),
            _ => Err(self.wrong(key)),
        }
    }

    /// A whole number from 0 to `most`.
    pub fn number(&self, key: &'static str, most: u32) -> Result<u32, Unreadable> {
        let number = as_number(self.needed(key)?).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number <= most).ok_or_else(|| self.wrong(key))
    }

    /// The index of what the number `key` counts from 1, of `count` things.
    pub fn index(&self, key: &'static str, count: usize) -> Result<usize, Unreadable> {
        let number = as_number(self.needed(key)?).ok_or_else(|| self.wrong(key))?;
        self.in_range(key, number, count)
    }

    /// The indices of what the numbers of a list count from 1, of `count` things.
    pub fn indices(&self, key: &'static str, count: usize) -> Result<Vec<usize>, Unreadable> {
        let numbers: Option<Vec<i64>> = match self.needed(key)? {
            Loose::List(items) => items.iter().map(as_number).collect(),
            Loose::Text(text) => {
                text.trim_matches(['[', ']', '(', ')']).split(',').map(number_in).collect()
            }
            other => as_number(other).map(|number| vec![number]),
        };
        let numbers = numbers.ok_or_else(|| self.wrong(key))?;
        numbers.into_iter().map(|number| self.in_range(key, number, count)).collect()
    }

    /// The index of what `key` names, by its name or by its number, which counts from 1.
    pub fn index_of(&self, key: &'static str, names: &[String]) -> Result<usize, Unreadable> {
        self.place_of(key, self.needed(key)?, names)
    }

    /// The indices of what a list names, each by its name or by its number, which counts from 1. In a text
    /// they stand between commas; a word for nothing is an empty list.
    pub fn indices_of(
        &self,
        key: &'static str,
        names: &[String],
    ) -> Result<Vec<usize>, Unreadable> {
        match self.needed(key)? {
            Loose::List(items) => {
                items.iter().map(|item| self.place_of(key, item, names)).collect()
            }
            Loose::Text(text) if is_nothing(text) => Ok(Vec::new()),
            // A name may hold a comma itself.
            Loose::Text(text) if named(text, names).is_none() => {
                let items = text.trim_matches(['[', ']', '(', ')']).split(',');
                let places =
                    items.map(|item| self.place_of(key, &Loose::Text(item.to_owned()), names));
                places.collect()
            }
            one => Ok(vec![self.place_of(key, one, names)?]),
        }
    }

    /// The index of what one value names. A name that is a number counts as a name, unless the value is a
    /// number itself.
    fn place_of(
        &self,
        key: &'static str,
        value: &Loose,
        names: &[String],
    ) -> Result<usize, Unreadable> {
        if let Loose::Text(text) = value
            && let Some(index) = named(text, names)
        {
            return Ok(index);
        }
        match (as_number(value), value) {
            (Some(number), _) => self.in_range(key, number, names.len()),
            (None, Loose::Text(_)) => Err(self.refused(Found::OutOfRange(key))),
            _ => Err(self.wrong(key)),
        }
    }

    fn in_range(&self, key: &'static str, number: i64, count: usize) -> Result<usize, Unreadable> {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let index = index.filter(|index| *index < count);
        index.ok_or_else(|| self.refused(Found::OutOfRange(key)))
    }
}

/// The index of a name: as it is written, or else in other case.
fn named(text: &str, names: &[String]) -> Option<usize> {
    let text = text.trim();
    let lower = text.to_lowercase();
    let exact = names.iter().position(|name| name == text);
    exact.or_else(|| names.iter().position(|name| name.to_lowercase() == lower))
}

/// Yes or no, as one word.
pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match word(text).as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

/// Whether a text says neither yes nor no but something between, as one word.
pub(crate) fn is_partly(text: &str) -> bool {
    ["partly", "partially"].contains(&word(text).as_str())
}

/// A text that is one word, without what frames it.
fn word(text: &str) -> String {
    text.trim().trim_matches(['*', '.', '!', '"', '\'']).to_lowercase()
}

fn as_text(value: &Loose) -> Option<String> {
    match value {
        Loose::Text(text) => Some(text.trim().to_owned()),
        Loose::Number(number) => Some(number.to_string()),
        Loose::Flag(flag) => Some(flag.to_string()),
        Loose::Null => Some(String::new()),
        Loose::List(_) | Loose::Object(_) => None,
    }
}

fn as_number(value: &Loose) -> Option<i64> {
    match value {
        // Beyond these bounds floats are no longer all integers.
        Loose::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Some(*number as i64)
        }
        Loose::Text(text) => number_in(text),
        _ => None,
    }
}

/// A number with at most a word such as "passage" before it: `[2]`, `Summary 2.`, `**2**`.
pub(crate) fn number_in(text: &str) -> Option<i64> {
    let is_frame = |c: char| c.is_whitespace() || "[](){}*#.:\"'`".contains(c);
    let text = text.trim_matches(is_frame).to_lowercase();
    let before = BEFORE_NUMBERS.iter().find_map(|word| text.strip_prefix(word));
    before.unwrap_or(&text).trim_matches(is_frame).parse().ok()
}
