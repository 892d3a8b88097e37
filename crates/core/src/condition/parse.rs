//! Conditions as text.

use std::iter::Peekable;
use std::str::{CharIndices, FromStr};

use crate::{AttributeName, AttributeTest, AttributeValue, Condition, Error, FiniteNumber, Limits};

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let tokens = Tokens { text, characters: text.char_indices().peekable() };
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        let mut parser = Parser { tokens, next: 0, end: text.len() };
        let condition = parser.any(1)?;
        match parser.tokens.get(parser.next) {
            None => Ok(condition),
            Some(_) => Err(parser.expected("`and`, `or` or the end")),
        }
    }
}

/// Reads a value as conditions have it. Without quotes it is a truth value, an integer or a number
/// if it reads as one, and otherwise a text, which may have spaces and signs here.
impl FromStr for AttributeValue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |problem: &str| Error::invalid("attribute", format!("expected {problem}"));
        match text.chars().next() {
            None => Err(refused("a value, got none; an empty text is `\"\"`")),
            Some(quote @ ('"' | '\'')) => {
                let mut tokens = Tokens { text, characters: text.char_indices().peekable() };
                tokens.characters.next();
                let quoted = tokens.quoted(0, quote);
                match (quoted, tokens.characters.next()) {
                    (Ok(quoted), None) => Ok(Self::Text(quoted)),
                    _ => Err(refused("a text that ends with the quotation mark it begins with")),
                }
            }
            Some(_) => Ok(match Value::of_word(text) {
                Value::Certain(value) | Value::Or(value, _) => value,
            }),
        }
    }
}

/// Part of a text.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// Text in quotes.
    Quoted(String),
    /// Word, number or name without quotes.
    Bare(String),
    /// Operator, bracket or comma.
    Sign(&'static str),
}

/// Signs, longer ones before those that they begin with.
const SIGNS: [&str; 10] = ["==", "!=", ">=", "<=", "=", ">", "<", "(", ")", ","];

struct Tokens<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
}

impl Tokens<'_> {
    /// Reads the rest of a text that `quote` began. A backslash takes the next character as it is.
    fn quoted(&mut self, begin: usize, quote: char) -> Result<String, Error> {
        let mut quoted = String::new();
        loop {
            match self.characters.next() {
                Some((_, '\\')) => match self.characters.next() {
                    Some((_, character)) => quoted.push(character),
                    None => break,
                },
                Some((_, character)) if character == quote => return Ok(quoted),
                Some((_, character)) => quoted.push(character),
                None => break,
            }
        }
        Err(problem(format!("the text that begins at byte {begin} has no closing {quote}")))
    }

    /// Reads what stands without quotes, up to a space, a sign or a quotation mark.
    fn bare(&mut self, begin: usize) -> &str {
        let is_part =
            |character: char| !character.is_whitespace() && !"\"'=!<>(),".contains(character);
        while self.characters.next_if(|(_, character)| is_part(*character)).is_some() {}
        let end = self.characters.peek().map_or(self.text.len(), |(at, _)| *at);
        &self.text[begin..end]
    }
}

impl Iterator for Tokens<'_> {
    type Item = Result<(usize, Token), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.characters.next_if(|(_, character)| character.is_whitespace()).is_some() {}
        let &(begin, first) = self.characters.peek()?;
        let rest = &self.text[begin..];
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            self.characters.by_ref().take(sign.len()).for_each(drop);
            return Some(Ok((begin, Token::Sign(sign))));
        }
        if matches!(first, '"' | '\'') {
            self.characters.next();
            return Some(self.quoted(begin, first).map(|text| (begin, Token::Quoted(text))));
        }
        let bare = self.bare(begin).to_owned();
        Some(match bare.is_empty() {
            false => Ok((begin, Token::Bare(bare))),
            true => Err(problem(format!("`{first}` at byte {begin} means nothing"))),
        })
    }
}

/// Test of a value, made of the value that it compares with.
type OfValue = fn(AttributeValue) -> AttributeTest;

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    /// Bytes of the text.
    end: usize,
}

