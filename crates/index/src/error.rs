//! Errors of this crate, grouped by what the caller can do about them.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use clew_core::{CorpusName, ErrorKind, RUN_NOT_FOUND, RunName, SnapshotName};

use crate::table::kind::TableKind;

/// Result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Cause of an error, kept for the operator's log.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Error of an operation on a shard or on the registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid and will stay so. Nothing was changed.
    #[error("`{field}`: {problem}")]
    Invalid {
        /// The field at fault.
        field: &'static str,
        /// Expected and actual value.
        problem: String,
    },
    /// A corpus of that name exists already.
    #[error("corpus `{0}` exists already")]
    CorpusExists(CorpusName),
    /// There is no corpus of that name.
    #[error("corpus `{0}` does not exist")]
    CorpusNotFound(CorpusName),
    /// The settings of the corpus are not those that the caller expected. Nothing was changed.
    #[error("the corpus was changed meanwhile; look it up again")]
    CorpusChanged,
    /// A complete snapshot of that name exists already.
    #[error("snapshot `{0}` exists already; take one by another name")]
    SnapshotExists(SnapshotName),
    /// Nothing of a snapshot of that name exists.
    #[error("there is no snapshot `{name}` of corpus `{corpus}`")]
    SnapshotNotFound {
        /// The corpus.
        corpus: CorpusName,
        /// The snapshot.
        name: SnapshotName,
    },
    /// A snapshot of that name was begun and not finished.
    #[error(
        "snapshot `{0}` is not whole: it was begun and not finished; take it again by that name, or restore another"
    )]
    SnapshotUnfinished(SnapshotName),
    /// A snapshot of that name is being deleted.
    #[error("snapshot `{0}` is being deleted; delete it again to finish that, or choose another")]
    SnapshotBeingDeleted(SnapshotName),
    /// The snapshot cannot be deleted now.
    #[error(
        "snapshot `{name}` is being {doing}; delete it when that is done, or a quarter of an hour after it was given up"
    )]
    SnapshotInUse {
        /// The snapshot.
        name: SnapshotName,
        /// Operation that is using it.
        doing: &'static str,
    },
    /// There is no run of that name.
    #[error("run `{0}` does not exist; list the runs of the corpus to see those that do")]
    RunNotFound(RunName),
    /// The run was created with another number of parts. Nothing was changed.
    #[error(
        "run `{name}` has {parts} parts, and a report says {asked}; report all parts with the same number, or choose another name for another run"
    )]
    RunDiffers {
        /// The run.
        name: RunName,
        /// Number of its parts.
        parts: u32,
        /// Number that the report says.
        asked: u32,
    },
    /// The corpus has as many runs as are kept, and none of them has ended.
    #[error(
        "the corpus has {0} runs and none of them has ended; delete those that nobody works on, then report again"
    )]
    RunsFull(usize),
    /// A newer release wrote the stored data. Nothing was changed.
    #[error(
        "{what} has format {found}, and this release knows none beyond {known}; use the release that wrote it, or a later one"
    )]
    NewerFormat {
        /// Stored data.
        what: String,
        /// Its format.
        found: u32,
        /// Newest format that this release knows.
        known: u32,
    },
    /// The table was made for other settings or by another release. Nothing was changed.
    #[error("table `{table}` does not fit: expected {expected}, found {found}")]
    Mismatch {
        /// The table.
        table: TableKind,
        /// Part of the schema that the settings require.
        expected: String,
        /// Part of the schema that is stored.
        found: String,
    },
    /// A query was embedded with a model of which the shard has no vectors, or has none any more.
    #[error("the corpus was moved to another embedding model; look it up again and ask again")]
    OtherVectors,
    /// Another owner of the shard wrote to the table. Nothing was written, and nothing will be
    /// until the shard is opened again, because this owner's knowledge of the table is outdated.
    #[error(
        "table `{table}` was written by another owner of the shard; open the shard again to go on"
    )]
    LostRace {
        /// The table.
        table: TableKind,
        /// Error of the storage engine.
        source: Cause,
    },
    /// There is no space left to write. Everything that was acknowledged before is safe.
    #[error("the disk is full: could not {doing}; free some space and retry")]
    DiskFull {
        /// Action that failed, as a verb phrase.
        doing: String,
        /// Error of the operating system.
        source: Cause,
    },
    /// Searches that began earlier still read the files that were to be removed.
    #[error("searches still read what was to be removed; retry when they are done")]
    ReadersActive,
    /// The storage failed for now. A write may or may not have happened. The shard reads its tables
    /// again before its next write.
    #[error("could not {doing}")]
    Unavailable {
        /// Action that failed, as a verb phrase.
        doing: String,
        /// Cause of the failure.
        source: Cause,
    },
    /// Stored data cannot be read back.
    #[error("{what} cannot be read back: files are missing or damaged; restore them from a copy")]
    Corrupt {
        /// Damaged data.
        what: String,
        /// Way in which the damage was noticed.
        source: Cause,
    },
}

