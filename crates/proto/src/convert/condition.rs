//! Conversions of conditions on attributes.

use clew_core::{AttributeName, AttributeTest, AttributeValue, Condition, Violations};

use crate::convert::attribute::{value_from_wire, value_to_wire};
use crate::query::v1 as wire;

/// Converts a condition from the wire, which came in `field`. Returns `None`, and adds violations,
/// if it is invalid.
pub(crate) fn condition_from_wire(
    field: &str,
    condition: wire::Condition,
    violations: &mut Violations,
) -> Option<Condition> {
    use wire::condition::Kind;
    match condition.kind {
        None => {
            violations.push(field, "expected one of the kinds of conditions, got none");
            None
        }
        Some(Kind::AllOf(all)) => {
            list_from_wire(&format!("{field}.all_of"), all, violations).map(Condition::All)
        }
        Some(Kind::AnyOf(any)) => {
            list_from_wire(&format!("{field}.any_of"), any, violations).map(Condition::Any)
        }
        Some(Kind::Negated(negated)) => {
            let inner = condition_from_wire(&format!("{field}.negated"), *negated, violations)?;
            Some(Condition::Not(Box::new(inner)))
        }
        Some(Kind::Comparison(comparison)) => {
            comparison_from_wire(&format!("{field}.comparison"), comparison, violations)
        }
    }
}

fn list_from_wire(
    field: &str,
    list: wire::Conditions,
    violations: &mut Violations,
) -> Option<Vec<Condition>> {
    let mut parts = Vec::with_capacity(list.conditions.len());
    for (place, part) in list.conditions.into_iter().enumerate() {
        parts.push(condition_from_wire(&format!("{field}.conditions[{place}]"), part, violations));
    }
    parts.into_iter().collect()
}

fn comparison_from_wire(
    field: &str,
    comparison: wire::Comparison,
    violations: &mut Violations,
) -> Option<Condition> {
    let operator = comparison.operator();
    let wire::Comparison { attribute, values, .. } = comparison;
    let name = AttributeName::try_from(attribute).ok();
    if name.is_none() {
        let problem = "expected a name of 1 to 64 letters, digits, `_`, `.` or `-`";
        violations.push(format!("{field}.attribute"), problem);
    }
    let mut converted = Vec::with_capacity(values.len());
    for (place, value) in values.into_iter().enumerate() {
        match value_from_wire(value) {
            Ok(value) => converted.push(value),
            Err(problem) => {
                violations.push(format!("{field}.values[{place}]"), problem);
                return None;
            }
        }
    }
    let test = test_from_wire(operator, converted);
    match test {
        Ok(test) => Some(Condition::Attribute(name?, test)),
        Err((part, problem)) => {
            violations.push(format!("{field}.{part}"), problem);
            None
        }
    }
}

/// Returns the test of an operator with its values, or the field at fault and what was expected.
fn test_from_wire(
    operator: wire::Operator,
    values: Vec<AttributeValue>,
) -> Result<AttributeTest, (&'static str, String)> {
    use wire::Operator;
    let got = values.len();
    let one = |test: fn(AttributeValue) -> AttributeTest| -> Result<_, (&'static str, String)> {
        let [value] = <[_; 1]>::try_from(values.clone())
            .map_err(|_| ("values", format!("expected one value for this operator, got {got}")))?;
        Ok(test(value))
    };
    match operator {
        Operator::Unspecified => Err(("operator", "expected a known operator".to_owned())),
        Operator::Eq => one(AttributeTest::Eq),
        Operator::Ne => one(AttributeTest::Ne),
        Operator::Gt => one(AttributeTest::Gt),
        Operator::Gte => one(AttributeTest::Gte),
        Operator::Lt => one(AttributeTest::Lt),
        Operator::Lte => one(AttributeTest::Lte),
        Operator::In => Ok(AttributeTest::In(values)),
        Operator::Nin => Ok(AttributeTest::Nin(values)),
        Operator::Contains => match values.as_slice() {
            [AttributeValue::Text(part)] => Ok(AttributeTest::Contains(part.clone())),
            _ => Err(("values", "expected one text for this operator".to_owned())),
        },
        Operator::Exists => match got {
            0 => Ok(AttributeTest::Exists),
            _ => Err(("values", format!("expected no value for this operator, got {got}"))),
        },
    }
}

