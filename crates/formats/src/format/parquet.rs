//! Parquet tables.
//!
//! A maliciously crafted footer may state lists that exceed memory. The parser reserves room for
//! them unchecked, which ends the process. Read only Parquet files from parties you trust.

use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use super::Entry;
use crate::reader::{Reader, Rows};
use crate::source::RandomAccess;
use crate::{Options, Problem, Source, table};

pub(super) const ENTRY: Entry =
    Entry { name: "parquet", extensions: &["parquet"], reader: Reader::Rows(open) };

const NAME: &str = "a Parquet file";

fn open(source: Source, options: &Options) -> Result<Rows, Problem> {
    let limit = options.limits.document_bytes as u64 * table::MAX_STREAMED_TEXTS;
    match source.random_access(limit)? {
        RandomAccess::File(file) => open_chunks(file, options),
        RandomAccess::Memory(bytes) => open_chunks(Bytes::from(bytes), options),
    }
}

fn open_chunks(input: impl ChunkReader + 'static, options: &Options) -> Result<Rows, Problem> {
    let malformed = |error: ParquetError| Problem::malformed(NAME, error);
    let builder = ParquetRecordBatchReaderBuilder::try_new(input).map_err(malformed)?;
    table::check_schema(builder.schema(), options)?;
    let batches = builder.with_batch_size(table::BATCH_ROWS).build().map_err(malformed)?;
    Ok(table::rows(batches, NAME))
}
