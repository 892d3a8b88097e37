//! Conditions on the attributes of a document.

mod parse;

use std::cmp::Ordering;

use crate::{AttributeName, AttributeValue, Attributes, Limits, Violations};

/// Condition that a document's attributes meet or do not meet.
///
/// Every condition is either true or false of every document. A test of an attribute that the
/// document does not have is false, whatever the test, so `ne` and `nin` find only documents that
/// have the attribute. To find those without it as well, negate `eq` or `in`.
///
/// As text ([`std::str::FromStr`]): `year >= 2020 and (author in ("Ada", "Bohumil") or not draft =
/// true)`. `and` binds closer than `or`, and `not` closer than both. Names and words are written as
/// they are, texts with other characters in quotes. For `=`, `!=` and `in`, a number or truth value
/// without quotes stands for itself and for the text that reads the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// All of these are true.
    All(Vec<Condition>),
    /// At least one of these is true.
    Any(Vec<Condition>),
    /// This is not true.
    Not(Box<Condition>),
    /// The document has the attribute, and its value passes the test.
    Attribute(AttributeName, AttributeTest),
}

/// Test of the value of an attribute. A value of another type than the test names fails every test
/// but `Ne`, `Nin` and `Exists`. Integers and numbers are of one type here
/// ([`AttributeValue::compare`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttributeTest {
    /// The value equals this one.
    Eq(AttributeValue),
    /// The value does not equal this one.
    Ne(AttributeValue),
    /// The value is greater than this one, a number or a text.
    Gt(AttributeValue),
    /// The value is greater than or equal to this one, a number or a text.
    Gte(AttributeValue),
    /// The value is less than this one, a number or a text.
    Lt(AttributeValue),
    /// The value is less than or equal to this one, a number or a text.
    Lte(AttributeValue),
    /// The value equals one of these.
    In(Vec<AttributeValue>),
    /// The value equals none of these.
    Nin(Vec<AttributeValue>),
    /// The value is a text that contains this one, letter by letter.
    Contains(String),
    /// The attribute is there.
    Exists,
}

impl AttributeTest {
    /// Returns whether a value passes.
    pub fn passes(&self, value: &AttributeValue) -> bool {
        let ordered = |of: &AttributeValue, is_right: fn(Ordering) -> bool| {
            value.compare(of).is_some_and(is_right)
        };
        match self {
            Self::Eq(of) => value.equals(of),
            Self::Ne(of) => !value.equals(of),
            Self::Gt(of) => ordered(of, Ordering::is_gt),
            Self::Gte(of) => ordered(of, Ordering::is_ge),
            Self::Lt(of) => ordered(of, Ordering::is_lt),
            Self::Lte(of) => ordered(of, Ordering::is_le),
            Self::In(of) => of.iter().any(|of| value.equals(of)),
            Self::Nin(of) => !of.iter().any(|of| value.equals(of)),
            Self::Contains(part) => value.as_text().is_some_and(|text| text.contains(part)),
            Self::Exists => true,
        }
    }

    /// Returns the values of the test.
    fn values(&self) -> &[AttributeValue] {
        match self {
            Self::Eq(of) | Self::Ne(of) => std::slice::from_ref(of),
            Self::Gt(of) | Self::Gte(of) | Self::Lt(of) | Self::Lte(of) => std::slice::from_ref(of),
            Self::In(of) | Self::Nin(of) => of,
            Self::Contains(_) | Self::Exists => &[],
        }
    }

    /// Returns what is wrong with the test, if anything is.
    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Gt(of) | Self::Gte(of) | Self::Lt(of) | Self::Lte(of) => {
                matches!(of, AttributeValue::Boolean(_))
                    .then_some("expected a number or a text to compare with, got a truth value")
            }
            Self::In(of) | Self::Nin(of) => {
                of.is_empty().then_some("expected at least one value, got none")
            }
            Self::Eq(_) | Self::Ne(_) | Self::Contains(_) | Self::Exists => None,
        }
    }
}

