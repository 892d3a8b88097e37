//! Parquet tables.
//!
//! A maliciously crafted footer may state lists that exceed memory. The parser reserves room for
//! them unchecked, which ends the process. Read only Parquet files from parties you trust.

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use super::Entry;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::source::RandomAccess;
use crate::{Options, Problem, Source, SourcePart, table};

pub(super) const ENTRY: Entry =
    Entry { name: "parquet", extensions: &["parquet"], reader: Reader::Rows(open) };

const NAME: &str = "a Parquet file";

fn open(source: Source, options: &Options) -> Result<Rows, Problem> {
    let limit = options.limits.document_bytes as u64 * table::MAX_STREAMED_TEXTS;
    let (part, name) = (source.part(), source.name().to_owned());
    let is_read = move |group| part.has_row_group(&name, group);
    let is_read = (part != SourcePart::WHOLE).then_some(is_read);
    match source.random_access(limit)? {
        RandomAccess::File(file) => open_chunks(file, is_read, options),
        RandomAccess::Object(object) => open_chunks(object, is_read, options),
        RandomAccess::Memory(bytes) => open_chunks(bytes, is_read, options),
    }
}

/// Opens a table. If only some row groups are read, the rows keep the numbers that they have in the
/// whole table.
fn open_chunks(
    input: impl ChunkReader + 'static,
    is_read: Option<impl Fn(usize) -> bool>,
    options: &Options,
) -> Result<Rows, Problem> {
    let malformed = |error: ParquetError| Problem::malformed(NAME, error);
    let builder = ParquetRecordBatchReaderBuilder::try_new(input).map_err(malformed)?;
    table::check_schema(builder.schema(), options)?;
    let mut builder = builder.with_batch_size(table::BATCH_ROWS);
    let mut numbers = Vec::new();
    if let Some(is_read) = is_read {
        let mut first = 1;
        let mut groups = Vec::new();
        for (group, metadata) in builder.metadata().row_groups().iter().enumerate() {
            let rows = u64::try_from(metadata.num_rows()).unwrap_or(0);
            if is_read(group) {
                groups.push(group);
                numbers.push(first..first + rows);
            }
            first += rows;
        }
        builder = builder.with_row_groups(groups);
    } else {
        numbers.push(1..u64::MAX);
    }
    let batches = builder.build().map_err(malformed)?;
    let rows = table::rows(batches, NAME);
    // A reader goes from group to group, so the numbers continue over their beginnings.
    Ok(Box::new(rows.zip(numbers.into_iter().flatten()).map(renumbered)))
}

fn renumbered(
    ((_, row), number): ((u64, Result<Row, Problem>), u64),
) -> (u64, Result<Row, Problem>) {
    (number, row.map(|row| Row { number, ..row }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, NullArray, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::{FileFormat, read};

    /// A table of 100 rows in row groups of 7.
    fn table() -> Vec<u8> {
        let texts: StringArray = (1..=100).map(|row| Some(format!("Text of row {row}."))).collect();
        let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as _)]).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(7)).build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    #[test]
    fn a_column_of_no_type_gives_no_attribute() {
        let columns: [(&str, ArrayRef); 2] = [
            ("text", Arc::new(StringArray::from(vec!["A text."]))),
            ("nothing", Arc::new(NullArray::new(1))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let rows = table::rows(std::iter::once(Ok(batch)), NAME);
        let fields: Vec<String> =
            rows.flat_map(|(_, row)| row.unwrap().fields).map(|(name, _)| name).collect();
        assert_eq!(fields, ["text"]);
    }

    #[test]
    fn parts_divide_the_row_groups_and_rows_keep_their_numbers() {
        let whole = Source::bytes("t.parquet", table());
        let rows = |source: Source| -> BTreeMap<String, String> {
            read(source, FileFormat::Parquet, &Options::default())
                .map(|document| document.map(|it| (it.id.to_string(), it.text)).unwrap())
                .collect()
        };
        let all = rows(whole.clone());
        assert_eq!(all.len(), 100);
        for count in [1, 2, 5, 40] {
            let mut of_parts = BTreeMap::new();
            for index in 0..count {
                let part = SourcePart::try_new(index, count).unwrap();
                for (id, text) in rows(whole.clone().row_groups_of(part)) {
                    assert_eq!(of_parts.insert(id, text), None);
                }
            }
            assert_eq!(of_parts, all, "{count} parts");
        }
    }
}
