//! Sources of the bytes of files.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use crate::naming::STANDARD_INPUT;
use crate::object::{ObjectReader, StoredObject};
use crate::{FileLocation, Problem, SourcePart, Unreadable};

/// Maximum size of an object that [`Source::fetched`] holds in memory.
const FETCHED_BYTES: u64 = 4 << 20;
/// A file on disk, a file in memory, an object in a bucket, or standard input, with the name that
/// its documents are named after.
#[derive(Clone)]
pub struct Source {
    name: String,
    content: Content,
    part: SourcePart,
}

#[derive(Clone)]
enum Content {
    File(PathBuf),
    Bytes(Bytes),
    Object(StoredObject),
    /// An object and its bytes.
    Fetched(StoredObject, Bytes),
    StandardInput,
}

/// A file that can be read at any position.
pub(crate) enum RandomAccess {
    File(File),
    Object(StoredObject),
    Memory(Bytes),
}

impl Source {
    /// Creates a source for the file at `path`, which is opened when it is read.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::new(name.into(), Content::File(path.into()))
    }

    /// Creates a source for a file in memory.
    pub fn bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::new(name.into(), Content::Bytes(bytes.into()))
    }

    pub(crate) fn object(name: String, object: StoredObject) -> Self {
        Self::new(name, Content::Object(object))
    }

    fn new(name: String, content: Content) -> Self {
        Self { name, content, part: SourcePart::WHOLE }
    }

    /// Returns the size of the file in bytes. Returns `None` if it is not known before reading.
    pub fn stored_bytes(&self) -> Option<u64> {
        match &self.content {
            Content::File(path) => std::fs::metadata(path).ok().map(|found| found.len()),
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::Object(object) | Content::Fetched(object, _) => Some(object.size()),
            Content::StandardInput => None,
        }
    }

    /// Returns a text that differs if the content of the file does: of its size and of what its
    /// storage says of the content, or else of the time at which it was changed. Returns `None`
    /// if there is none without reading.
    pub fn fingerprint(&self) -> Option<String> {
        match &self.content {
            Content::File(path) => {
                let found = std::fs::metadata(path).ok()?;
                let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
                Some(format!("{}-{}", found.len(), changed.as_nanos()))
            }
            Content::Object(object) | Content::Fetched(object, _) => Some(object.fingerprint()),
            Content::Bytes(_) | Content::StandardInput => None,
        }
    }

    /// Creates a source for the standard input of the process, named `-`.
    pub fn standard_input() -> Self {
        Self::new(STANDARD_INPUT.to_owned(), Content::StandardInput)
    }

    /// Returns the name, with which the ids of documents begin that have no id of their own.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves only the row groups that a part has.
    pub(crate) fn row_groups_of(self, part: SourcePart) -> Self {
        Self { part, ..self }
    }

    /// Returns the part whose row groups are read. All are, unless the file is divided.
    pub fn part(&self) -> SourcePart {
        self.part
    }

    /// Fetches an object into memory if it is small. Others, and files, stay where they are.
    ///
    /// # Errors
    /// Returns the problem if the object cannot be read.
    pub async fn fetched(self) -> Result<Self, Unreadable> {
        match self.content {
            Content::Object(object) if object.size() <= FETCHED_BYTES => {
                match object.read_all().await {
                    Ok(bytes) => Ok(Self { content: Content::Fetched(object, bytes), ..self }),
                    Err(problem) => {
                        let place = FileLocation { file: self.name, row: None };
                        Err(Unreadable { place, problem })
                    }
                }
            }
            content => Ok(Self { content, ..self }),
        }
    }

    /// Reads the whole file, unless it is longer than `limit` bytes.
    pub(crate) fn load(self, limit: u64) -> Result<Vec<u8>, Problem> {
        // Nothing is read of what is known to be too large.
        let stored = match &self.content {
            Content::File(path) => path.metadata()?.len(),
            _ => self.stored_bytes().unwrap_or(0),
        };
        if stored > limit {
            return Err(Problem::TooLarge { limit });
        }
        let mut bytes = Vec::with_capacity(stored as usize);
        // The length may be unknown, or may have grown since it was queried.
        self.stream()?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(Problem::TooLarge { limit });
        }
        Ok(bytes)
    }

    /// Opens the file as a stream.
    pub(crate) fn stream(self) -> Result<Box<dyn Read + Send>, Problem> {
        Ok(match self.content {
            Content::File(path) => Box::new(File::open(path)?),
            Content::Bytes(bytes) | Content::Fetched(_, bytes) => Box::new(Cursor::new(bytes)),
            Content::Object(object) => Box::new(ObjectReader::from(object)),
            Content::StandardInput => Box::new(std::io::stdin()),
        })
    }

    /// Opens the file for random access. Standard input is loaded, up to `limit` bytes.
    pub(crate) fn random_access(self, limit: u64) -> Result<RandomAccess, Problem> {
        Ok(match self.content {
            Content::File(path) => RandomAccess::File(File::open(path)?),
            Content::Bytes(bytes) | Content::Fetched(_, bytes) => RandomAccess::Memory(bytes),
            Content::Object(object) => RandomAccess::Object(object),
            Content::StandardInput => RandomAccess::Memory(self.load(limit)?.into()),
        })
    }
}