impl Error {
    pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }

    /// Returns the error for a failed operation of the storage engine on a table.
    pub(crate) fn of_table(table: TableKind, operation: Operation, source: Cause) -> Self {
        match blame(source.as_ref(), operation) {
            Blame::DiskFull => Self::DiskFull { doing: operation.on(table), source },
            Blame::LostRace => Self::LostRace { table, source },
            Blame::Corrupt => Self::Corrupt { what: format!("table `{table}`"), source },
            Blame::Unavailable => Self::Unavailable { doing: operation.on(table), source },
        }
    }

    /// Returns the error for a failed operation on a file of our own.
    pub(crate) fn of_file(doing: &str, source: io::Error) -> Self {
        let doing = doing.to_owned();
        if is_disk_full(&source) {
            return Self::DiskFull { doing, source: source.into() };
        }
        Self::Unavailable { doing, source: source.into() }
    }

    /// Returns the error for a failed operation on an object of our own.
    pub(crate) fn of_object(doing: &str, source: object_store::Error) -> Self {
        Self::Unavailable { doing: doing.to_owned(), source: source.into() }
    }

    /// Returns the kind, which says what the caller can do about the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } => ErrorKind::InvalidInput,
            Self::CorpusExists(_) | Self::SnapshotExists(_) => ErrorKind::AlreadyExists,
            Self::CorpusNotFound(_) | Self::SnapshotNotFound { .. } | Self::RunNotFound(_) => {
                ErrorKind::NotFound
            }
            Self::Mismatch { .. }
            | Self::RunDiffers { .. }
            | Self::RunsFull(_)
            | Self::SnapshotUnfinished(_)
            | Self::SnapshotBeingDeleted(_)
            | Self::SnapshotInUse { .. }
            | Self::NewerFormat { .. } => ErrorKind::WrongState,
            Self::LostRace { .. } | Self::OtherVectors | Self::CorpusChanged => ErrorKind::LostRace,
            Self::DiskFull { .. } => ErrorKind::Exhausted,
            Self::ReadersActive | Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Corrupt { .. } => ErrorKind::DataLoss,
        }
    }
}

impl From<Error> for clew_core::Error {
    fn from(error: Error) -> Self {
        /// Retry delay after a full disk: a person has to free space first.
        const DISK_FULL_RETRY: Duration = Duration::from_secs(30);
        let message = error.to_string();
        match error {
            Error::Invalid { field, problem } => Self::invalid(field, problem),
            Error::CorpusExists(_) => Self::new(ErrorKind::AlreadyExists, "CORPUS_EXISTS", message),
            Error::CorpusNotFound(name) => Self::not_found("corpus", name),
            Error::SnapshotExists(_) => {
                Self::new(ErrorKind::AlreadyExists, "SNAPSHOT_EXISTS", message)
            }
            Error::SnapshotNotFound { .. } => {
                Self::new(ErrorKind::NotFound, "SNAPSHOT_NOT_FOUND", message)
            }
            Error::SnapshotUnfinished(_) => {
                Self::new(ErrorKind::WrongState, "SNAPSHOT_UNFINISHED", message)
            }
            Error::SnapshotBeingDeleted(_) => {
                Self::new(ErrorKind::WrongState, "SNAPSHOT_BEING_DELETED", message)
            }
            Error::SnapshotInUse { .. } => {
                Self::new(ErrorKind::WrongState, "SNAPSHOT_IN_USE", message)
            }
            Error::RunNotFound(_) => Self::new(ErrorKind::NotFound, RUN_NOT_FOUND, message),
            Error::RunDiffers { .. } => Self::new(ErrorKind::WrongState, "RUN_DIFFERS", message),
            Error::RunsFull(_) => Self::new(ErrorKind::WrongState, "RUNS_FULL", message),
            Error::NewerFormat { .. } => Self::new(ErrorKind::WrongState, "NEWER_FORMAT", message),
            Error::CorpusChanged | Error::OtherVectors => {
                Self::new(ErrorKind::LostRace, "CORPUS_CHANGED", message)
            }
            Error::Mismatch { .. } => Self::new(ErrorKind::WrongState, "TABLE_MISMATCH", message),
            Error::LostRace { source, .. } => {
                Self::new(ErrorKind::LostRace, "SHARD_WRITTEN_BY_ANOTHER", message)
                    .with_source(source)
            }
            Error::DiskFull { source, .. } => Self::new(ErrorKind::Exhausted, "DISK_FULL", message)
                .with_retry_after(DISK_FULL_RETRY)
                .with_source(source),
            Error::ReadersActive => Self::new(ErrorKind::Unavailable, "READERS_ACTIVE", message),
            Error::Unavailable { source, .. } => {
                Self::new(ErrorKind::Unavailable, "STORAGE_UNAVAILABLE", message)
                    .with_source(source)
            }
            Error::Corrupt { source, .. } => {
                Self::new(ErrorKind::DataLoss, "DATA_LOSS", message).with_source(source)
            }
        }
    }
}