/// Converts a condition for the wire.
pub(crate) fn condition_to_wire(condition: &Condition) -> wire::Condition {
    use wire::condition::Kind;
    let list = |parts: &[Condition]| wire::Conditions {
        conditions: parts.iter().map(condition_to_wire).collect(),
    };
    let kind = match condition {
        Condition::All(parts) => Kind::AllOf(list(parts)),
        Condition::Any(parts) => Kind::AnyOf(list(parts)),
        Condition::Not(part) => Kind::Negated(Box::new(condition_to_wire(part))),
        Condition::Attribute(name, test) => Kind::Comparison(comparison_to_wire(name, test)),
    };
    wire::Condition { kind: Some(kind) }
}

fn comparison_to_wire(name: &AttributeName, test: &AttributeTest) -> wire::Comparison {
    use wire::Operator;
    let one = |value| vec![value_to_wire(value)];
    let all = |values: &[AttributeValue]| values.iter().map(value_to_wire).collect();
    let (operator, values) = match test {
        AttributeTest::Eq(value) => (Operator::Eq, one(value)),
        AttributeTest::Ne(value) => (Operator::Ne, one(value)),
        AttributeTest::Gt(value) => (Operator::Gt, one(value)),
        AttributeTest::Gte(value) => (Operator::Gte, one(value)),
        AttributeTest::Lt(value) => (Operator::Lt, one(value)),
        AttributeTest::Lte(value) => (Operator::Lte, one(value)),
        AttributeTest::In(values) => (Operator::In, all(values)),
        AttributeTest::Nin(values) => (Operator::Nin, all(values)),
        AttributeTest::Contains(part) => {
            (Operator::Contains, one(&AttributeValue::Text(part.clone())))
        }
        AttributeTest::Exists => (Operator::Exists, Vec::new()),
    };
    wire::Comparison { attribute: name.to_string(), operator: operator.into(), values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_round_trip() {
        let texts = [
            "year >= 2020 and (author in (\"Ada\", \"Bohumil\") or not draft exists)",
            "a = x and b != 'y' and c > 1 and d < 1.5 and e <= z and f contains 'q'",
            "not (a not in (1, true, 'x', 2.5) or a = 1)",
        ];
        for text in texts {
            let condition: Condition = text.parse().unwrap();
            let mut violations = Violations::default();
            let wire = condition_to_wire(&condition);
            let back = condition_from_wire("filter.condition", wire, &mut violations);
            assert_eq!(back, Some(condition));
            violations.into_result().unwrap();
        }
    }

    #[test]
    fn a_condition_that_means_nothing_is_refused_by_the_field_at_fault() {
        use wire::Operator;
        use wire::condition::Kind;
        let value = |kind| crate::ingest::v1::Value { kind };
        let comparison = |operator: i32, values| wire::Comparison {
            attribute: "year".to_owned(),
            operator,
            values,
        };
        let one = || vec![value(Some(crate::ingest::v1::value::Kind::Integer(1)))];
        let of = |kind| wire::Condition { kind: Some(kind) };
        let leaf =
            |operator: Operator, values| of(Kind::Comparison(comparison(operator.into(), values)));
        let nameless = wire::Comparison { attribute: "a b".to_owned(), ..comparison(1, one()) };
        let all = |conditions| of(Kind::AllOf(wire::Conditions { conditions }));
        let cases = [
            (wire::Condition::default(), "condition"),
            (leaf(Operator::Unspecified, one()), "condition.comparison.operator"),
            (of(Kind::Comparison(comparison(99, one()))), "condition.comparison.operator"),
            (leaf(Operator::Eq, vec![]), "condition.comparison.values"),
            (leaf(Operator::Lt, [one(), one()].concat()), "condition.comparison.values"),
            (leaf(Operator::Exists, one()), "condition.comparison.values"),
            (leaf(Operator::Contains, one()), "condition.comparison.values"),
            (leaf(Operator::In, vec![value(None)]), "condition.comparison.values[0]"),
            (of(Kind::Comparison(nameless)), "condition.comparison.attribute"),
            (
                all(vec![leaf(Operator::Eq, one()), wire::Condition::default()]),
                "condition.all_of.conditions[1]",
            ),
            (of(Kind::Negated(Box::default())), "condition.negated"),
        ];
        for (condition, field) in cases {
            let mut violations = Violations::default();
            let told = format!("{condition:?}");
            let converted = condition_from_wire("condition", condition, &mut violations);
            assert_eq!(converted, None, "{told}");
            let error = violations.into_result().unwrap_err();
            assert_eq!(error.fields_at_fault(), [field], "{told}");
        }
    }
}
