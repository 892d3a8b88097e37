//! Parsing of replies: deviations from the requested format are repaired if their meaning is clear,
//! and refused otherwise.
//!
//! A reply is parsed as JSON if it contains an object or a list, otherwise as lines. A test covers
//! every row below.
//!
//! | shape | result |
//! |---|---|
//! | thoughts up to `</think>` before the reply | ignored |
//! | a code fence, prose before or after | ignored |
//! | trailing commas; `//`, `#` and `/* */` comments | ignored |
//! | keys without quotes, in single or curly quotes, in other case | accepted |
//! | keys with blanks or hyphens instead of `_` | accepted |
//! | line breaks within strings; Python's `True`, `False`, `None` | accepted |
//! | `"2"`, `[2]`, `Passage 2` for a number; `Yes.` for a flag | accepted |
//! | a text where a list of texts is expected | a list of one |
//! | a bare list where an object with one list is expected | taken for that list |
//! | the same object twice | taken once |
//! | `Label: value` lines, labels in bold or as headings, prose before | read as an object |
//! | numbered or bulleted lines, a line that ends with a colon before them | read as a list |
//! | lines of as many `\|`-separated parts as there are fields | read as a list of objects |
//! | `None`, `N/A` or `[]` alone | an empty list |
//! | nothing, or white space | refused: nothing |
//! | prose without a label, bullet or object | refused: prose |
//! | JSON without its end, thoughts without an end, lines that were cut off | refused: cut off |
//! | `{'name': 'it's'}`, unknown escapes, missing commas | refused: broken JSON |
//! | more than 32 levels | refused: broken JSON |
//! | a key or label twice with different values | refused |
//! | two different objects that both fit | refused: several |
//! | a number that counts nothing that was shown | refused: out of range |
//! | `2 or 3` for a number, `probably` for a flag | refused: wrong |
//!
//! Nothing here panics, whatever the reply. The cost is linear in the reply, times at most 64
//! places at which JSON is looked for.

mod json;
mod lines;
mod record;

use self::json::Loose;
pub(crate) use self::record::{Record, is_nothing, is_partly, yes_or_no};
use super::unreadable::{ReplyShape, UnreadableReply};

/// Reply of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Text of the reply.
    pub text: &'a str,
    /// Whether the model finished, rather than running out of tokens.
    pub is_whole: bool,
}

impl<'a> Reply<'a> {
    /// Parses the reply as one object with some of `keys`.
    pub(crate) fn record(
        self,
        expected: &'static str,
        keys: &[&str],
    ) -> Result<Record, UnreadableReply> {
        let refused = |found| UnreadableReply { expected, found };
        let text = self.said().map_err(refused)?;
        let mut objects = Vec::new();
        for value in json::values(text).map_err(refused)? {
            let Loose::Object(fields) = value else { continue };
            let fits = fields.iter().any(|(name, _)| keys.contains(&name.as_str()));
            if fits && !objects.contains(&fields) {
                objects.push(fields);
            }
        }
        match objects.pop() {
            Some(_) if !objects.is_empty() => Err(refused(ReplyShape::Several)),
            Some(fields) => Ok(Record { expected, fields }),
            None => {
                let fields = self.lines().and_then(|text| lines::labelled(text, keys));
                let fields = fields.map_err(refused)?;
                if fields.is_empty() {
                    Err(refused(ReplyShape::Prose))
                } else {
                    Ok(Record { expected, fields })
                }
            }
        }
    }

    /// Parses the reply as a list of objects with `keys`, alone or as the field `list` of an
    /// object.
    pub(crate) fn records(
        self,
        expected: &'static str,
        list: &'static str,
        keys: &[&str],
    ) -> Result<Vec<Record>, UnreadableReply> {
        let items = |items: &[Loose]| items.iter().all(|item| matches!(item, Loose::Object(_)));
        if let Some(record) = self.list(expected, list, items)? {
            return record.records(list);
        }
        let rows = self.lines().and_then(|text| lines::rows(text, keys));
        let rows = rows.map_err(|found| UnreadableReply { expected, found })?;
        Ok(rows.into_iter().map(|fields| Record { expected, fields }).collect())
    }

    /// Parses the reply as a list of texts, alone or as the field `list` of an object.
    pub(crate) fn texts(
        self,
        expected: &'static str,
        list: &'static str,
    ) -> Result<Vec<String>, UnreadableReply> {
        let items = |items: &[Loose]| items.iter().all(|item| matches!(item, Loose::Text(_)));
        if let Some(record) = self.list(expected, list, items)? {
            return record.texts(list);
        }
        let texts = self.lines().and_then(lines::items);
        texts.map_err(|found| UnreadableReply { expected, found })
    }

    /// Finds the list `list` in JSON and returns it as the only field of a record. Returns `None`
    /// if there is none.
    fn list(
        self,
        expected: &'static str,
        list: &'static str,
        fits: impl Fn(&[Loose]) -> bool,
    ) -> Result<Option<Record>, UnreadableReply> {
        let refused = |found| UnreadableReply { expected, found };
        let text = self.said().map_err(refused)?;
        let mut lists: Vec<Loose> = Vec::new();
        for value in json::values(text).map_err(refused)? {
            let found = match value {
                Loose::List(items) if fits(&items) => Some(Loose::List(items)),
                Loose::Object(fields) => {
                    fields.into_iter().find(|(name, _)| name == list).map(|(_, value)| value)
                }
                _ => None,
            };
            lists.extend(found.filter(|found| !lists.contains(found)));
        }
        match lists.pop() {
            Some(_) if !lists.is_empty() => Err(refused(ReplyShape::Several)),
            Some(value) => Ok(Some(Record { expected, fields: vec![(list.to_owned(), value)] })),
            None => Ok(None),
        }
    }

    /// Parses the reply as a text, without a fence and without `label` before it, or as the field
    /// `label` of an object. A text that was cut off loses its incomplete last sentence.
    pub(crate) fn prose(
        self,
        expected: &'static str,
        label: &'static str,
    ) -> Result<String, UnreadableReply> {
        let refused = |found| UnreadableReply { expected, found };
        let text = lines::unfenced(self.said().map_err(refused)?);
        if text.starts_with('{') {
            return self.record(expected, &[label])?.text(label);
        }
        let text = lines::without_label(text, label);
        match if self.is_whole { text.as_str() } else { whole_sentences(&text) } {
            "" if self.is_whole => Err(refused(ReplyShape::Nothing)),
            "" => Err(refused(ReplyShape::CutOff)),
            text => Ok(text.to_owned()),
        }
    }

    /// Returns the text for parsing in lines. It must be complete, because the missing part of the
    /// last line is unknown.
    fn lines(self) -> Result<&'a str, ReplyShape> {
        if self.is_whole { self.said() } else { Err(ReplyShape::CutOff) }
    }

    /// Returns whether the reply is only a word for nothing.
    pub(crate) fn says_none(self) -> bool {
        self.is_whole && self.said().is_ok_and(is_nothing)
    }

    /// Returns the text after the thoughts.
    fn said(self) -> Result<&'a str, ReplyShape> {
        let said = match self.text.rsplit_once("</think>") {
            Some((_, said)) => said.trim(),
            None if self.text.trim_start().starts_with("<think>") => {
                return Err(ReplyShape::CutOff);
            }
            None => self.text.trim(),
        };
        if said.is_empty() { Err(ReplyShape::Nothing) } else { Ok(said) }
    }
}

/// Returns a text without its last sentence.
fn whole_sentences(text: &str) -> &str {
    let sentences = clew_text::sentences(text);
    sentences.last().map_or("", |last| text[..last.start].trim_end())
}