impl Condition {
    /// Returns whether it is true of a document with these attributes.
    pub fn holds(&self, attributes: &Attributes) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(attributes)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(attributes)),
            Self::Not(part) => !part.holds(attributes),
            Self::Attribute(name, test) => {
                attributes.get(name).is_some_and(|value| test.passes(value))
            }
        }
    }

    /// Calls `visit` with the name of each attribute that is tested, once for each test.
    pub fn each_name<'a>(&'a self, visit: &mut impl FnMut(&'a AttributeName)) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.each_name(visit));
            }
            Self::Not(part) => part.each_name(visit),
            Self::Attribute(name, _) => visit(name),
        }
    }

    /// Adds what is wrong with the condition, which came in `field`, to `violations`.
    pub(crate) fn check(&self, field: &str, limits: &Limits, violations: &mut Violations) {
        let mut size = Size::default();
        if self.measure(1, limits, &mut size) {
            let problem = format!("expected at most {} levels", limits.condition_depth);
            violations.push(field, problem);
        }
        let bounds = [
            (size.nodes, limits.condition_nodes, "conditions"),
            (size.values, limits.condition_values, "values"),
            (size.bytes, limits.condition_bytes, "bytes of names and values"),
        ];
        for (got, most, of_what) in bounds {
            if got > most {
                violations.push(field, format!("expected at most {most} {of_what}, got {got}"));
            }
        }
        if let Some(problem) = size.problem {
            violations.push(field, problem);
        }
    }

    /// Adds up the size of the tree, which begins at a level. Returns whether it goes too deep.
    fn measure(&self, level: usize, limits: &Limits, size: &mut Size) -> bool {
        size.nodes += 1;
        if level > limits.condition_depth {
            return true;
        }
        match self {
            Self::All(parts) | Self::Any(parts) => {
                if parts.is_empty() {
                    size.problem.get_or_insert("expected at least one condition in a list of them");
                }
                parts.iter().any(|part| part.measure(level + 1, limits, size))
            }
            Self::Not(part) => part.measure(level + 1, limits, size),
            Self::Attribute(name, test) => {
                let part = match test {
                    AttributeTest::Contains(part) => part.len(),
                    _ => 0,
                };
                let values = test.values();
                size.values += values.len();
                let of_values = values.iter().map(AttributeValue::bytes).sum::<usize>();
                size.bytes += name.as_str().len() + part + of_values;
                size.problem = size.problem.or(test.problem());
                false
            }
        }
    }
}

/// Size of a condition, with the first problem that was found.
#[derive(Default)]
struct Size {
    nodes: usize,
    values: usize,
    bytes: usize,
    problem: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> AttributeName {
        name.to_owned().try_into().unwrap()
    }

    fn test(of: &str, test: AttributeTest) -> Condition {
        Condition::Attribute(name(of), test)
    }

    fn attributes() -> Attributes {
        let number = AttributeValue::number(2.5).unwrap();
        [
            (name("author"), "Ada".into()),
            (name("year"), 2020.into()),
            (name("rating"), number),
            (name("draft"), false.into()),
        ]
        .into()
    }

