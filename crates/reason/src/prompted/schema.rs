//! JSON schemas of replies. Fields stay in the order in which they are written, so that a model
//! reasons before it decides.

use clew_core::ReplyFormat;

/// Schema of a text.
pub(crate) const TEXT: &str = r#"{"type":"string"}"#;
/// Schema of a whole number.
pub(crate) const NUMBER: &str = r#"{"type":"integer"}"#;
/// Schema of a flag.
pub(crate) const FLAG: &str = r#"{"type":"boolean"}"#;

/// Returns the schema of an object with these fields, all of them required.
pub(crate) fn object(fields: &[(&str, &str)]) -> String {
    let properties: Vec<String> =
        fields.iter().map(|(name, schema)| format!(r#""{name}":{schema}"#)).collect();
    let names: Vec<String> = fields.iter().map(|(name, _)| format!(r#""{name}""#)).collect();
    format!(
        r#"{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}}"#,
        properties.join(","),
        names.join(",")
    )
}

/// Returns the schema of a list of at most `most` items.
pub(crate) fn list(items: &str, most: usize) -> String {
    format!(r#"{{"type":"array","items":{items},"maxItems":{most}}}"#)
}

/// Returns the format of a reply with this schema.
pub(crate) fn reply(schema: String) -> ReplyFormat {
    ReplyFormat::JsonSchema(schema)
}
