//! Files and rows that cannot be read.

use std::fmt;
use std::io;

/// Something that could not be read, and where it is.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Unreadable {
    /// Where it is.
    pub place: Place,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

/// A file, or a row of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the file, which is the id of its document if it holds one document.
    pub file: String,
    /// The row or line, from 1.
    pub row: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            None => f.write_str(&self.file),
            Some(row) => write!(f, "{}:{row}", self.file),
        }
    }
}

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file system or the stream failed.
    #[error("cannot be opened or read: {0}")]
    Io(#[from] io::Error),
    /// It is larger than the limit.
    #[error("expected at most {limit} bytes, got more; split it")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// It is not text.
    #[error("expected text, got binary content")]
    Binary,
    /// It is text in no encoding that fits.
    #[error("expected text, got bytes that are not valid in {encoding}; convert it to UTF-8")]
    Encoding {
        /// The encoding that came closest.
        encoding: &'static str,
    },
    /// Its format's rules are broken.
    #[error("{0}")]
    Malformed(String),
    /// There is no text in it.
    #[error("holds no text")]
    NoText,
    /// The document it holds is refused.
    #[error("{0}")]
    Refused(Box<clew_core::Error>),
    /// It lies elsewhere than below the root that files are named from.
    #[error(
        "expected a file below the root {root}, got {file}; choose a root that holds it, or none"
    )]
    OutsideRoot {
        /// The file.
        file: String,
        /// The root.
        root: String,
    },
    /// Its path has a `..` behind a symbolic link, which leads to another file than the path says.
    #[error("expected a path without `..` behind a symbolic link; give the path that it leads to")]
    ParentOfLink,
    /// Its name is that of standard input.
    #[error("expected another name than that of standard input; rename the file")]
    NameTaken,
}

impl From<clew_core::Error> for Problem {
    fn from(error: clew_core::Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl Problem {
    /// A broken rule of `format`, as its parser tells it.
    pub(crate) fn malformed(format: &str, error: impl fmt::Display) -> Self {
        Self::Malformed(format!("expected {format}: {error}"))
    }
}
