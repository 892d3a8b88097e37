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
    #[error("no question to score; expected at least one")]
    NothingToScore,
    /// Retrieval was to be measured with questions whose evidence is not known.
    #[error(
        "the questions of {format} name no evidence; expected a format whose retrieval can be measured: {expected}"
    )]
    NoEvidence {
        /// Name of the format.
        format: &'static str,
        /// The formats that have evidence.
        expected: String,
    },
    /// A turn cannot be kept as a memory of conversations keeps it.
    #[error("a turn of `{haystack}` cannot be kept in a memory of conversations")]
    NotKept {
        /// Name of the haystack.
        haystack: String,
        /// Why.
        #[source]
        source: Box<clew_core::Error>,
    },
    /// Keys or smoothing of turns were asked of data that has none.
    #[error("`{haystack}` is not made of turns; expected a conversation, such as those of locomo")]
    NoTurns {
        /// Name of the haystack.
        haystack: String,
    },
    /// The time that questions ask about was to be used, of questions that nobody knows when they were asked.
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
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The log of a run is being written by another process.
    #[error("`{}` is in use by another process", path.display())]
    LogInUse {
        /// The log.
        path: PathBuf,
    },
    /// A log is that of another run.
    #[error("`{}` is the log of another run: {difference}; expected a new file or the log of this run", path.display())]
    OtherRun {
        /// The log.
        path: PathBuf,
        /// The first thing that differs.
        difference: String,
    },
    /// A record cannot be part of a log.
    #[error("the answer to question `{question_id}` cannot be recorded: {problem}")]
    BadRecord {
        /// The question.
        question_id: String,
        /// What was expected and what came.
        problem: String,
    },
    /// Reports of different data were to be compared.
    #[error("expected reports of the same questions, got {problem}")]
    NotComparable {
        /// What differs.
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

    /// What the caller can do about it.
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

    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}
