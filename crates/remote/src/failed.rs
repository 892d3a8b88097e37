//! Errors of calls, made of the statuses that calls end with.

use clew_core::Error;
use clew_proto::from_status;
use tonic::Status;

/// Returns the error of a call that ended with `status`, which becomes its cause.
pub(crate) fn failed(status: Status) -> Error {
    from_status(&status).with_source(status)
}
