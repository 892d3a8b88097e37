//! Errors of memory models.

use clew_core::{Error, ErrorKind};

/// Returns the error of a caller whose thread is gone.
pub(super) fn lost() -> Error {
    let problem = "the memory model is restarting or shutting down; retry";
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
}

/// Returns the error of a memory that cannot be read, or of a device that failed to take it.
pub(super) fn refused_snapshot(error: clew_model::Error) -> Error {
    match error {
        clew_model::Error::Device { .. } => error.into(),
        _ => Error::invalid("snapshot", error.to_string()).with_source(error),
    }
}
