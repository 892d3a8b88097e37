//! Arrays of the values of a column.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder, UInt32Array,
    UInt64Array,
};
use arrow::record_batch::RecordBatch;
use clew_core::{AttributeName, Labels, Timestamp};

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
    A: IntoIterator<Item = (&'a AttributeName, &'a String)>,
{
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(attribute_item());
    for attributes in values {
        for (name, value) in attributes {
            lists.values().append_value(attribute_text(name.as_str(), value));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

pub(super) fn labels<'a>(values: impl Iterator<Item = &'a Labels>) -> ArrayRef {
    let texts = values.map(|labels| (!labels.is_empty()).then(|| labels.to_string()));
    Arc::new(StringArray::from_iter(texts))
}

/// Returns the text by which an attribute is stored and filtered.
pub(crate) fn attribute_text(name: &str, value: &str) -> String {
    format!("{name}={value}")
}
