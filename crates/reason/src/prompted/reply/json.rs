//! JSON as models write it.

use crate::prompted::unreadable::Found;

/// Levels of lists and objects within each other.
const MAX_DEPTH: usize = 32;
/// Places of a reply at which a value is looked for.
const MAX_STARTS: usize = 64;

/// A value, less strict about its types than JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loose {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Loose>),
    /// Keys in lower case, with `_` for blanks and hyphens, in the order in which they come.
    Object(Vec<(String, Loose)>),
}

/// The objects and lists that stand in `text`, outermost ones, in order.
///
/// # Errors
/// [`Found::CutOff`] or [`Found::BrokenJson`] if one begins that cannot be read to its end: what stands in
/// it is not to be taken for a value by itself.
pub(crate) fn values(text: &str) -> Result<Vec<Loose>, Found> {
    let mut values = Vec::new();
    let mut from = 0;
    for _ in 0..MAX_STARTS {
        let Some(start) = text[from..].find(['{', '[']).map(|at| from + at) else { break };
        let mut reader = Reader { text, at: start, has_begun: false };
        match reader.value(0) {
            Ok(value) => {
                values.push(value);
                from = reader.at;
            }
            Err(broken) if reader.has_begun => {
                return Err(match broken {
                    Broken::Ended => Found::CutOff,
                    Broken::Unexpected => Found::BrokenJson,
                });
            }
            // A bracket of prose.
            Err(_) => from = start + 1,
        }
    }
    Ok(values)
}

/// A key as it is compared.
pub(crate) fn key(written: &str) -> String {
    let mut key = written.trim().to_lowercase();
    key = key.replace([' ', '-'], "_");
    key
}

enum Broken {
    /// The text ends.
    Ended,
    /// Something else was expected.
    Unexpected,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether a key with its colon, or a text of a list, was read: then it is no bracket of prose.
    has_begun: bool,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&self) -> Result<char, Broken> {
        self.rest().chars().next().ok_or(Broken::Ended)
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.rest().starts_with(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    /// Passes white space and comments.
    fn skip(&mut self) {
        loop {
            self.at = self.text.len() - self.rest().trim_start().len();
            let rest = self.rest();
            let comment = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n')
            } else if rest.starts_with("/*") {
                rest.find("*/").map(|end| end + 2)
            } else {
                return;
            };
            self.at += comment.unwrap_or(rest.len());
        }
    }

    fn value(&mut self, depth: usize) -> Result<Loose, Broken> {
        self.skip();
        match self.next()? {
            '{' | '[' if depth == MAX_DEPTH => Err(Broken::Unexpected),
            '{' => self.object(depth),
            '[' => self.list(depth),
            '"' | '\'' | '“' => self.string().map(Loose::Text),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Loose, Broken> {
        self.take('{');
        let mut fields: Vec<(String, Loose)> = Vec::new();
        loop {
            self.skip();
            if self.take('}') {
                return Ok(Loose::Object(fields));
            }
            let name = match self.next()? {
                '"' | '\'' | '“' => self.string()?,
                _ => self.name()?,
            };
            self.skip();
            self.next()?;
            if !self.take(':') {
                return Err(Broken::Unexpected);
            }
            self.has_begun = true;
            let value = self.value(depth + 1)?;
            let name = key(&name);
            match fields.iter().find(|(other, _)| *other == name) {
                Some((_, same)) if *same == value => {}
                // It says two things.
                Some(_) => return Err(Broken::Unexpected),
                None => fields.push((name, value)),
            }
            self.end_of_item('}')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Loose, Broken> {
        self.take('[');
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.take(']') {
                return Ok(Loose::List(items));
            }
            let item = self.value(depth + 1)?;
            self.has_begun |= matches!(item, Loose::Text(_));
            items.push(item);
            self.end_of_item(']')?;
        }
    }

    /// Passes a comma, or stays before `end`.
    fn end_of_item(&mut self, end: char) -> Result<(), Broken> {
        self.skip();
        let is_end = self.next()? == end;
        if self.take(',') || is_end { Ok(()) } else { Err(Broken::Unexpected) }
    }

    /// A string in any quotes. Line breaks may stand in it.
    fn string(&mut self) -> Result<String, Broken> {
        let open = self.next()?;
        let close = if open == '“' { '”' } else { open };
        self.at += open.len_utf8();
        let mut string = String::new();
        loop {
            let next = self.next()?;
            self.at += next.len_utf8();
            match next {
                _ if next == close => return Ok(string),
                '\\' => string.push(self.escaped()?),
                _ => string.push(next),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Broken> {
        let next = self.next()?;
        self.at += next.len_utf8();
        match next {
            '"' | '\\' | '/' | '\'' | '\n' => Ok(next),
            'b' => Ok('\u{8}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'u' => {
                let first = self.code_unit()?;
                let low = (0xd800..0xdc00).contains(&first);
                let mut units = vec![first];
                if low {
                    if !self.rest().starts_with("\\u") {
                        self.next()?;
                        return Err(Broken::Unexpected);
                    }
                    self.at += 2;
                    units.push(self.code_unit()?);
                }
                let decoded = char::decode_utf16(units).next();
                decoded.and_then(Result::ok).ok_or(Broken::Unexpected)
            }
            _ => Err(Broken::Unexpected),
        }
    }

    fn code_unit(&mut self) -> Result<u16, Broken> {
        let digits = self.rest().get(..4);
        let Some(digits) = digits.filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit())) else {
            return Err(if self.rest().len() < 4 { Broken::Ended } else { Broken::Unexpected });
        };
        self.at += 4;
        u16::from_str_radix(digits, 16).map_err(|_| Broken::Unexpected)
    }

    /// A key without quotes.
    fn name(&mut self) -> Result<String, Broken> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        if length == 0 { Err(Broken::Unexpected) } else { Ok(rest[..length].to_owned()) }
    }

    /// A number, or a word of JSON or Python.
    fn word(&mut self) -> Result<Loose, Broken> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        match word {
            "true" | "True" => Ok(Loose::Flag(true)),
            "false" | "False" => Ok(Loose::Flag(false)),
            "null" | "None" => Ok(Loose::Null),
            _ => {
                let begins = word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
                match word.parse::<f64>() {
                    Ok(number) if begins && number.is_finite() => Ok(Loose::Number(number)),
                    _ if length == rest.len() => Err(Broken::Ended),
                    _ => Err(Broken::Unexpected),
                }
            }
        }
    }
}
