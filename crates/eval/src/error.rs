//! Errors of reading and scoring data.

use std::io;
use std::path::{Path, PathBuf};

use clew_core::ErrorKind;

/// Error of this crate. The variants differ by what the user can change: the request, the path, the
/// file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name is not that of a format, unit or split.
    #[error("unknown {what} `{name}`; expected {expected}")]
    UnknownName {
        /// Kind of name: `format`, `unit of beam`, ...
        what: String,
        /// Name that was given.
        name: String,
        /// Names that exist.
        expected: String,
    },
    /// The cut-offs of the metrics cannot be used.
    #[error(
        "expected 1 to {most} whole numbers from 1 to {largest} separated by commas, such as `2,5,10`, got `{given}`"
    )]
    BadCutoffs {
        /// Text that was given.
        given: String,
        /// Maximum number of cut-offs.
        most: usize,
        /// Largest cut-off.
        largest: usize,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// File or folder.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The files are not laid out as the format expects.
    #[error("`{}` is not {format} data; expected {expected}", path.display())]
    UnknownLayout {
        /// File or folder.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
        /// Files that were looked for.
        expected: String,
    },
    /// A record of a file is broken or not of this format.
    #[error("`{}`, line {line}: {problem}", path.display())]
    Malformed {
        /// File.
        path: PathBuf,
        /// Line of the file, from 1.
        line: u64,
        /// Description of what was expected and what came.
        problem: String,
    },
    /// No question was scored.
    #[error("no question to score; expected at least one")]
    NothingToScore,
    /// Retrieval cannot be measured, because the evidence of the questions is not known.
    #[error(
        "the questions of {format} name no evidence; expected a format whose retrieval can be measured: {expected}"
    )]
    NoEvidence {
        /// Name of the format.
        format: &'static str,
        /// Formats that have evidence.
        expected: String,
    },
    /// A turn cannot be stored in chat memory.
    #[error("a turn of `{haystack}` cannot be kept in a memory of conversations")]
    NotKept {
        /// Name of the haystack.
        haystack: String,
        /// Cause.
        #[source]
        source: Box<clew_core::Error>,
    },
    /// The data has no turns, which keys and smoothing need.
    #[error("`{haystack}` is not made of turns; expected a conversation, such as those of locomo")]
    NoTurns {
        /// Name of the haystack.
        haystack: String,
    },
    /// The time that questions ask about is not known, because they have no dates.
    #[error(
        "no question of `{haystack}` tells when it is asked, so the time it asks about is not known; \
         expected dated questions, such as those of longmemeval"
    )]
    NoQuestionDates {
        /// Name of the haystack.
        haystack: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Unwritable {
        /// File.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Another process is writing the log of the run.
    #[error("`{}` is in use by another process", path.display())]
    LogInUse {
        /// Log.
        path: PathBuf,
    },
    /// The log belongs to another run.
    #[error("`{}` is the log of another run: {difference}; expected a new file or the log of this run", path.display())]
    OtherRun {
        /// Log.
        path: PathBuf,
        /// First difference.
        difference: String,
    },
    /// A record cannot be part of a log.
    #[error("the answer to question `{question_id}` cannot be recorded: {problem}")]
    BadRecord {
        /// Id of the question.
        question_id: String,
        /// Description of what was expected and what came.
        problem: String,
    },
    /// Reports of different data cannot be compared.
    #[error("expected reports of the same questions, got {problem}")]
    NotComparable {
        /// Description of the difference.
        problem: String,
    },
}

impl Error {
    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(crate) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, line: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), line, problem: problem.into() }
    }

    /// Returns the kind of error, which says what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { source, .. } | Self::Unwritable { source, .. }
                if source.kind() == io::ErrorKind::NotFound =>
            {
                ErrorKind::NotFound
            }
            Self::Unreadable { .. } | Self::Unwritable { .. } => ErrorKind::Unavailable,
            Self::LogInUse { .. } | Self::OtherRun { .. } => ErrorKind::WrongState,
            Self::UnknownName { .. }
            | Self::BadCutoffs { .. }
            | Self::UnknownLayout { .. }
            | Self::Malformed { .. }
            | Self::NothingToScore
            | Self::NoEvidence { .. }
            | Self::NoTurns { .. }
            | Self::NotKept { .. }
            | Self::NoQuestionDates { .. }
            | Self::BadRecord { .. }
            | Self::NotComparable { .. } => ErrorKind::InvalidInput,
        }
    }

    /// Returns whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}
