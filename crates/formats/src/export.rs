//! Writes exported tables into a folder, one file per table.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::json::LineDelimitedWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// Number of rows, and of bytes, of a Parquet file that are kept in memory before they are written.
const GROUP_ROWS: usize = 50_000;
const GROUP_BYTES: usize = 64 << 20;
/// Extension of a file that is not complete yet.
const PART: &str = "part";

/// File format of exported tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// JSON Lines: one object per line. `documents.jsonl` can be ingested again.
    Jsonl,
    /// Parquet, compressed with zstd.
    Parquet,
}

impl ExportFormat {
    fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "jsonl" => Ok(Self::Jsonl),
            "parquet" => Ok(Self::Parquet),
            _ => Err(format!("expected jsonl or parquet, got `{name}`")),
        }
    }
}

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file system failed, or the folder is not empty.
    #[error("`{path}`: {source}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The rows are not valid, or cannot be written to the table.
    #[error("rows of `{table}` cannot be written: {source}")]
    Rows {
        /// Name of the table.
        table: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An export in progress. Its files have temporary names until all of them are complete.
pub struct Export {
    folder: PathBuf,
    format: ExportFormat,
    tables: BTreeMap<String, Table>,
}

struct Table {
    path: PathBuf,
    /// Schema of the first rows. Later rows are adapted to it.
    schema: SchemaRef,
    writer: Writer,
    rows: u64,
}

enum Writer {
    Lines(LineDelimitedWriter<BufWriter<File>>),
    // Boxed because it is large.
    Parquet(Box<ArrowWriter<File>>),
}

impl Export {
    /// Begins an export to a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns [`ExportError::Io`] if the folder cannot be created or is not empty.
    pub fn begin(folder: &Path, format: ExportFormat) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Io { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            let source = io::Error::other("expected an empty folder or none");
            return Err(failed(source));
        }
        Ok(Self { folder: folder.to_owned(), format, tables: BTreeMap::new() })
    }

    /// Writes rows of a table, given as a stream in Arrow's IPC format.
    ///
    /// # Errors
    /// Returns [`ExportError::Rows`] if the rows or the table's name are not valid, and
    /// [`ExportError::Io`] if a file cannot be created.
    pub fn write(&mut self, table: &str, rows: &[u8]) -> Result<(), ExportError> {
        let failed = |error: ArrowError| of_rows(table, error);
        let is_name = |b: u8| b.is_ascii_lowercase() || b == b'_';
        if table.is_empty() || !table.bytes().all(is_name) {
            return Err(of_rows(table, "expected a name of a-z and `_`"));
        }
        let reader = StreamReader::try_new(Cursor::new(rows), None).map_err(failed)?;
        if !self.tables.contains_key(table) {
            let new = Table::create(&self.folder, table, self.format, reader.schema())?;
            self.tables.insert(table.to_owned(), new);
        }
        let Some(known) = self.tables.get_mut(table) else { return Ok(()) };
        for batch in reader {
            known.write(table, &batch.map_err(failed)?)?;
        }
        Ok(())
    }

    /// Finishes the export: writes the remaining rows and gives the files their final names.
    /// Returns the number of rows of each table.
    ///
    /// # Errors
    /// Returns [`ExportError::Rows`] or [`ExportError::Io`] if a file cannot be completed.
    pub fn finish(self) -> Result<BTreeMap<String, u64>, ExportError> {
        let mut rows = BTreeMap::new();
        let mut written = Vec::new();
        for (name, table) in self.tables {
            rows.insert(name.clone(), table.rows);
            written.push(table.finish(&name)?);
        }
        for part in written {
            let path = part.with_extension("");
            fs::rename(&part, &path).map_err(|source| ExportError::Io { path, source })?;
        }
        Ok(rows)
    }
}

