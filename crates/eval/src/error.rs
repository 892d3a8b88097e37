//! What can go wrong when data is read and scored.

use std::io;
use std::path::{Path, PathBuf};

use clew_core::ErrorKind;

/// An error of this crate, sorted by what its reader can change: the request, the path, the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A format, unit or split was named that does not exist.
    #[error("unknown {what} `{name}`; expected {expected}")]
    UnknownName {
        /// What was to be named: `format`, `unit of beam`, ...
        what: String,
        /// The name that came.
        name: String,
        /// The names that exist.
        expected: String,
    },
    /// The cut-offs of the metrics cannot be used.
    #[error(
        "expected 1 to {most} whole numbers from 1 to {largest} separated by commas, such as `2,5,10`, got `{given}`"
    )]
    BadCutoffs {
        /// What came.
        given: String,
        /// Most cut-offs.
        most: usize,
        /// Largest cut-off.
        largest: usize,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Files are not where the format has them.
    #[error("`{}` is not {format} data; expected {expected}", path.display())]
    UnknownLayout {
        /// The file or folder.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// The files that were looked for.
        expected: String,
    },
    /// A record of a file is broken or is not of this format.
    #[error("`{}`, line {line}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line of the file, from 1.
        line: u64,
        /// What was expected and what came.
        problem: String,
    },
    /// No question was scored.
    #[error("no question to score; expected at least one question with evidence")]
    NothingToScore,
}

impl Error {
    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, line: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), line, problem: problem.into() }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            Self::Unreadable { .. } => ErrorKind::Unavailable,
            Self::UnknownName { .. }
            | Self::BadCutoffs { .. }
            | Self::UnknownLayout { .. }
            | Self::Malformed { .. }
            | Self::NothingToScore => ErrorKind::InvalidInput,
        }
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}
