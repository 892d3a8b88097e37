//! Where the bytes of a file come from.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;

use crate::Problem;
use crate::naming::STANDARD_INPUT;

/// A file on disk, in memory, or a stream, with the name its documents are called after.
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

/// A file that can be read from any place.
pub(crate) enum RandomAccess {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// The file at `path`, opened when it is read.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), content: Content::File(path.into()) }
    }

    /// A file that is in memory.
    pub fn bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), content: Content::Bytes(bytes) }
    }

    /// Bytes of the file as it is stored; `None` if that is not known before it is read.
    pub fn stored_bytes(&self) -> Option<u64> {
        match &self.content {
            Content::File(path) => std::fs::metadata(path).ok().map(|found| found.len()),
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::StandardInput => None,
        }
    }

    /// The process' standard input, named `-`.
    pub fn standard_input() -> Self {
        Self { name: STANDARD_INPUT.to_owned(), content: Content::StandardInput }
    }

    /// The name; it begins the ids of the documents that have none of their own.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it, unless it is longer than `limit` bytes.
    pub(crate) fn load(self, limit: u64) -> Result<Vec<u8>, Problem> {
        if let Content::File(path) = &self.content
            && path.metadata()?.len() > limit
        {
            return Err(Problem::TooLarge { limit });
        }
        let mut bytes = Vec::new();
        // The length may be unknown, or have grown since it was asked for.
        self.stream()?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(Problem::TooLarge { limit });
        }
        Ok(bytes)
    }

    /// A stream of it.
    pub(crate) fn stream(self) -> Result<Box<dyn Read + Send>, Problem> {
        Ok(match self.content {
            Content::File(path) => Box::new(File::open(path)?),
            Content::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Content::StandardInput => Box::new(std::io::stdin()),
        })
    }

    /// It with random access. Standard input is loaded, up to `limit` bytes.
    pub(crate) fn random_access(self, limit: u64) -> Result<RandomAccess, Problem> {
        Ok(match self.content {
            Content::File(path) => RandomAccess::File(File::open(path)?),
            Content::Bytes(bytes) => RandomAccess::Memory(bytes),
            Content::StandardInput => RandomAccess::Memory(self.load(limit)?),
        })
    }
}