impl Table {
    fn create(
        folder: &Path,
        name: &str,
        format: ExportFormat,
        schema: SchemaRef,
    ) -> Result<Self, ExportError> {
        let path = folder.join(format!("{name}.{}.{PART}", format.extension()));
        let file = File::create_new(&path)
            .map_err(|source| ExportError::Io { path: path.clone(), source })?;
        let writer = match format {
            ExportFormat::Jsonl => Writer::Lines(LineDelimitedWriter::new(BufWriter::new(file))),
            ExportFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .build();
                let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(|error| of_rows(name, error))?))
            }
        };
        Ok(Self { path, schema, writer, rows: 0 })
    }

    fn write(&mut self, name: &str, batch: &RecordBatch) -> Result<(), ExportError> {
        let failed = |error: ArrowError| of_rows(name, error);
        // A shard written by another release may have other columns.
        let column = |field: &Arc<arrow::datatypes::Field>| -> ArrayRef {
            match batch.column_by_name(field.name()) {
                Some(found) if found.data_type() == field.data_type() => Arc::clone(found),
                _ => new_null_array(field.data_type(), batch.num_rows()),
            }
        };
        let columns = self.schema.fields().iter().map(column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)?;
        self.rows += batch.num_rows() as u64;
        match &mut self.writer {
            Writer::Lines(writer) => writer.write(&batch).map_err(failed),
            Writer::Parquet(writer) => {
                let written = writer.write(&batch);
                let flushed = written.and_then(|()| match writer.in_progress_size() {
                    size if size >= GROUP_BYTES => writer.flush(),
                    _ => Ok(()),
                });
                flushed.map_err(|error: ParquetError| of_rows(name, error))
            }
        }
    }

    /// Completes the file and returns its path.
    fn finish(self, name: &str) -> Result<PathBuf, ExportError> {
        let file = match self.writer {
            Writer::Lines(mut writer) => {
                writer.finish().map_err(|error| of_rows(name, error))?;
                let mut buffer = writer.into_inner();
                let flushed = buffer.flush().and_then(|()| Ok(buffer.into_inner()?));
                flushed.map_err(|source| ExportError::Io { path: self.path.clone(), source })?
            }
            Writer::Parquet(writer) => writer.into_inner().map_err(|error| of_rows(name, error))?,
        };
        file.sync_all().map_err(|source| ExportError::Io { path: self.path.clone(), source })?;
        Ok(self.path)
    }
}

fn of_rows(
    table: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ExportError {
    ExportError::Rows { table: table.to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::ipc::writer::StreamWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    }

    fn names(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn rows_of_both_releases_are_written_and_nothing_looks_whole_before_the_end() {
        for format in [ExportFormat::Jsonl, ExportFormat::Parquet] {
            let temporary = tempfile::tempdir().unwrap();
            let folder = temporary.path().join("out");
            let mut export = Export::begin(&folder, format).unwrap();
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
            let first = rows(vec![("id", names(&["a", "b"])), ("number", numbers)]);
            export.write("documents", &first).unwrap();
            // Rows of a shard that lacks the column `number` and has another one.
            let other = rows(vec![("more", names(&["x"])), ("id", names(&["c"]))]);
            if format == ExportFormat::Jsonl {
                export.write("documents", &other).unwrap();
            }
            assert!(export.write("documents", b"no rows").is_err());
            assert!(export.write("../x", &first).is_err());
            assert!(!folder.join(format!("documents.{}", format.extension())).exists());
            let written = export.finish().unwrap()["documents"];
            let path = folder.join(format!("documents.{}", format.extension()));
            match format {
                ExportFormat::Jsonl => {
                    let text = fs::read_to_string(path).unwrap();
                    let expected = "{\"id\":\"a\",\"number\":1}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n";
                    assert_eq!((text.as_str(), written), (expected, 3));
                }
                ExportFormat::Parquet => {
                    let file = File::open(path).unwrap();
                    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
                    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
                    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
                    assert_eq!(written, 2);
                }
            }
            assert!(Export::begin(&folder, format).is_err());
        }
    }
}
