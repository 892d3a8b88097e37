//! Arrays of the values of a column.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder, UInt32Array,
    UInt64Array,
};
use arrow::record_batch::RecordBatch;
use clew_core::{AttributeName, AttributeValue, Labels, Timestamp};

use crate::error::{Error, Result};
use crate::table::kind::TableKind;
use crate::table::schema::attribute_item;
use crate::table::vectors::VectorColumn;

/// Makes rows of a table of its columns.
pub(super) fn record_batch(
    table: TableKind,
    vectors: &[VectorColumn],
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    RecordBatch::try_new(table.schema(vectors), columns).map_err(|error| Error::Unavailable {
        doing: format!("make rows of table `{table}`"),
        source: error.into(),
    })
}

pub(super) fn texts<T: AsRef<str>>(values: impl ExactSizeIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(super) fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(super) fn optional_u64s(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter(values))
}

pub(super) fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

pub(super) fn flags(values: impl ExactSizeIterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values.collect::<Vec<bool>>()))
}

pub(super) fn times(values: impl Iterator<Item = Option<Timestamp>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values.map(|time| time.map(Timestamp::as_micros))))
}

pub(super) fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

pub(super) fn attributes<'a, A>(values: impl Iterator<Item = A>) -> ArrayRef
where
    A: IntoIterator<Item = (&'a AttributeName, &'a AttributeValue)>,
{
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(attribute_item());
    for attributes in values {
        for (name, value) in attributes {
            lists.values().append_value(attribute_text(name, value));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

pub(super) fn labels<'a>(values: impl Iterator<Item = &'a Labels>) -> ArrayRef {
    let texts = values.map(|labels| (!labels.is_empty()).then(|| labels.to_string()));
    Arc::new(StringArray::from_iter(texts))
}

/// Returns the text by which an attribute is stored: `name=text` or `name:type=value`. No name
/// contains `=` or `:`.
pub(crate) fn attribute_text(name: &AttributeName, value: &AttributeValue) -> String {
    match value_type(value) {
        Some(kind) => format!("{name}:{kind}={value}"),
        None => format!("{name}={value}"),
    }
}

/// Returns the name of the type of a value, or `None` for a text.
pub(crate) fn value_type(value: &AttributeValue) -> Option<&'static str> {
    match value {
        AttributeValue::Text(_) => None,
        AttributeValue::Integer(_) => Some(INTEGER),
        AttributeValue::Number(_) => Some(NUMBER),
        AttributeValue::Boolean(_) => Some(BOOLEAN),
    }
}

/// Returns the text by which an attribute that is a text is stored and filtered.
pub(crate) fn text_attribute(name: &AttributeName, text: &str) -> String {
    format!("{name}={text}")
}

const INTEGER: &str = "integer";
const NUMBER: &str = "number";
const BOOLEAN: &str = "boolean";

/// Returns the name of a stored attribute, and the rest for [`attribute_value`]. Returns `None` if
/// it is damaged.
pub(crate) fn attribute_name(stored: &str) -> Option<(&str, &str)> {
    Some(stored.split_at(stored.find(['=', ':'])?))
}

/// Returns the value of a stored attribute, from what follows its name. Returns `None` if it is
/// damaged.
pub(crate) fn attribute_value(stored: &str) -> Option<AttributeValue> {
    if let Some(text) = stored.strip_prefix('=') {
        return Some(AttributeValue::from(text));
    }
    let (kind, value) = stored.strip_prefix(':')?.split_once('=')?;
    match kind {
        INTEGER => value.parse().ok().map(AttributeValue::Integer),
        NUMBER => value.parse().ok().and_then(AttributeValue::number),
        BOOLEAN => value.parse().ok().map(AttributeValue::Boolean),
        _ => None,
    }
}
