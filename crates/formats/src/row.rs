//! Rows of tables and JSON lines, and their conversion to documents.

use clew_core::{
    AttributeName, AttributeValue, Attributes, Document, DocumentId, Labels, MediaType,
    SourceVersion, Violations,
};

use crate::{Options, Problem};

/// A row as its format provides it.
pub(crate) struct Row {
    /// Number of the row, from 1.
    pub(crate) number: u64,
    /// Fields by name, without those that have no value.
    pub(crate) fields: Vec<(String, Value)>,
}

/// Value of a field.
pub(crate) enum Value {
    /// A scalar.
    Scalar(AttributeValue),
    /// Names and values of attributes.
    Attributes(Vec<(String, Value)>),
    /// A list of texts.
    Texts(Vec<String>),
    /// A value of the named type, for which a document has no place.
    Nested(&'static str),
}

impl Row {
    /// Converts the row to a document. `file` names the document if the row has no id.
    pub(crate) fn into_document(self, file: &str, options: &Options) -> Result<Document, Problem> {
        let columns = &options.columns;
        let mut violations = Violations::default();
        let mut draft = Draft { attributes: options.attributes.clone(), ..Draft::default() };
        for (name, value) in self.fields {
            if columns.ignored.contains(&name) {
                continue;
            }
            match value {
                Value::Nested(kind) => violations.push(
                    &name,
                    format!(
                        "expected a scalar, got {kind}; leave the field out or have it ignored"
                    ),
                ),
                Value::Attributes(fields) => {
                    for (name, value) in fields {
                        draft.add_attribute(name, value, &mut violations);
                    }
                }
                Value::Scalar(value) if name == columns.id => draft.id = value.into_text(),
                Value::Scalar(value) if name == columns.text => {
                    draft.text = Some(value.into_text())
                }
                Value::Scalar(value) if name == columns.title => draft.title = value.into_text(),
                Value::Scalar(value) if name == columns.media_type => {
                    let name = value.into_text();
                    draft.media_type = violations.take(MediaType::try_from_name(&name));
                }
                Value::Scalar(value) if name == columns.event_time => {
                    draft.event_time = violations.take(value.into_text().parse());
                }
                Value::Scalar(value) if name == columns.labels => {
                    let value = value.into_text();
                    let labels = value.split(',').map(str::trim).filter(|label| !label.is_empty());
                    draft.labels = violations.take(Labels::parse(labels));
                }
                Value::Texts(labels) if name == columns.labels => {
                    draft.labels = violations.take(Labels::parse(labels));
                }
                Value::Scalar(value) if name == columns.source_version => {
                    let number = value.into_text();
                    match number.parse() {
                        Ok(number) => draft.source_version = Some(SourceVersion(number)),
                        Err(_) => violations.push(
                            &name,
                            format!("expected a whole number below 2^64, got `{number}`"),
                        ),
                    }
                }
                Value::Texts(_) => violations.push(
                    &name,
                    "expected a scalar, got an array; leave the field out or have it ignored",
                ),
                Value::Scalar(_) => draft.add_attribute(name, value, &mut violations),
            }
        }
        if draft.text.is_none() {
            violations.push(&columns.text, "expected a field or column of this name, got none");
        }
        if draft.id.is_empty() {
            draft.id = format!("{file}#{}", self.number);
        }
        violations.into_result()?;
        let document = Document {
            id: draft.id.parse::<DocumentId>()?,
            text: draft.text.unwrap_or_default(),
            media_type: draft.media_type.unwrap_or(MediaType::Plain),
            title: draft.title,
            attributes: draft.attributes,
            event_time: draft.event_time,
            labels: draft.labels.unwrap_or_default().union(&options.labels),
            source_version: draft.source_version,
        };
        let mut violations = Violations::default();
        document.check(&options.limits, &mut violations);
        violations.into_result()?;
        Ok(document)
    }
}

#[derive(Default)]
struct Draft {
    id: String,
    text: Option<String>,
    title: String,
    media_type: Option<MediaType>,
    event_time: Option<clew_core::Timestamp>,
    attributes: Attributes,
    labels: Option<Labels>,
    source_version: Option<SourceVersion>,
}

impl Draft {
    fn add_attribute(&mut self, name: String, value: Value, violations: &mut Violations) {
        let Value::Scalar(value) = value else {
            return violations.push(name, "expected an attribute that is a scalar");
        };
        if let Some(name) = violations.take(AttributeName::try_from(name)) {
            self.attributes.insert(name, value);
        }
    }
}
