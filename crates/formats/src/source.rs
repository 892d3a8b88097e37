//! Sources of the bytes of files.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;

use crate::Problem;
use crate::naming::STANDARD_INPUT;

/// A file on disk, a file in memory, or standard input, with the name that its documents are named
/// after.
#[derive(Clone)]
pub struct Source {
    name: String,
    content: Content,
}

#[derive(Clone)]
enum Content {
    File(PathBuf),
    Bytes(Vec<u8>),
    StandardInput,
}

/// A file that can be read at any position.
pub(crate) enum RandomAccess {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Creates a source for the file at `path`, which is opened when it is read.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), content: Content::File(path.into()) }
    }

    /// Creates a source for a file in memory.
    pub fn bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), content: Content::Bytes(bytes) }
    }

    /// Returns the size of the file in bytes. Returns `None` if it is not known before reading.
    pub fn stored_bytes(&self) -> Option<u64> {
        match &self.content {
            Content::File(path) => std::fs::metadata(path).ok().map(|found| found.len()),
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::StandardInput => None,
        }
    }

    /// Creates a source for the standard input of the process, named `-`.
    pub fn standard_input() -> Self {
        Self { name: STANDARD_INPUT.to_owned(), content: Content::StandardInput }
    }

    /// Returns the name, with which the ids of documents begin that have no id of their own.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the whole file, unless it is longer than `limit` bytes.
    pub(crate) fn load(self, limit: u64) -> Result<Vec<u8>, Problem> {
        if let Content::File(path) = &self.content
            && path.metadata()?.len() > limit
        {
            return Err(Problem::TooLarge { limit });
        }
        let mut bytes = Vec::new();
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
            Content::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Content::StandardInput => Box::new(std::io::stdin()),
        })
    }

    /// Opens the file for random access. Standard input is loaded, up to `limit` bytes.
    pub(crate) fn random_access(self, limit: u64) -> Result<RandomAccess, Problem> {
        Ok(match self.content {
            Content::File(path) => RandomAccess::File(File::open(path)?),
            Content::Bytes(bytes) => RandomAccess::Memory(bytes),
            Content::StandardInput => RandomAccess::Memory(self.load(limit)?),
        })
    }
}