    #[test]
    fn each_test_is_true_or_false_of_every_value() {
        use AttributeTest::{Contains, Eq, Exists, Gt, Gte, In, Lt, Lte, Ne, Nin};
        let number = |number| AttributeValue::number(number).unwrap();
        let cases = [
            ("author", Eq("Ada".into()), true),
            ("author", Eq("ada".into()), false),
            ("author", Ne("ada".into()), true),
            ("author", Gt("A".into()), true),
            ("author", Lt("B".into()), true),
            ("author", Contains("da".to_owned()), true),
            ("author", Contains("Da".to_owned()), false),
            ("author", In(vec![1.into(), "Ada".into()]), true),
            ("author", Nin(vec!["Bohumil".into()]), true),
            ("author", Exists, true),
            ("year", Eq(number(2020.0)), true),
            ("year", Eq("2020".into()), false),
            ("year", Ne("2020".into()), true),
            ("year", Gt(number(2019.5)), true),
            ("year", Gt(2020.into()), false),
            ("year", Gte(2020.into()), true),
            ("year", Lte(2019.into()), false),
            ("year", Gt("1".into()), false),
            ("year", Lte("1".into()), false),
            ("year", Contains("20".to_owned()), false),
            ("rating", Lt(3.into()), true),
            ("rating", Nin(vec![number(2.5)]), false),
            ("draft", Eq(false.into()), true),
            ("draft", Ne(false.into()), false),
            ("draft", Eq(0.into()), false),
            ("draft", Exists, true),
        ];
        for (of, asked, expected) in cases {
            let condition = test(of, asked);
            assert_eq!(condition.holds(&attributes()), expected, "{condition:?}");
        }
    }

    #[test]
    fn no_test_is_true_of_an_attribute_that_is_not_there() {
        use AttributeTest::{Contains, Eq, Exists, Gt, Gte, In, Lt, Lte, Ne, Nin};
        let one = || AttributeValue::from(1);
        let tests = [
            Eq(one()),
            Ne(one()),
            Gt(one()),
            Gte(one()),
            Lt(one()),
            Lte(one()),
            In(vec![one()]),
            Nin(vec![one()]),
            Contains(String::new()),
            Exists,
        ];
        for asked in tests {
            let condition = test("nothing", asked);
            assert!(!condition.holds(&attributes()), "{condition:?}");
            assert!(Condition::Not(Box::new(condition)).holds(&attributes()));
        }
    }

    #[test]
    fn conditions_combine() {
        let yes = || test("author", AttributeTest::Exists);
        let no = || test("nothing", AttributeTest::Exists);
        let not = |condition| Condition::Not(Box::new(condition));
        let cases = [
            (Condition::All(vec![yes(), yes()]), true),
            (Condition::All(vec![yes(), no()]), false),
            (Condition::All(vec![]), true),
            (Condition::Any(vec![no(), yes()]), true),
            (Condition::Any(vec![no(), no()]), false),
            (Condition::Any(vec![]), false),
            (not(yes()), false),
            (not(Condition::Any(vec![no(), not(yes())])), true),
        ];
        for (condition, expected) in cases {
            assert_eq!(condition.holds(&attributes()), expected, "{condition:?}");
        }
    }

    #[test]
    fn a_condition_beyond_the_limits_is_refused_with_what_came() {
        let nested = |levels: usize| {
            let leaf = test("a", AttributeTest::Exists);
            (1..levels).fold(leaf, |inner, _| Condition::Not(Box::new(inner)))
        };
        let many = |of: usize| Condition::Any(vec![test("a", AttributeTest::Exists); of]);
        let listed = |of: usize| test("a", AttributeTest::In(vec![1.into(); of]));
        let long = |bytes: usize| test("a", AttributeTest::Contains("x".repeat(bytes)));
        let problems = |condition: &Condition| {
            let mut violations = Violations::default();
            condition.check("filter.condition", &Limits::default(), &mut violations);
            violations.into_result().err().map(|error| error.violations()[0].description.clone())
        };
        for good in [nested(16), many(255), listed(1000), long((64 << 10) - 1)] {
            assert_eq!(problems(&good), None);
        }
        let refused = [
            (nested(17), "16 levels"),
            (nested(5_000), "16 levels"),
            (many(256), "256 conditions, got 257"),
            (listed(1001), "1000 values, got 1001"),
            (long(64 << 10), "got 65537"),
            (many(0), "at least one condition"),
            (listed(0), "at least one value"),
            (test("a", AttributeTest::Gt(true.into())), "a number or a text"),
        ];
        for (condition, told) in refused {
            let problem = problems(&condition).unwrap();
            assert!(problem.contains(told), "{problem}");
        }
    }
}
