//! Arrow IPC tables, as files (also called Feather) and as streams.

mod lengths;

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};

use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};

use super::Entry;
use crate::object::ObjectReader;
use crate::reader::{Reader, Rows};
use crate::source::RandomAccess;
use crate::{Options, Problem, Source, table};

pub(super) const ENTRY: Entry = Entry {
    name: "arrow",
    extensions: &["arrow", "arrows", "feather", "ipc"],
    reader: Reader::Rows(open),
};

const NAME: &str = "an Arrow IPC file or stream";
/// Bytes that a file begins with, but a stream does not.
const FILE_MAGIC: &[u8] = b"ARROW1";

fn open(source: Source, options: &Options) -> Result<Rows, Problem> {
    let limit = options.limits.document_bytes as u64 * table::MAX_STREAMED_TEXTS;
    match source.random_access(limit)? {
        RandomAccess::File(file) => open_input(file, options),
        RandomAccess::Object(object) => open_input(ObjectReader::from(object), options),
        RandomAccess::Memory(bytes) => open_input(Cursor::new(bytes), options),
    }
}

fn open_input(
    mut input: impl Read + Seek + Send + 'static,
    options: &Options,
) -> Result<Rows, Problem> {
    let malformed = |error: ArrowError| Problem::malformed(NAME, error);
    let mut magic = Vec::new();
    input.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let is_file = magic == FILE_MAGIC;
    let mut input = BufReader::new(input);
    let is_whole = if is_file {
        lengths::file_holds_blocks(&mut input)?
    } else {
        lengths::stream_holds_messages(&mut input)?
    };
    if !is_whole {
        return Err(Problem::malformed(NAME, "it ends before the lengths it states"));
    }
    input.seek(SeekFrom::Start(0))?;
    if is_file {
        let batches = FileReader::try_new(input, None).map_err(malformed)?;
        table::check_schema(&batches.schema(), options)?;
        Ok(table::rows(batches, NAME))
    } else {
        let batches = StreamReader::try_new(input, None).map_err(malformed)?;
        table::check_schema(&batches.schema(), options)?;
        Ok(table::rows(batches, NAME))
    }
}
