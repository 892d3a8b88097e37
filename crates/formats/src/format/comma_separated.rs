//! CSV with a header row. Empty cells count as absent.

use std::io::Read;

use csv::{ByteRecord, Reader as CsvReader, ReaderBuilder};

use super::Entry;
use crate::reader::{Reader, Rows};
use crate::row::{Row, Value};
use crate::{Options, Problem, Source, encoding};

pub(super) const ENTRY: Entry =
    Entry { name: "csv", extensions: &["csv"], reader: Reader::Rows(open) };

fn open(source: Source, options: &Options) -> Result<Rows, Problem> {
    let stream = encoding::utf8_stream(source.stream()?)?;
    // A record is held in memory, and CSV itself does not limit the length of a quoted cell.
    let limit = 2 * options.limits.document_bytes as u64 + (1 << 20);
    let mut reader = ReaderBuilder::new().from_reader(Metered { stream, left: limit, limit });
    let header = reader.byte_headers().map_err(problem)?.clone();
    let columns = header
        .iter()
        .map(|name| text(name).map(|name| name.trim().to_owned()))
        .collect::<Result<Vec<String>, Problem>>()?;
    if !columns.contains(&options.columns.text) {
        return Err(Problem::from(clew_core::Error::invalid(
            &options.columns.text,
            "expected a column of this name in the header row, got none",
        )));
    }
    Ok(Box::new(Records { reader, columns, limit, number: 0, is_done: false }))
}

struct Records {
    reader: CsvReader<Metered>,
    columns: Vec<String>,
    limit: u64,
    number: u64,
    is_done: bool,
}

impl Iterator for Records {
    type Item = (u64, Result<Row, Problem>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        self.number += 1;
        self.reader.get_mut().left = self.limit;
        let mut record = ByteRecord::new();
        let row = match self.reader.read_byte_record(&mut record) {
            Ok(false) => return None,
            Ok(true) => self.row(&record),
            Err(error) => {
                self.is_done = error.is_io_error();
                Err(problem(error))
            }
        };
        Some((self.number, row))
    }
}

impl Records {
    fn row(&self, record: &ByteRecord) -> Result<Row, Problem> {
        let mut fields = Vec::with_capacity(record.len());
        for (name, cell) in self.columns.iter().zip(record).filter(|(_, cell)| !cell.is_empty()) {
            fields.push((name.clone(), Value::Scalar(text(cell)?.into())));
        }
        Ok(Row { number: self.number, fields })
    }
}

fn text(cell: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(cell).map_err(|_| Problem::Encoding { encoding: "UTF-8" })
}

fn problem(error: csv::Error) -> Problem {
    Problem::malformed("CSV", error)
}

/// A stream that fails if one record is longer than the limit.
struct Metered {
    stream: Box<dyn Read + Send>,
    left: u64,
    limit: u64,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let message = format!("a row of more than {} bytes; is a quote left open?", self.limit);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
        }
        let length = self.stream.read(buffer)?;
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}
