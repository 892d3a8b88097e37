//! Checks of JSON values against a JSON schema.
//!
//! Source: JSON Schema 2020-12, limited to the keywords that requests to language models use:
//! `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `minItems`,
//! `maxItems`, `minimum`, `maximum`, `minLength`, `maxLength`, `anyOf`, `allOf` and `$ref` into the
//! same schema. Other keywords are ignored, which can only admit more values than the schema does.

use serde_json::Value;

/// Maximum nesting of references and values: that of a JSON text.
const DEEPEST: usize = 128;

/// Returns why the schema does not admit `value`, for the model to read, or `None`. The text names
/// properties of the value.
pub(crate) fn problem(schema: &Value, value: &Value) -> Option<String> {
    Check { root: schema }.value(schema, value, "the value", 0).err()
}

/// Returns whether OpenAI accepts the schema as a strict one: every object lists all its properties
/// as required and admits no others.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            let names = keywords.get("properties").and_then(Value::as_object);
            let is_object = match keywords.get("type") {
                Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
                one => one.is_some_and(|one| one == "object"),
            };
            let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
            let required = keywords.get("required").and_then(Value::as_array);
            let is_complete = names.is_some_and(|names| {
                let is_required = |name: &String| {
                    required.is_some_and(|required| required.iter().any(|other| other == name))
                };
                names.keys().all(is_required)
            });
            (!is_object || is_closed && is_complete) && keywords.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

struct Check<'a> {
    root: &'a Value,
}

impl Check<'_> {
    /// Checks `value` against `schema`. `at` says where in the reply the value is.
    fn value(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("{at} is nested too deeply"));
        }
        let keywords = match schema {
            Value::Bool(false) => return Err(format!("{at} must not be there")),
            Value::Object(keywords) => keywords,
            _ => return Ok(()),
        };
        let deeper = depth + 1;
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            // A reference that leads out of the schema cannot be checked.
            if let Some(target) = target.strip_prefix('#').and_then(|path| self.root.pointer(path))
            {
                self.value(target, value, at, deeper)?;
            }
        }
        if let Some(expected) = keywords.get("type")
            && !is_of_type(expected, value)
        {
            return Err(format!("{at} must be of type {expected}"));
        }
        if let Some(Value::Array(values)) = keywords.get("enum")
            && !values.contains(value)
        {
            return Err(format!("{at} must be one of {}", Value::from(values.clone())));
        }
        if let Some(expected) = keywords.get("const")
            && expected != value
        {
            return Err(format!("{at} must be {expected}"));
        }
        let alternatives = |keyword| keywords.get(keyword).and_then(Value::as_array);
        for all in alternatives("allOf").into_iter().flatten() {
            self.value(all, value, at, deeper)?;
        }
        if let Some(any) = alternatives("anyOf") {
            let problems = any.iter().map(|schema| self.value(schema, value, at, deeper).err());
            let problems: Option<Vec<String>> = problems.collect();
            if let Some(problem) = problems.and_then(|problems| problems.into_iter().next()) {
                return Err(problem);
            }
        }
        self.bounds(keywords, value, at)?;
        match value {
            Value::Object(members) => self.members(keywords, members, at, deeper),
            Value::Array(items) => {
                let Some(schema) = keywords.get("items") else { return Ok(()) };
                items.iter().enumerate().try_for_each(|(index, item)| {
                    self.value(schema, item, &format!("item {index} of {at}"), deeper)
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn members(
        &self,
        keywords: &serde_json::Map<String, Value>,
        members: &serde_json::Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let required = keywords.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.find(|name| !members.contains_key(*name)) {
            return Err(format!("{at} lacks the property `{missing}`"));
        }
        let properties = keywords.get("properties").and_then(Value::as_object);
        for (name, member) in members {
            let schema = match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => schema,
                None => keywords.get("additionalProperties").unwrap_or(&Value::Bool(true)),
            };
            self.value(schema, member, &format!("`{name}` of {at}"), depth)?;
        }
        Ok(())
    }

    fn bounds(
        &self,
        keywords: &serde_json::Map<String, Value>,
        value: &Value,
        at: &str,
    ) -> Result<(), String> {
        let (measure, size, low, high) = match value {
            Value::Array(items) => ("number of items", items.len() as f64, "minItems", "maxItems"),
            Value::String(text) => {
                ("number of characters", text.chars().count() as f64, "minLength", "maxLength")
            }
            Value::Number(number) => {
                ("value", number.as_f64().unwrap_or(f64::NAN), "minimum", "maximum")
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => return Ok(()),
        };
        let bound = |keyword| keywords.get(keyword).and_then(Value::as_f64);
        if let Some(low) = bound(low).filter(|low| size < *low) {
            return Err(format!("the {measure} of {at} must be at least {low}"));
        }
        if let Some(high) = bound(high).filter(|high| size > *high) {
            return Err(format!("the {measure} of {at} must be at most {high}"));
        }
        Ok(())
    }
}

fn is_of_type(expected: &Value, value: &Value) -> bool {
    match expected {
        Value::Array(types) => types.iter().any(|expected| is_of_type(expected, value)),
        Value::String(name) => match name.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            _ => true,
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_schema_does_not_admit_is_said() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "age": {"type": ["integer", "null"], "minimum": 0},
                "kind": {"enum": ["cat", "dog"]},
                "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
                "either": {"anyOf": [{"type": "boolean"}, {"const": 7}]}
            },
            "required": ["name"],
            "additionalProperties": false
        });
        let cases = [
            (json!({"name": "a", "age": 3.0, "kind": "cat", "either": 7}), None),
            (json!({"name": "a", "friends": [{"name": "b", "age": null}]}), None),
            (json!([]), Some(r#"the value must be of type "object""#)),
            (json!({}), Some("the value lacks the property `name`")),
            (
                json!({"name": ""}),
                Some("the number of characters of `name` of the value must be at least 1"),
            ),
            (
                json!({"name": "a", "age": -1}),
                Some("the value of `age` of the value must be at least 0"),
            ),
            (
                json!({"name": "a", "age": 1.5}),
                Some(r#"`age` of the value must be of type ["integer","null"]"#),
            ),
            (
                json!({"name": "a", "kind": "cow"}),
                Some(r#"`kind` of the value must be one of ["cat","dog"]"#),
            ),
            (json!({"name": "a", "more": 1}), Some("`more` of the value must not be there")),
            (
                json!({"name": "a", "either": 8}),
                Some(r#"`either` of the value must be of type "boolean""#),
            ),
            (
                json!({"name": "a", "friends": [{}]}),
                Some("item 0 of `friends` of the value lacks the property `name`"),
            ),
            (
                json!({"name": "a", "friends": [{"name": "b"}, {"name": "c"}]}),
                Some("the number of items of `friends` of the value must be at most 1"),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(problem(&schema, &value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_reference_to_itself_ends() {
        assert!(problem(&json!({"$ref": "#"}), &json!(1)).is_some());
    }

    #[test]
    fn strict_schemas_are_closed_and_complete() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}},
                            "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&closed));
        for missing in ["required", "additionalProperties"] {
            let mut open = closed.clone();
            open.as_object_mut().unwrap().remove(missing);
            assert!(!is_strict(&open), "{missing}");
            assert!(!is_strict(&json!({"type": "array", "items": open})), "{missing}");
            open["type"] = json!(["null", "object"]);
            assert!(!is_strict(&open), "{missing} of an object that may be null");
        }
    }
}
