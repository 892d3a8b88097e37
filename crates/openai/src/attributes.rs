//! Attributes of documents as JSON, and conditions on them.

use clew_proto::ingest::v1::{Attribute, Value as Typed, value::Kind as Of};
use clew_proto::query::v1::condition::Kind;
use clew_proto::query::v1::{Comparison, Condition, Conditions, Operator};
use serde_json::{Map, Value};

/// Returns the attributes of a document as an object.
pub(crate) fn object(attributes: &[Attribute]) -> Map<String, Value> {
    let value =
        |attribute: &Attribute| match attribute.typed.as_ref().and_then(|it| it.kind.as_ref()) {
            Some(Of::Integer(value)) => Value::from(*value),
            Some(Of::Number(value)) => Value::from(*value),
            Some(Of::Boolean(value)) => Value::from(*value),
            Some(Of::Text(value)) => Value::from(value.as_str()),
            None => Value::from(attribute.value.as_str()),
        };
    attributes.iter().map(|attribute| (attribute.name.clone(), value(attribute))).collect()
}

/// Returns the value of an attribute that JSON writes as `value`. Returns `None` for what no
/// attribute can be.
pub(crate) fn typed(value: &Value) -> Option<Typed> {
    let kind = match value {
        Value::String(text) => Of::Text(text.clone()),
        Value::Bool(value) => Of::Boolean(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Of::Integer(integer),
            None => Of::Number(number.as_f64()?),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Typed { kind: Some(kind) })
}

/// Returns the condition that an attribute compares like this with `values`.
pub(crate) fn compared(attribute: &str, operator: Operator, values: Vec<Typed>) -> Condition {
    let attribute = attribute.to_owned();
    let comparison = Comparison { attribute, operator: operator.into(), values };
    Condition { kind: Some(Kind::Comparison(comparison)) }
}

/// Returns the condition that is true if `condition` is not.
pub(crate) fn negated(condition: Condition) -> Condition {
    Condition { kind: Some(Kind::Negated(Box::new(condition))) }
}

/// Returns the condition that all of these are true, or at least one of them.
pub(crate) fn joined(conditions: Vec<Condition>, is_any: bool) -> Condition {
    let conditions = Conditions { conditions };
    let kind = if is_any { Kind::AnyOf(conditions) } else { Kind::AllOf(conditions) };
    Condition { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types() {
        for value in [json!("a"), json!(7), json!(0.5), json!(true)] {
            let attribute =
                Attribute { name: "a".to_owned(), typed: typed(&value), ..Default::default() };
            assert_eq!(Value::from(object(&[attribute])), json!({ "a": value }));
        }
        let text = Attribute { name: "a".to_owned(), value: "b".to_owned(), typed: None };
        assert_eq!(Value::from(object(&[text])), json!({"a": "b"}));
        assert!([json!(null), json!([1]), json!({})].iter().all(|value| typed(value).is_none()));
    }
}
