//! Errors of memory models.

use clew_core::{Error, ErrorKind};

/// The thread that was asked is gone.
pub(super) fn lost() -> Error {
    let problem = "the memory model is restarting or shutting down; retry";
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
}

/// A memory cannot be read.
pub(super) fn refused_snapshot(error: clew_model::Error) -> Error {
    Error::invalid("snapshot", error.to_string()).with_source(error)
}
