//! Reading replies: what models write instead of what they were asked for, repaired where its meaning is
//! plain and refused where it is not.
//!
//! A reply is read as JSON where an object or list begins in it, else in lines. Every row below is a test.
//!
//! | shape | what becomes of it |
//! |---|---|
//! | thoughts up to `</think>` before the reply | passed over |
//! | a code fence, prose before or after | passed over |
//! | trailing commas; `//`, `#` and `/* */` comments | passed over |
//! | keys without quotes, in single or curly quotes, in other case, with blanks or hyphens for `_` | taken |
//! | line breaks within strings; Python's `True`, `False`, `None` | taken |
//! | `"2"`, `[2]`, `Passage 2` for a number; `Yes.` for a flag | taken |
//! | a text where a list of texts is expected | a list of one |
//! | a bare list where an object with one list is expected | taken for that list |
//! | the same object twice | taken once |
//! | `Label: value` lines, labels in bold or as headings, prose before the first | read as an object |
//! | numbered or bulleted lines, a line that ends with a colon before them | read as a list |
//! | lines of as many `\|`-separated parts as there are fields | read as a list of objects |
//! | `None`, `N/A` or `[]` alone | an empty list |
//! | nothing, or white space | refused: nothing |
//! | prose without a label, bullet or object | refused: prose |
//! | JSON that ends in the middle, thoughts without an end, lines of a reply that was cut off | refused: cut off |
//! | `{'name': 'it's'}`, unknown escapes, missing commas, more than 32 levels | refused: broken JSON |
//! | a key or label twice with different values | refused |
//! | two different objects that both fit | refused: several |
//! | a number that counts nothing that was shown | refused: out of range |
//! | `2 or 3` for a number, `probably` for a flag | refused: wrong |
//!
//! Nothing here panics, whatever the reply; cost is linear in it, but for at most 64 places at which JSON
//! is looked for.

mod json;
mod lines;
mod record;

use self::json::Loose;
pub(crate) use self::record::{Record, is_nothing, is_partly, yes_or_no};
use super::unreadable::{Found, Unreadable};

/// What a model replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Its words.
    pub text: &'a str,
    /// Whether the model was done, rather than at the end of its tokens.
    pub is_whole: bool,
}

impl<'a> Reply<'a> {
    /// The reply as one object with some of `keys`.
    pub(crate) fn record(
        self,
        expected: &'static str,
        keys: &[&str],
    ) -> Result<Record, Unreadable> {
        let refused = |found| Unreadable { expected, found };
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
            Some(_) if !objects.is_empty() => Err(refused(Found::Several)),
            Some(fields) => Ok(Record { expected, fields }),
            None => {
                let fields = self.lines().and_then(|text| lines::labelled(text, keys));
                let fields = fields.map_err(refused)?;
                if fields.is_empty() {
                    Err(refused(Found::Prose))
                } else {
                    Ok(Record { expected, fields })
                }
            }
        }
    }

    /// The reply as a list of objects with `keys`, by itself or as the field `list` of an object.
    pub(crate) fn records(
        self,
        expected: &'static str,
        list: &'static str,
        keys: &[&str],
    ) -> Result<Vec<Record>, Unreadable> {
        let items = |items: &[Loose]| items.iter().all(|item| matches!(item, Loose::Object(_)));
        if let Some(record) = self.list(expected, list, items)? {
            return record.records(list);
        }
        let rows = self.lines().and_then(|text| lines::rows(text, keys));
        let rows = rows.map_err(|found| Unreadable { expected, found })?;
        Ok(rows.into_iter().map(|fields| Record { expected, fields }).collect())
    }

    /// The reply as a list of texts, by itself or as the field `list` of an object.
    pub(crate) fn texts(
        self,
        expected: &'static str,
        list: &'static str,
    ) -> Result<Vec<String>, Unreadable> {
        let items = |items: &[Loose]| items.iter().all(|item| matches!(item, Loose::Text(_)));
        if let Some(record) = self.list(expected, list, items)? {
            return record.texts(list);
        }
        let texts = self.lines().and_then(lines::items);
        texts.map_err(|found| Unreadable { expected, found })
    }

    /// The list `list` in JSON, as the only field of a record; `None` if there is no JSON.
    fn list(
        self,
        expected: &'static str,
        list: &'static str,
        fits: impl Fn(&[Loose]) -> bool,
    ) -> Result<Option<Record>, Unreadable> {
        let refused = |found| Unreadable { expected, found };
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
            Some(_) if !lists.is_empty() => Err(refused(Found::Several)),
            Some(value) => Ok(Some(Record { expected, fields: vec![(list.to_owned(), value)] })),
            None => Ok(None),
        }
    }

    /// The reply as a text by itself, without a fence and without `label` before it, or as the field `label`
    /// of an object. A text that was cut off loses its last sentence, which is not whole.
    pub(crate) fn prose(
        self,
        expected: &'static str,
        label: &'static str,
    ) -> Result<String, Unreadable> {
        let refused = |found| Unreadable { expected, found };
        let text = lines::unfenced(self.said().map_err(refused)?);
        if text.starts_with('{') {
            return self.record(expected, &[label])?.text(label);
        }
        let text = lines::without_label(text, label);
        match if self.is_whole { text.as_str() } else { whole_sentences(&text) } {
            "" if self.is_whole => Err(refused(Found::Nothing)),
            "" => Err(refused(Found::CutOff)),
            text => Ok(text.to_owned()),
        }
    }

    /// What was said, to be read in lines: whole, for what is missing of the last line cannot be told.
    fn lines(self) -> Result<&'a str, Found> {
        if self.is_whole { self.said() } else { Err(Found::CutOff) }
    }

    /// Whether the reply is a word for there being nothing.
    pub(crate) fn says_none(self) -> bool {
        self.is_whole && self.said().is_ok_and(is_nothing)
    }

    /// What was said after thinking.
    fn said(self) -> Result<&'a str, Found> {
        let said = match self.text.rsplit_once("</think>") {
            Some((_, said)) => said.trim(),
            None if self.text.trim_start().starts_with("<think>") => return Err(Found::CutOff),
            None => self.text.trim(),
        };
        if said.is_empty() { Err(Found::Nothing) } else { Ok(said) }
    }
}

/// The sentences of a text but for the last.
fn whole_sentences(text: &str) -> &str {
    let sentences = clew_text::sentences(text);
    sentences.last().map_or("", |last| text[..last.start].trim_end())
}
