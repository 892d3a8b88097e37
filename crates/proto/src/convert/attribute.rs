//! Conversions of attributes and their values.

use clew_core::{AttributeName, AttributeValue, Attributes, Violations};

use crate::ingest::v1 as wire;

/// Converts attributes from the wire. Adds violations, named `field`, if they are invalid.
pub(crate) fn attributes_from_wire(
    field: &str,
    attributes: Vec<wire::Attribute>,
    violations: &mut Violations,
) -> Attributes {
    let mut converted = Attributes::new();
    for wire::Attribute { name, value, typed } in attributes {
        let value = match typed {
            None => Ok(AttributeValue::Text(value)),
            Some(typed) => value_from_wire(typed),
        };
        let Ok(name) = AttributeName::try_from(name) else {
            violations.push(
                field,
                "expected attribute names of 1 to 64 letters, digits, `_`, `.` or `-`",
            );
            continue;
        };
        match value {
            Err(problem) => violations.push(field, format!("`{name}`: {problem}")),
            Ok(value) => {
                if converted.insert(name, value).is_some() {
                    violations.push(field, "duplicate name: each may be set once");
                }
            }
        }
    }
    converted
}

/// Converts attributes for the wire.
pub fn attributes_to_wire(attributes: &Attributes) -> Vec<wire::Attribute> {
    let attribute = |(name, value): (&AttributeName, &AttributeValue)| wire::Attribute {
        name: name.to_string(),
        value: value.to_string(),
        typed: value.as_text().is_none().then(|| value_to_wire(value)),
    };
    attributes.iter().map(attribute).collect()
}

/// Converts the value of an attribute from the wire.
///
/// # Errors
/// Returns what was expected.
pub(crate) fn value_from_wire(value: wire::Value) -> Result<AttributeValue, &'static str> {
    use wire::value::Kind;
    match value.kind {
        None => Err("expected a value of one of the types, got none"),
        Some(Kind::Text(text)) => Ok(AttributeValue::Text(text)),
        Some(Kind::Integer(integer)) => Ok(AttributeValue::Integer(integer)),
        Some(Kind::Number(number)) => {
            AttributeValue::number(number).ok_or("expected a number that is finite")
        }
        Some(Kind::Boolean(boolean)) => Ok(AttributeValue::Boolean(boolean)),
    }
}

/// Converts the value of an attribute for the wire.
pub(crate) fn value_to_wire(value: &AttributeValue) -> wire::Value {
    use wire::value::Kind;
    let kind = match value {
        AttributeValue::Text(text) => Kind::Text(text.clone()),
        AttributeValue::Integer(integer) => Kind::Integer(*integer),
        AttributeValue::Number(number) => Kind::Number(number.get()),
        AttributeValue::Boolean(boolean) => Kind::Boolean(*boolean),
    };
    wire::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> AttributeName {
        name.to_owned().try_into().unwrap()
    }

    fn attributes() -> Attributes {
        [
            (name("source"), "wiki".into()),
            (name("year"), 2020.into()),
            (name("rating"), AttributeValue::number(0.5).unwrap()),
            (name("draft"), false.into()),
        ]
        .into()
    }

    #[test]
    fn texts_are_the_same_for_clients_that_know_no_other_values() {
        let attributes = attributes_to_wire(&attributes());
        let told: Vec<_> = attributes
            .iter()
            .map(|attribute| {
                (attribute.name.as_str(), attribute.value.as_str(), attribute.typed.is_some())
            })
            .collect();
        let expected = [
            ("draft", "false", true),
            ("rating", "0.5", true),
            ("source", "wiki", false),
            ("year", "2020", true),
        ];
        assert_eq!(told, expected);
        let text = wire::Value { kind: Some(wire::value::Kind::Text("a".to_owned())) };
        let typed = wire::Attribute {
            name: "a".to_owned(),
            value: "ignored".to_owned(),
            typed: Some(text),
        };
        let mut violations = Violations::default();
        let back = attributes_from_wire("attributes", vec![typed], &mut violations);
        assert_eq!(back, [(name("a"), "a".into())].into());
    }
}
