//! Fields of a reply, converted to the types that an act expects.

use super::json::Loose;
use crate::prompted::unreadable::{ReplyShape, UnreadableReply};

/// Named values of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub expected: &'static str,
    pub fields: Vec<(String, Loose)>,
}

/// Words that stand for nothing.
const NOTHING: [&str; 8] = ["", "none", "n/a", "na", "nothing", "null", "-", "<none>"];
/// Words that may precede a number.
const BEFORE_NUMBERS: [&str; 10] = [
    "summary", "passage", "node", "child", "action", "number", "option", "point", "entity", "level",
];

/// Returns whether a text stands for nothing.
pub(crate) fn is_nothing(text: &str) -> bool {
    let word = text.trim().trim_end_matches('.').to_lowercase();
    NOTHING.contains(&word.as_str())
}

impl Record {
    fn get(&self, key: &str) -> Option<&Loose> {
        let field = self.fields.iter().find(|(name, _)| name == key);
        field.map(|(_, value)| value).filter(|value| **value != Loose::Null)
    }

    fn needed(&self, key: &'static str) -> Result<&Loose, UnreadableReply> {
        self.get(key).ok_or_else(|| self.refused(ReplyShape::Missing(key)))
    }

    /// Returns an error about this record.
    pub fn refused(&self, found: ReplyShape) -> UnreadableReply {
        UnreadableReply { expected: self.expected, found }
    }

    fn wrong(&self, key: &'static str) -> UnreadableReply {
        self.refused(ReplyShape::Wrong(key))
    }

    /// Returns whether the field is present and not null.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns a text that is not empty.
    pub fn text(&self, key: &'static str) -> Result<String, UnreadableReply> {
        let text = as_text(self.needed(key)?).ok_or_else(|| self.wrong(key))?;
        if text.is_empty() { Err(self.refused(ReplyShape::Missing(key))) } else { Ok(text) }
    }

    /// Returns a text, unless it is missing or stands for nothing.
    pub fn optional_text(&self, key: &'static str) -> Result<Option<String>, UnreadableReply> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = as_text(value).ok_or_else(|| self.wrong(key))?;
        Ok(Some(text).filter(|text| !is_nothing(text)))
    }

    /// Returns the texts of a list, or none if it is missing. A single text is a list of one.
    pub fn texts(&self, key: &'static str) -> Result<Vec<String>, UnreadableReply> {
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

    /// Returns the records of a list, or none if it is missing.
    pub fn records(&self, key: &'static str) -> Result<Vec<Self>, UnreadableReply> {
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

    /// Returns a flag: yes or no.
    pub fn flag(&self, key: &'static str) -> Result<bool, UnreadableReply> {
        match self.needed(key)? {
            Loose::Flag(flag) => Ok(*flag),
            Loose::Text(text) => yes_or_no(text).ok_or_else(|| self.wrong(key)),
            _ => Err(self.wrong(key)),
        }
    }

    /// Returns a whole number from 0 to `most`.
    pub fn number(&self, key: &'static str, most: u32) -> Result<u32, UnreadableReply> {
        let number = as_number(self.needed(key)?).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number <= most).ok_or_else(|| self.wrong(key))
    }

    /// Returns the index of the item whose number, from 1, is in the field, among `count` items.
    pub fn index(&self, key: &'static str, count: usize) -> Result<usize, UnreadableReply> {
        let number = as_number(self.needed(key)?).ok_or_else(|| self.wrong(key))?;
        self.in_range(key, number, count)
    }

    /// Returns the indices of the items whose numbers, from 1, are in a list, among `count` items.
    pub fn indices(&self, key: &'static str, count: usize) -> Result<Vec<usize>, UnreadableReply> {
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

    /// Returns the index of the item that the field gives by its name or by its number, from 1.
    pub fn index_of(&self, key: &'static str, names: &[String]) -> Result<usize, UnreadableReply> {
        self.place_of(key, self.needed(key)?, names)
    }

    /// Returns the indices of the items that a list gives by name or by number, from 1. In a text
    /// they are separated by commas, and a word for nothing is an empty list.
    pub fn indices_of(
        &self,
        key: &'static str,
        names: &[String],
    ) -> Result<Vec<usize>, UnreadableReply> {
        match self.needed(key)? {
            Loose::List(items) => {
                items.iter().map(|item| self.place_of(key, item, names)).collect()
            }
            Loose::Text(text) if is_nothing(text) => Ok(Vec::new()),
            // A name may contain a comma itself.
            Loose::Text(text) if named(text, names).is_none() => {
                let items = text.trim_matches(['[', ']', '(', ')']).split(',');
                let places =
                    items.map(|item| self.place_of(key, &Loose::Text(item.to_owned()), names));
                places.collect()
            }
            one => Ok(vec![self.place_of(key, one, names)?]),
        }
    }

    /// Returns the index of the item that one value gives. A text that equals a name means that
    /// name, even if it is a number; a number always means a number.
    fn place_of(
        &self,
        key: &'static str,
        value: &Loose,
        names: &[String],
    ) -> Result<usize, UnreadableReply> {
        if let Loose::Text(text) = value
            && let Some(index) = named(text, names)
        {
            return Ok(index);
        }
        match (as_number(value), value) {
            (Some(number), _) => self.in_range(key, number, names.len()),
            (None, Loose::Text(_)) => Err(self.refused(ReplyShape::OutOfRange(key))),
            _ => Err(self.wrong(key)),
        }
    }

    fn in_range(
        &self,
        key: &'static str,
        number: i64,
        count: usize,
    ) -> Result<usize, UnreadableReply> {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let index = index.filter(|index| *index < count);
        index.ok_or_else(|| self.refused(ReplyShape::OutOfRange(key)))
    }
}

/// Returns the index of a name: as written, or otherwise ignoring case.
fn named(text: &str, names: &[String]) -> Option<usize> {
    let text = text.trim();
    let lower = text.to_lowercase();
    let exact = names.iter().position(|name| name == text);
    exact.or_else(|| names.iter().position(|name| name.to_lowercase() == lower))
}

/// Parses a single word for yes or no.
pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match word(text).as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

/// Returns whether a text is a single word for something between yes and no.
pub(crate) fn is_partly(text: &str) -> bool {
    ["partly", "partially"].contains(&word(text).as_str())
}

/// Returns a word in lower case and without the marks around it.
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
        // Below this bound, floating-point numbers represent integers exactly.
        Loose::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Some(*number as i64)
        }
        Loose::Text(text) => number_in(text),
        _ => None,
    }
}

/// Parses a number, possibly after one word such as "passage": `[2]`, `Summary 2.`, `**2**`.
pub(crate) fn number_in(text: &str) -> Option<i64> {
    let is_frame = |c: char| c.is_whitespace() || "[](){}*#.:\"'`".contains(c);
    let text = text.trim_matches(is_frame).to_lowercase();
    let before = BEFORE_NUMBERS.iter().find_map(|word| text.strip_prefix(word));
    before.unwrap_or(&text).trim_matches(is_frame).parse().ok()
}
