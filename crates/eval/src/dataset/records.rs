//! Records of a JSON Lines file or of a JSON array, gzipped or not, one at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeOwned;

use crate::Error;

/// Maximum bytes of a record. The largest known one, a LongMemEval haystack of 500 sessions, has
/// about a tenth of that. A file without any structure must not fill the memory.
const MAX_RECORD_BYTES: usize = 64 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Record, with the line on which it begins.
pub(crate) struct Record<T> {
    /// Line of the file, from 1.
    pub line: u64,
    pub value: T,
}

/// Records of one file, in order. After an error there are no more.
pub(crate) struct Records<T> {
    path: PathBuf,
    input: Input,
    position: Position,
    values: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    InLines,
    InArrayBeforeFirst,
    InArrayAfterValue,
    End,
}

impl<T: DeserializeOwned> Records<T> {
    /// Opens `path`. The contents, not the name, decide how the file is read.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let input = Input::open(path).map_err(|source| Error::unreadable(path, source))?;
        Ok(Self { path: path.to_owned(), input, position: Position::Start, values: PhantomData })
    }

    fn read_next(&mut self) -> Result<Option<Record<T>>, Error> {
        if self.position == Position::End {
            return Ok(None);
        }
        let mut byte = self.skip_blanks()?;
        if self.position == Position::Start {
            self.position = Position::InLines;
            if byte == Some(b'[') {
                byte = self.skip_byte()?;
                self.position = Position::InArrayBeforeFirst;
            }
        }
        match (self.position, byte) {
            (Position::InLines, None) => return self.end(),
            (Position::InArrayBeforeFirst | Position::InArrayAfterValue, Some(b']')) => {
                return match self.skip_byte()? {
                    None => self.end(),
                    Some(_) => Err(self.malformed("expected nothing after the array")),
                };
            }
            (Position::InArrayAfterValue, Some(b',')) => {
                self.skip_byte()?;
            }
            (Position::InArrayAfterValue, Some(_)) => {
                return Err(self.malformed("expected `,` or `]` after an element"));
            }
            (_, None) => return Err(self.malformed("the file ends within an array")),
            (_, Some(_)) => {}
        }
        let record = self.parse()?;
        if self.position == Position::InArrayBeforeFirst {
            self.position = Position::InArrayAfterValue;
        }
        Ok(Some(record))
    }

    fn parse(&mut self) -> Result<Record<T>, Error> {
        let line = self.input.line;
        self.input.record_bytes_left = MAX_RECORD_BYTES;
        // One deserializer per record: it reads byte by byte and stops at the record's last brace.
        let mut deserializer = serde_json::Deserializer::from_reader(&mut self.input);
        match T::deserialize(&mut deserializer) {
            Ok(value) => Ok(Record { line, value }),
            Err(error) if error.is_io() => {
                Err(Error::unreadable(&self.path, io::Error::from(error)))
            }
            Err(error) => {
                let message = error.to_string();
                // serde_json counts lines from the record's beginning, which would only mislead.
                let problem = message.split(" at line ").next().unwrap_or(&message);
                Err(self.malformed(problem))
            }
        }
    }

    fn end(&mut self) -> Result<Option<Record<T>>, Error> {
        self.position = Position::End;
        Ok(None)
    }

    fn malformed(&self, problem: &str) -> Error {
        Error::malformed(&self.path, self.input.line, problem)
    }

    fn skip_blanks(&mut self) -> Result<Option<u8>, Error> {
        self.input.skip_blanks().map_err(|source| Error::unreadable(&self.path, source))
    }

    fn skip_byte(&mut self) -> Result<Option<u8>, Error> {
        self.input.consume(1);
        self.skip_blanks()
    }
}

impl<T: DeserializeOwned> Iterator for Records<T> {
    type Item = Result<Record<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.read_next();
        if record.is_err() {
            self.position = Position::End;
        }
        record.transpose()
    }
}

