//! A lenient parser for JSON as models write it.

use crate::prompted::unreadable::ReplyShape;

/// Maximum nesting of lists and objects.
const MAX_DEPTH: usize = 32;
/// Maximum number of places in a reply at which a value is looked for.
const MAX_STARTS: usize = 64;

/// A value, with types less strict than JSON's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loose {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Loose>),
    /// Fields in order, with keys in lower case and `_` for spaces and hyphens.
    Object(Vec<(String, Loose)>),
}

/// Parses the outermost objects and lists in `text`, in order.
///
/// # Errors
/// Returns [`ReplyShape::CutOff`] or [`ReplyShape::BrokenJson`] if one begins that cannot be parsed
/// to its end: its parts must not be taken for values of their own.
pub(crate) fn values(text: &str) -> Result<Vec<Loose>, ReplyShape> {
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
                    Broken::Ended => ReplyShape::CutOff,
                    Broken::Unexpected => ReplyShape::BrokenJson,
                });
            }
            // A bracket in prose.
            Err(_) => from = start + 1,
        }
    }
    Ok(values)
}

/// Normalises a key for comparison.
pub(crate) fn key(written: &str) -> String {
    let mut key = written.trim().to_lowercase();
    key = key.replace([' ', '-'], "_");
    key
}

enum Broken {
    /// The text ended too early.
    Ended,
    /// An unexpected character.
    Unexpected,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether a key with its colon, or a text in a list, was read. After that it is not a bracket
    /// in prose.
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

    /// Skips white space and comments.
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
                // The same key with two different values.
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

    /// Skips a comma, or stays before `end`.
    fn end_of_item(&mut self, end: char) -> Result<(), Broken> {
        self.skip();
        let is_end = self.next()? == end;
        if self.take(',') || is_end { Ok(()) } else { Err(Broken::Unexpected) }
    }

    /// Parses a string in any quotes, which may contain line breaks.
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

    /// Parses a key without quotes.
    fn name(&mut self) -> Result<String, Broken> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        if length == 0 { Err(Broken::Unexpected) } else { Ok(rest[..length].to_owned()) }
    }

    /// Parses a number, or a keyword of JSON or Python.
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
