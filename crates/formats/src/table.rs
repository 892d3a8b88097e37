//! Conversion of Arrow record batches to rows.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clew_core::{AttributeValue, Timestamp, Violations};

use crate::reader::Rows;
use crate::row::{Row, Value};
use crate::{Options, Problem};

/// Number of rows decoded at a time. Bounds the memory that long texts take.
pub(crate) const BATCH_ROWS: usize = 128;

/// Refuses a table without a text column, or with columns for which a document has no place.
pub(crate) fn check_schema(schema: &Schema, options: &Options) -> Result<(), Problem> {
    let columns = &options.columns;
    let mut violations = Violations::default();
    match schema.column_with_name(&columns.text) {
        None => violations.push(&columns.text, "expected a column of this name, got none"),
        Some((_, field)) if !is_text(field.data_type()) => violations.push(
            &columns.text,
            format!("expected a column of strings, got {}", field.data_type()),
        ),
        Some(_) => {}
    }
    for field in schema.fields().iter().filter(|field| !columns.ignored.contains(field.name())) {
        if !is_scalar(field.data_type()) {
            violations.push(
                field.name(),
                format!("expected a column of scalars, got {}; have it ignored", field.data_type()),
            );
        }
    }
    Ok(violations.into_result()?)
}

/// Maximum size of a table from standard input, as a multiple of the largest document: unlike a
/// file, it is held in memory.
pub(crate) const MAX_STREAMED_TEXTS: u64 = 16;

/// Returns the rows of `batches`, up to the first batch that cannot be decoded.
pub(crate) fn rows(
    mut batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    format: &'static str,
) -> Rows {
    let (mut rows_before, mut is_broken) = (0, false);
    let batches_of_rows = std::iter::from_fn(move || {
        if is_broken {
            return None;
        }
        let first = rows_before + 1;
        let rows = batches.next()?.and_then(|batch| {
            rows_before += batch.num_rows() as u64;
            rows_of(&batch, first)
        });
        is_broken = rows.is_err();
        Some(rows.unwrap_or_else(|error| vec![(first, Err(Problem::malformed(format, error)))]))
    });
    Box::new(batches_of_rows.flatten())
}

type NumberedRow = (u64, Result<Row, Problem>);

fn rows_of(batch: &RecordBatch, first: u64) -> Result<Vec<NumberedRow>, ArrowError> {
    let mut rows: Vec<Row> = (0..batch.num_rows() as u64)
        .map(|row| Row { number: first + row, fields: Vec::new() })
        .collect();
    let schema = batch.schema();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        // Other columns were refused with the schema, or are ignored. A column of nothing but nulls
        // may have the type of none.
        if !is_scalar(field.data_type()) || *field.data_type() == DataType::Null {
            continue;
        }
        let options = FormatOptions::default();
        let text = ArrayFormatter::try_new(column, &options)?;
        for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| column.is_valid(*index))
        {
            let value = match timestamp(column, index) {
                Some(time) => time.to_string().into(),
                None => value(field.data_type(), text.value(index).try_to_string()?),
            };
            row.fields.push((field.name().clone(), Value::Scalar(value)));
        }
    }
    Ok(rows.into_iter().map(|row| (row.number, Ok(row))).collect())
}

/// Returns the value that a text stands for in a column of a type. Integers beyond 64 bits with a
/// sign, and numbers that are infinite or undefined, stay texts.
fn value(data_type: &DataType, text: String) -> AttributeValue {
    let typed = match data_type {
        DataType::Dictionary(_, value_type) => return value(value_type, text),
        DataType::Boolean => text.parse().ok().map(AttributeValue::Boolean),
        other if other.is_integer() => text.parse().ok().map(AttributeValue::Integer),
        other if other.is_numeric() => text.parse().ok().and_then(AttributeValue::number),
        _ => None,
    };
    typed.unwrap_or(AttributeValue::Text(text))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_text(value),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

fn is_scalar(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_scalar(value),
        DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => true,
        DataType::Null => true,
        other => other.is_numeric() || is_text(other),
    }
}

/// Returns the time at `index` if the column holds timestamps. A time without a zone is taken as
/// UTC.
fn timestamp(column: &ArrayRef, index: usize) -> Option<Timestamp> {
    use arrow::datatypes as types;
    let DataType::Timestamp(unit, _) = column.data_type() else { return None };
    let micros = match unit {
        TimeUnit::Second => column
            .as_primitive::<types::TimestampSecondType>()
            .value(index)
            .saturating_mul(1_000_000),
        TimeUnit::Millisecond => column
            .as_primitive::<types::TimestampMillisecondType>()
            .value(index)
            .saturating_mul(1000),
        TimeUnit::Microsecond => {
            column.as_primitive::<types::TimestampMicrosecondType>().value(index)
        }
        TimeUnit::Nanosecond => {
            column.as_primitive::<types::TimestampNanosecondType>().value(index).div_euclid(1000)
        }
    };
    Some(Timestamp::from_micros(micros))
}