/// Operation that was asked of the storage engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Open,
    Create,
    Refresh,
    Read,
    Search,
    Append,
    Renumber,
    Delete,
    Compact,
    Index,
    Prune,
    Sync,
}

impl Operation {
    fn on(self, table: TableKind) -> String {
        let verb = match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Refresh => "read the newest version of",
            Self::Read => "read",
            Self::Search => "search",
            Self::Append => "append to",
            Self::Renumber => "change source versions in",
            Self::Delete => "delete from",
            Self::Compact => "compact",
            Self::Index => "index",
            Self::Prune => "prune",
            Self::Sync => "sync",
        };
        format!("{verb} table `{table}`")
    }

    /// Returns whether the operation only reads. If the system does not explain the failure of such
    /// an operation, the stored bytes are to blame.
    fn only_reads(self) -> bool {
        matches!(self, Self::Open | Self::Read | Self::Search)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Blame {
    DiskFull,
    LostRace,
    Corrupt,
    Unavailable,
}

fn blame(error: &(dyn StdError + 'static), operation: Operation) -> Blame {
    let mut next = Some(error);
    let mut by_store = None;
    while let Some(cause) = next {
        next = cause.source();
        // An error of the operating system below the store says more, if there is one.
        by_store =
            by_store.or(cause.downcast_ref::<object_store::Error>().and_then(blame_of_store));
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return match error.kind() {
                _ if is_disk_full(error) => Blame::DiskFull,
                io::ErrorKind::NotFound
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::InvalidData => Blame::Corrupt,
                _ => Blame::Unavailable,
            };
        }
        match cause.downcast_ref::<lance_core::Error>() {
            Some(
                lance_core::Error::Fenced { .. }
                | lance_core::Error::CommitConflict { .. }
                | lance_core::Error::RetryableCommitConflict { .. }
                | lance_core::Error::IncompatibleTransaction { .. }
                | lance_core::Error::TooMuchWriteContention { .. },
            ) => return Blame::LostRace,
            Some(
                lance_core::Error::CorruptFile { .. } | lance_core::Error::DatasetNotFound { .. },
            ) => return Blame::Corrupt,
            _ => {}
        }
    }
    by_store.unwrap_or(match operation.only_reads() {
        true => Blame::Corrupt,
        false => Blame::Unavailable,
    })
}

fn blame_of_store(error: &object_store::Error) -> Option<Blame> {
    match error {
        object_store::Error::NotFound { .. } => Some(Blame::Corrupt),
        // A folder always answers. Without a system error below, a file is not what it should be.
        object_store::Error::Generic { store, .. } if *store != "S3" => None,
        _ => Some(Blame::Unavailable),
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(kind: io::ErrorKind, operation: Operation) -> ErrorKind {
        // As it arrives: wrapped by the storage engine.
        let source = lancedb::Error::Lance {
            source: lance_core::Error::io_source(Box::new(io::Error::from(kind))),
        };
        Error::of_table(TableKind::Sources, operation, source.into()).kind()
    }

    #[test]
    fn the_cause_decides_the_kind_however_deep_it_lies() {
        assert_eq!(blamed(io::ErrorKind::StorageFull, Operation::Append), ErrorKind::Exhausted);
        assert_eq!(
            blamed(io::ErrorKind::PermissionDenied, Operation::Append),
            ErrorKind::Unavailable
        );
        assert_eq!(
            blamed(io::ErrorKind::PermissionDenied, Operation::Open),
            ErrorKind::Unavailable
        );
        assert_eq!(blamed(io::ErrorKind::UnexpectedEof, Operation::Read), ErrorKind::DataLoss);
    }

    #[test]
    fn a_store_that_does_not_answer_is_not_one_that_lost_data() {
        let blamed = |source: object_store::Error| {
            let source = lancedb::Error::Lance { source: source.into() };
            Error::of_table(TableKind::Sources, Operation::Read, source.into()).kind()
        };
        let failed = |store| object_store::Error::Generic { store, source: "no".into() };
        assert_eq!(blamed(failed("S3")), ErrorKind::Unavailable);
        for store in ["LocalFileSystem", "memory", "N/A"] {
            assert_eq!(blamed(failed(store)), ErrorKind::DataLoss);
        }
        let (path, source) = ("a".to_owned(), "404".into());
        assert_eq!(blamed(object_store::Error::NotFound { path, source }), ErrorKind::DataLoss);
    }

    #[test]
    fn a_full_disk_says_so_outward_and_keeps_its_cause_for_the_log() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error: clew_core::Error = Error::of_file("write the settings", full).into();
        assert_eq!(error.reason(), "DISK_FULL");
        assert!(error.message().contains("the disk is full"), "{error}");
        assert!(error.retry_after().is_some());
        assert!(error.chain().len() > error.message().len());
    }
}