impl Parser {
    fn any(&mut self, level: usize) -> Result<Condition, Error> {
        let mut parts = vec![self.all(level)?];
        while self.takes_word("or") {
            parts.push(self.all(level)?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self, level: usize) -> Result<Condition, Error> {
        let mut parts = vec![self.one(level)?];
        while self.takes_word("and") {
            parts.push(self.one(level)?);
        }
        Ok(one_or(parts, Condition::All))
    }

    /// Reads a condition without `and` and `or`. `level` counts brackets and negations, so that the
    /// parser goes no deeper than a condition may.
    fn one(&mut self, level: usize) -> Result<Condition, Error> {
        let most = Limits::default().condition_depth;
        if level > most {
            return Err(problem(format!("expected at most {most} levels")));
        }
        if self.takes_word("not") {
            return Ok(Condition::Not(Box::new(self.one(level + 1)?)));
        }
        if self.takes_sign("(") {
            let inner = self.any(level + 1)?;
            return self.must_take(")").map(|()| inner);
        }
        self.test()
    }

    fn test(&mut self) -> Result<Condition, Error> {
        let name = match self.tokens.get(self.next) {
            Some((_, Token::Bare(name) | Token::Quoted(name))) => name.clone(),
            _ => return Err(self.expected("the name of an attribute")),
        };
        let name = AttributeName::try_from(name)
            .map_err(|_| self.expected("a name of 1 to 64 letters, digits, `_`, `.` or `-`"))?;
        self.next += 1;
        let test = self.test_of_value()?;
        Ok(Condition::Attribute(name, test))
    }

    fn test_of_value(&mut self) -> Result<AttributeTest, Error> {
        if self.takes_word("exists") {
            return Ok(AttributeTest::Exists);
        }
        if self.takes_word("contains") {
            return Ok(AttributeTest::Contains(match self.value()? {
                Value::Certain(value) => value.to_string(),
                Value::Or(_, text) => text,
            }));
        }
        let is_negated = self.takes_word("not");
        if self.takes_word("in") {
            let values = self.list()?;
            return Ok(match is_negated {
                true => AttributeTest::Nin(values),
                false => AttributeTest::In(values),
            });
        }
        if is_negated {
            return Err(self.expected("`in`"));
        }
        if self.takes_sign("=") || self.takes_sign("==") {
            return Ok(match self.value()? {
                Value::Certain(value) => AttributeTest::Eq(value),
                value @ Value::Or(..) => AttributeTest::In(value.all()),
            });
        }
        if self.takes_sign("!=") {
            return Ok(match self.value()? {
                Value::Certain(value) => AttributeTest::Ne(value),
                value @ Value::Or(..) => AttributeTest::Nin(value.all()),
            });
        }
        let ordered: [(&str, OfValue); 4] = [
            (">", AttributeTest::Gt),
            (">=", AttributeTest::Gte),
            ("<", AttributeTest::Lt),
            ("<=", AttributeTest::Lte),
        ];
        for (sign, test) in ordered {
            if self.takes_sign(sign) {
                return Ok(match self.value()? {
                    Value::Certain(value) | Value::Or(value, _) => test(value),
                });
            }
        }
        Err(self
            .expected("`=`, `!=`, `>`, `>=`, `<`, `<=`, `in`, `not in`, `contains` or `exists`"))
    }

    fn list(&mut self) -> Result<Vec<AttributeValue>, Error> {
        self.must_take("(")?;
        let mut values = self.value()?.all();
        while self.takes_sign(",") {
            values.extend(self.value()?.all());
        }
        self.must_take(")").map(|()| values)
    }

    fn value(&mut self) -> Result<Value, Error> {
        let value = match self.tokens.get(self.next) {
            Some((_, Token::Quoted(text))) => Value::Certain(AttributeValue::Text(text.clone())),
            Some((_, Token::Bare(word))) => Value::of_word(word),
            _ => return Err(self.expected("a value")),
        };
        self.next += 1;
        Ok(value)
    }

    fn takes(&mut self, is_it: impl Fn(&Token) -> bool) -> bool {
        let takes = self.tokens.get(self.next).is_some_and(|(_, token)| is_it(token));
        self.next += usize::from(takes);
        takes
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.takes(|token| matches!(token, Token::Bare(bare) if bare.eq_ignore_ascii_case(word)))
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        self.takes(|token| matches!(token, Token::Sign(found) if *found == sign))
    }

    fn must_take(&mut self, sign: &str) -> Result<(), Error> {
        match self.takes_sign(sign) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{sign}`"))),
        }
    }

    /// Returns the error that something else was expected at this place.
    fn expected(&self, what: &str) -> Error {
        let (at, got) = match self.tokens.get(self.next) {
            Some((at, Token::Quoted(text))) => (*at, format!("\"{text}\"")),
            Some((at, Token::Bare(word))) => (*at, format!("`{word}`")),
            Some((at, Token::Sign(sign))) => (*at, format!("`{sign}`")),
            None => (self.end, "the end".to_owned()),
        };
        problem(format!("expected {what} at byte {at}, got {got}"))
    }
}

/// Value as it is written.
enum Value {
    Certain(AttributeValue),
    /// Number or truth value without quotes, and the text that reads the same.
    Or(AttributeValue, String),
}

impl Value {
    fn of_word(word: &str) -> Self {
        let number = || word.parse().ok().and_then(FiniteNumber::new).map(AttributeValue::Number);
        let integer = || word.parse().ok().map(AttributeValue::Integer);
        let boolean = || word.parse().ok().map(AttributeValue::Boolean);
        match boolean().or_else(integer).or_else(number) {
            Some(value) => Self::Or(value, word.to_owned()),
            None => Self::Certain(AttributeValue::from(word)),
        }
    }

    fn all(self) -> Vec<AttributeValue> {
        match self {
            Self::Certain(value) => vec![value],
            Self::Or(value, text) => vec![value, AttributeValue::Text(text)],
        }
    }
}

fn one_or(mut parts: Vec<Condition>, several: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            several(parts)
        }
    }
}

fn problem(description: String) -> Error {
    Error::invalid("condition", description)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Condition {
        text.parse().unwrap_or_else(|error: Error| panic!("{text}: {error}"))
    }

    fn test(name: &str, test: AttributeTest) -> Condition {
        Condition::Attribute(name.to_owned().try_into().unwrap(), test)
    }

    #[test]
    fn each_test_can_be_written() {
        use AttributeTest::{Contains, Eq, Exists, Gt, Gte, In, Lt, Lte, Ne, Nin};
        let number = |number| AttributeValue::number(number).unwrap();
        let cases = [
            ("lang=en", test("lang", Eq("en".into()))),
            ("lang == \"en\"", test("lang", Eq("en".into()))),
            ("lang != 'it\\'s'", test("lang", Ne("it's".into()))),
            (r#"lang != "a \"b\" \\""#, test("lang", Ne(r#"a "b" \"#.into()))),
            ("year > 2020", test("year", Gt(2020.into()))),
            ("year>=-2.5", test("year", Gte(number(-2.5)))),
            ("year < 1e3", test("year", Lt(number(1000.0)))),
            ("day <= 2024-01-31", test("day", Lte("2024-01-31".into()))),
            ("year = 2020", test("year", In(vec![2020.into(), "2020".into()]))),
            ("year = \"2020\"", test("year", Eq("2020".into()))),
            ("draft != true", test("draft", Nin(vec![true.into(), "true".into()]))),
            (
                "author in (\"Ada\", Bohumil)",
                test("author", In(vec!["Ada".into(), "Bohumil".into()])),
            ),
            ("author NOT IN (a)", test("author", Nin(vec!["a".into()]))),
            ("n in (1,x)", test("n", In(vec![1.into(), "1".into(), "x".into()]))),
            ("title contains 'thread'", test("title", Contains("thread".to_owned()))),
            ("title contains 20", test("title", Contains("20".to_owned()))),
            ("url exists", test("url", Exists)),
            ("\"in\" exists", test("in", Exists)),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_alone_is_read_as_in_a_condition_and_needs_no_quotes_for_spaces() {
        for (text, expected) in [
            ("2020", 2020.into()),
            ("-2.5", AttributeValue::number(-2.5).unwrap()),
            ("true", true.into()),
            ("'2020'", "2020".into()),
            ("\"\"", "".into()),
            (r#""it's \"so\"""#, r#"it's "so""#.into()),
            ("two words", "two words".into()),
            ("https://a.example/?b=(c)", "https://a.example/?b=(c)".into()),
            ("it's", "it's".into()),
        ] {
            assert_eq!(text.parse::<AttributeValue>().unwrap(), expected, "{text}");
        }
        for (text, told) in [("", "got none"), ("'a", "ends with"), ("\"a\" b", "ends with")] {
            let error = text.parse::<AttributeValue>().unwrap_err();
            let description = &error.violations()[0].description;
            assert!(description.contains(told), "{text}: {description}");
        }
    }

    #[test]
    fn and_binds_closer_than_or_and_not_closer_than_both() {
        let is = |name: &str| test(name, AttributeTest::Exists);
        let not = |condition| Condition::Not(Box::new(condition));
        let expected = Condition::Any(vec![
            Condition::All(vec![is("a"), not(is("b"))]),
            is("c"),
            Condition::All(vec![is("d"), Condition::Any(vec![is("e"), is("f")])]),
        ]);
        let text = "a exists AND not b exists or c exists or d exists and (e exists or f exists)";
        assert_eq!(parsed(text), expected);
        assert_eq!(parsed("((a exists))"), is("a"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_place() {
        let deep = format!("{}a exists{}", "(".repeat(10_000), ")".repeat(10_000));
        let cases = [
            ("", "the name of an attribute at byte 0, got the end"),
            ("year", "`exists` at byte 4, got the end"),
            ("year 2020", "at byte 5, got `2020`"),
            ("year >", "a value at byte 6, got the end"),
            ("year = = 3", "a value at byte 7, got `=`"),
            ("year = 3 4", "`and`, `or` or the end at byte 9, got `4`"),
            ("year in 3", "`(` at byte 8, got `3`"),
            ("year in (3", "`)` at byte 10, got the end"),
            ("year not = 3", "`in` at byte 9, got `=`"),
            ("(year = 3", "`)` at byte 9, got the end"),
            ("a = 'b", "byte 4 has no closing '"),
            ("a ! b", "`!` at byte 2 means nothing"),
            ("a/b = 3", "a name of 1 to 64"),
            (&deep, "at most 16 levels"),
            (&"not ".repeat(10_000), "at most 16 levels"),
        ];
        for (text, told) in cases {
            let error = text.parse::<Condition>().unwrap_err();
            let description = &error.violations()[0].description;
            assert!(description.contains(told), "{text}: {description}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ a-c()='\"!<>,\\\\0-9é]{0,40}|.{0,40}") {
            drop(text.parse::<Condition>());
        }

        #[test]
        fn a_text_in_quotes_is_taken_as_it_is(value in ".{0,20}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let expected = test("a", AttributeTest::Eq(AttributeValue::Text(value)));
            prop_assert_eq!(parsed(&format!("a = \"{quoted}\"")), expected);
        }
    }
}
