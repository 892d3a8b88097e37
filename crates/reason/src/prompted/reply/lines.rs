//! Parsing of replies in lines.

use super::json::{Loose, key};
use super::record::is_nothing;
use crate::prompted::unreadable::ReplyShape;

/// Parses `Label: value` lines whose labels are among `keys`. A value continues until the next
/// label.
///
/// # Errors
/// Returns [`ReplyShape::Several`] if a label occurs twice with different values.
pub(crate) fn labelled(text: &str, keys: &[&str]) -> Result<Vec<(String, Loose)>, ReplyShape> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (label_of(line, keys), fields.last_mut()) {
            (Some((name, value)), _) => fields.push((name, value.to_owned())),
            (None, Some((_, value))) => {
                value.push('\n');
                value.push_str(line);
            }
            (None, None) => {}
        }
    }
    let mut distinct: Vec<(String, Loose)> = Vec::new();
    for (name, value) in fields {
        let is_rule = |c: char| c.is_whitespace() || c == '#' || c == '`';
        let value = Loose::Text(value.trim_matches(is_rule).to_owned());
        match distinct.iter().find(|(other, _)| *other == name) {
            Some((_, same)) if *same == value => {}
            Some(_) => return Err(ReplyShape::Several),
            None => distinct.push((name, value)),
        }
    }
    Ok(distinct)
}

/// Returns the label that a line begins with, if it is one of `keys`, and the rest of the line.
fn label_of<'a>(line: &'a str, keys: &[&str]) -> Option<(String, &'a str)> {
    let is_mark = |c: char| c.is_whitespace() || "*#>-_[`".contains(c);
    let (label, value) = line.trim_start_matches(is_mark).split_once(':')?;
    let label = key(label.trim_end_matches(['*', '_', ']', '`']));
    let value = value.trim_start_matches("**").trim();
    keys.contains(&label.as_str()).then_some((label, value))
}

/// Returns the items of numbered or bulleted lines.
///
/// # Errors
/// Returns [`ReplyShape::Prose`] if there is anything else, except a line before them that ends
/// with a colon.
pub(crate) fn items(text: &str) -> Result<Vec<String>, ReplyShape> {
    let text = unfenced(text);
    if is_nothing(text) || text == "[]" {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match item_of(line) {
            Some(item) => items.push(item.to_owned()),
            None if items.is_empty() && line.ends_with(':') => {}
            None => return Err(ReplyShape::Prose),
        }
    }
    if items.is_empty() { Err(ReplyShape::Prose) } else { Ok(items) }
}

/// Returns the text after a bullet or number.
fn item_of(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "• ", "– "].iter().find_map(|bullet| line.strip_prefix(bullet));
    let item = bullet.or_else(|| {
        let rest = line.trim_start_matches('[').trim_start_matches(|c: char| c.is_ascii_digit());
        let is_numbered = line.starts_with(|c: char| c.is_ascii_digit())
            || line
                .strip_prefix('[')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let mark = [". ", ") ", "] ", ": "].iter().find_map(|mark| rest.strip_prefix(mark));
        mark.filter(|_| is_numbered)
    });
    item.map(str::trim).filter(|item| !item.is_empty())
}

/// Parses lines with one part for each of `keys`, separated by bars.
///
/// # Errors
/// Returns [`ReplyShape::Prose`] if a line has another number of parts.
pub(crate) fn rows(text: &str, keys: &[&str]) -> Result<Vec<Vec<(String, Loose)>>, ReplyShape> {
    let text = unfenced(text);
    if is_nothing(text) || text == "[]" {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = item_of(line).unwrap_or(line).split('|').map(str::trim).collect();
        if parts.len() == keys.len() && parts.len() > 1 && !parts.contains(&"") {
            let fields = keys.iter().zip(parts);
            let fields =
                fields.map(|(key, part)| ((*key).to_owned(), Loose::Text(part.to_owned())));
            rows.push(fields.collect());
        } else if !(rows.is_empty() && line.ends_with(':')) {
            return Err(ReplyShape::Prose);
        }
    }
    if rows.is_empty() { Err(ReplyShape::Prose) } else { Ok(rows) }
}

/// Returns a text without the code fence around it.
pub(crate) fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        // The rest of the fence's line is the name of a language.
        Some((_, content)) => content.trim(),
        None => text,
    }
}

/// Returns a text without `label:` before it.
pub(crate) fn without_label(text: &str, label: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    match label_of(first, &[label]) {
        Some((_, value)) => format!("{value}\n{rest}").trim().to_owned(),
        None => text.to_owned(),
    }
}
