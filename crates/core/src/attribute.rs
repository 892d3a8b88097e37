//! Attributes of documents: names with values, on which searches can filter.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::{Error, Limits, Violations};

/// Name of the attribute that says where a document can be opened: an absolute URL. Integrations
/// show it with citations.
pub const URL_ATTRIBUTE: &str = "url";
/// Name of the attribute that says which source a document comes from, such as a bucket, a wiki or
/// a mailbox.
pub const SOURCE_ATTRIBUTE: &str = "source";

/// Name of an attribute: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttributeName(String);

impl AttributeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a name may have this character.
    pub(crate) fn may_have(character: char) -> bool {
        character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-')
    }
}

impl TryFrom<String> for AttributeName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        if (1..=64).contains(&name.len()) && name.chars().all(Self::may_have) {
            return Ok(Self(name));
        }
        Err(Error::invalid(
            "document.attributes",
            "expected attribute names of 1 to 64 letters, digits, `_`, `.` or `-`",
        ))
    }
}

impl From<AttributeName> for String {
    fn from(name: AttributeName) -> String {
        name.0
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number that is neither infinite nor undefined, with 64 bits. Zero has no sign, so that numbers
/// that compare equal are the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FiniteNumber(f64);

impl FiniteNumber {
    /// Returns the number, or `None` if it is infinite or undefined.
    pub fn new(number: f64) -> Option<Self> {
        // Minus zero plus zero is zero.
        number.is_finite().then_some(Self(number + 0.0))
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Compares by value, without rounding either of the two.
    fn compare_with(self, integer: i64) -> Ordering {
        /// 2^63, which 64 bits of a number hold exactly.
        const BEYOND: f64 = 9_223_372_036_854_775_808.0;
        if self.0 >= BEYOND {
            return Ordering::Greater;
        }
        if self.0 < -BEYOND {
            return Ordering::Less;
        }
        let whole = self.0.trunc();
        // In range, so the conversion is exact.
        (whole as i64).cmp(&integer).then(self.0.total_cmp(&whole))
    }
}

impl Eq for FiniteNumber {}

impl Ord for FiniteNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for FiniteNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for FiniteNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// Value of an attribute.
///
/// Equality (`==`) tells types apart, so that a document whose value changes its type has changed,
/// and so does the order (`<`), which sorts by type first. Conditions compare by
/// [`AttributeValue::compare`], by which the integer 3 equals the number 3.0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Number with a fraction.
    Number(FiniteNumber),
    /// Truth value.
    Boolean(bool),
}

impl AttributeValue {
    /// Returns a number with a fraction, or `None` if it is infinite or undefined.
    pub fn number(number: f64) -> Option<Self> {
        FiniteNumber::new(number).map(Self::Number)
    }

    /// Returns the bytes that count towards the limit on attributes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Integer(_) | Self::Number(_) => 8,
            Self::Boolean(_) => 1,
        }
    }

    /// Compares two values: texts by their characters, integers and numbers by value, `false`
    /// before `true`. Returns `None` for values of types that cannot be compared.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Number(a), Self::Number(b)) => Some(a.cmp(b)),
            (Self::Number(a), Self::Integer(b)) => Some(a.compare_with(*b)),
            (Self::Integer(a), Self::Number(b)) => Some(b.compare_with(*a).reverse()),
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Returns whether two values compare as equal.
    pub fn equals(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }

    /// Returns the value as text, as `Display` writes it.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Integer(_) | Self::Number(_) | Self::Boolean(_) => self.to_string(),
        }
    }

    /// Returns the text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Number(_) | Self::Boolean(_) => None,
        }
    }
}

/// Writes the value as text. A number keeps a fraction or an exponent, so that it cannot be taken
/// for an integer.
impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(integer) => integer.fmt(f),
            Self::Number(number) => fmt::Debug::fmt(&number.0, f),
            Self::Boolean(boolean) => boolean.fmt(f),
        }
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for AttributeValue {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<bool> for AttributeValue {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

/// Attributes of a document, chosen by the caller, on which searches can filter.
pub type Attributes = BTreeMap<AttributeName, AttributeValue>;

/// Adds what is wrong with the number or the size of a document's attributes to `violations`.
pub(crate) fn check(attributes: &Attributes, limits: &Limits, violations: &mut Violations) {
    let bytes: usize = attributes.iter().map(|(name, value)| name.0.len() + value.bytes()).sum();
    if attributes.len() > limits.attributes || bytes > limits.attribute_bytes {
        let (most, most_bytes, got) = (limits.attributes, limits.attribute_bytes, attributes.len());
        violations.push(
            "document.attributes",
            format!(
                "expected at most {most} attributes of {most_bytes} bytes in all, got {got} of \
                 {bytes}"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: f64) -> AttributeValue {
        AttributeValue::number(number).unwrap()
    }

    #[test]
    fn integers_and_numbers_compare_by_value_without_rounding() {
        let ordered = [
            number(-1e300),
            number(-9_223_372_036_854_775_808.0),
            AttributeValue::Integer(i64::MIN + 1),
            number(-2.5),
            AttributeValue::Integer(-2),
            number(-1.5),
            number(0.0),
            number(f64::MIN_POSITIVE),
            AttributeValue::Integer(1),
            number(1.5),
            // Neither fits the bits of a number's fraction.
            number(9_007_199_254_740_992.0),
            AttributeValue::Integer(9_007_199_254_740_993),
            AttributeValue::Integer(i64::MAX),
            number(9_223_372_036_854_775_808.0),
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(a.compare(b), Some(i.cmp(&j)), "{a} and {b}");
            }
        }
        assert!(number(3.0).equals(&3.into()) && number(3.0) != 3.into());
        assert!(number(-0.0).equals(&0.into()));
        assert_eq!(number(-0.0), number(0.0));
        assert!(AttributeValue::Integer(i64::MIN).equals(&number(-9_223_372_036_854_775_808.0)));
        assert_eq!(AttributeValue::number(f64::NAN), None);
        assert_eq!(AttributeValue::number(f64::NEG_INFINITY), None);
    }

    #[test]
    fn values_of_other_types_do_not_compare() {
        let values = [AttributeValue::from("1"), 1.into(), true.into()];
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                assert_eq!(a.compare(b).is_some(), i == j, "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_number_as_text_is_no_integer() {
        let told = [number(3.0), number(-0.5), number(1e300)].map(|value| value.to_string());
        assert_eq!(told, ["3.0", "-0.5", "1e300"]);
    }
}