/// Unpacked bytes of a file, with the current line.
struct Input {
    bytes: Box<dyn BufRead + Send>,
    line: u64,
    record_bytes_left: usize,
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let is_gzip = file.fill_buf()?.starts_with(&GZIP_MAGIC);
        let bytes: Box<dyn BufRead + Send> = if is_gzip {
            Box::new(BufReader::new(MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self { bytes, line: 1, record_bytes_left: 0 })
    }

    /// Consumes blanks, and returns the byte after them without consuming it.
    fn skip_blanks(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.bytes.fill_buf()?.first().copied() {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.consume(1);
                    self.line += u64::from(byte == b'\n');
                }
                other => return Ok(other),
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.bytes.consume(bytes);
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.record_bytes_left == 0 {
            let message = format!("expected records of at most {MAX_RECORD_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let wanted = out.len().min(self.record_bytes_left);
        let count = self.bytes.read(&mut out[..wanted])?;
        self.record_bytes_left -= count;
        self.line += out[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::Value;

    use super::*;

    fn read(bytes: &[u8]) -> (Vec<(u64, String)>, Option<Error>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let (mut values, mut error) = (Vec::new(), None);
        for record in Records::<Value>::open(file.path()).unwrap() {
            match record {
                Ok(record) => values.push((record.line, record.value.to_string())),
                Err(broken) => error = Some(broken),
            }
        }
        (values, error)
    }

    fn check(text: &str, expected: &[(u64, &str)]) {
        let expected: Vec<_> = expected.iter().map(|&(line, v)| (line, v.to_owned())).collect();
        let (values, error) = read(text.as_bytes());
        assert!(error.is_none(), "{text:?}: {error:?}");
        assert_eq!(values, expected, "{text:?}");
    }

    fn check_broken(text: &str, read_before: usize, line: u64, problem: &str) {
        let (values, error) = read(text.as_bytes());
        assert_eq!(values.len(), read_before, "{text:?}");
        let Some(Error::Malformed { line: at, problem: what, .. }) = error else {
            panic!("{text:?}: {error:?}");
        };
        assert_eq!(at, line, "{text:?}");
        assert!(what.contains(problem), "{text:?}: {what}");
    }

    #[test]
    fn lines_and_arrays_are_read_alike() {
        check("", &[]);
        check(" \n", &[]);
        check("[]\n", &[]);
        check("{\"a\":1}\n\n{}", &[(1, "{\"a\":1}"), (3, "{}")]);
        check("\n[{\"a\":1},\n {}\n]\n", &[(2, "{\"a\":1}"), (3, "{}")]);
    }

    #[test]
    fn a_fault_is_reported_with_its_line_and_ends_the_reading() {
        check_broken("{}\n{\"a\": }\n{}", 1, 2, "expected value");
        check_broken("[{},\n{}", 2, 2, "ends within an array");
        check_broken("[{}\n{}]", 1, 2, "expected `,` or `]`");
        check_broken("[{}] {}", 1, 1, "nothing after the array");
        check_broken("[{},]", 1, 1, "expected value");
        check_broken("{\"a\":\n1", 0, 2, "EOF");
        check_broken("time,text\n", 0, 1, "expected");
    }

    #[test]
    fn packed_files_are_unpacked_and_torn_ones_refused() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"{\"a\":1}\n{\"b\":2}\n").unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(read(&packed).0.len(), 2);
        let (_, error) = read(&packed[..packed.len() - 6]);
        assert!(matches!(error, Some(Error::Unreadable { .. })), "{error:?}");
    }

    #[test]
    fn a_record_without_end_does_not_fill_the_memory() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                out.fill(b' ');
                Ok(out.len())
            }
        }
        let bytes = Box::new(BufReader::new(Endless));
        let mut input = Input { bytes, line: 1, record_bytes_left: 10 };
        assert!(input.read_to_end(&mut Vec::new()).is_err());
    }
}
