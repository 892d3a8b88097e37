//! Files and rows that cannot be read.

use std::fmt;
use std::io;

/// An error of reading, and its place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Unreadable {
    /// Place of the error.
    pub place: FileLocation,
    /// Description of the error.
    #[source]
    pub problem: Problem,
}

/// A file, or a row of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// Name of the file, which is also the id of its document if it is a single document.
    pub file: String,
    /// Number of the row or line, from 1.
    pub row: Option<u64>,
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            None => f.write_str(&self.file),
            Some(row) => write!(f, "{}:{row}", self.file),
        }
    }
}

/// Reason why a file or row cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file system or the stream failed.
    #[error("cannot be opened or read: {0}")]
    Io(#[from] io::Error),
    /// The file or line is larger than the limit.
    #[error("expected at most {limit} bytes, got more; split it")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("expected text, got binary content")]
    Binary,
    /// The bytes are not valid in any likely encoding.
    #[error("expected text, got bytes that are not valid in {encoding}; convert it to UTF-8")]
    Encoding {
        /// The encoding that came closest.
        encoding: &'static str,
    },
    /// The content breaks the rules of its format.
    #[error("{0}")]
    Malformed(String),
    /// The file contains no text.
    #[error("holds no text")]
    NoText,
    /// The document is not valid.
    #[error("{0}")]
    Refused(Box<clew_core::Error>),
    /// The file is not below the root that names are relative to.
    #[error(
        "expected a file below the root {root}, got {file}; choose a root that holds it, or none"
    )]
    OutsideRoot {
        /// Path of the file.
        file: String,
        /// Path of the root.
        root: String,
    },
    /// The path has a `..` after a symbolic link, so it leads to another file than its text says.
    #[error("expected a path without `..` behind a symbolic link; give the path that it leads to")]
    ParentOfLink,
    /// Another file has the same name.
    #[error("expected a name that no other file has; its documents would replace each other")]
    NameTwice,
    /// The object is not the one that was listed.
    #[error("it was changed or removed after it was listed; run again")]
    Changed,
    /// The file has the name of standard input.
    #[error("expected another name than that of standard input; rename the file")]
    NameTaken,
}

impl From<clew_core::Error> for Problem {
    fn from(error: clew_core::Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl Problem {
    /// Returns the error of a file that breaks the rules of `format`, with the parser's message.
    pub(crate) fn malformed(format: &str, error: impl fmt::Display) -> Self {
        Self::Malformed(format!("expected {format}: {error}"))
    }
}
