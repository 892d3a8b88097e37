//! Errors on the wire: one table from kinds to gRPC codes, with google.rpc details.

use std::time::Duration;

use clew_core::{Error, ErrorKind};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Domain of every `ErrorInfo` we send.
pub const ERROR_DOMAIN: &str = "clew";

/// How long to wait before retrying where the error itself does not say.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The status that tells a client of `error`; the causes stay here.
pub fn to_status(error: &Error) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(error.reason(), ERROR_DOMAIN, []);
    for violation in error.violations() {
        details.add_bad_request_violation(&violation.field, &violation.description);
    }
    if error.kind() == ErrorKind::WrongState {
        details.add_precondition_failure_violation(error.reason(), "", error.message());
    }
    if matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Unavailable) && error.is_retryable()
    {
        details.set_retry_info(Some(error.retry_after().unwrap_or(DEFAULT_RETRY_DELAY)));
    }
    Status::with_error_details(code_of(error.kind()), error.message(), details)
}

/// The gRPC code of a kind of error.
pub(crate) fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidInput => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::WrongState => Code::FailedPrecondition,
        ErrorKind::LostRace => Code::Aborted,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorKind::DataLoss => Code::DataLoss,
        ErrorKind::Internal => Code::Internal,
    }
}

/// The kind of error that a gRPC code tells of.
pub(crate) fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidInput,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::Unauthenticated => ErrorKind::Unauthenticated,
        Code::PermissionDenied => ErrorKind::Denied,
        Code::FailedPrecondition => ErrorKind::WrongState,
        Code::Aborted => ErrorKind::LostRace,
        Code::ResourceExhausted => ErrorKind::Exhausted,
        Code::Unavailable => ErrorKind::Unavailable,
        // A passed deadline reaches a client as CANCELLED, by its own timer.
        Code::DeadlineExceeded | Code::Cancelled => ErrorKind::DeadlineExceeded,
        Code::DataLoss => ErrorKind::DataLoss,
        Code::Ok | Code::Unknown | Code::Unimplemented | Code::Internal => ErrorKind::Internal,
    }
}

/// The error a status tells of, for clients. A status that is not ours keeps its message and gets
/// the reason `TRANSPORT`.
pub fn from_status(status: &Status) -> Error {
    let details = status.get_error_details();
    let kind = match is_lost_connection(status) {
        true => ErrorKind::Unavailable,
        false => kind_of(status.code()),
    };
    let reason = details.error_info().map_or("TRANSPORT", |info| known_reason(&info.reason));
    let mut error = match details.bad_request() {
        Some(request) if !request.field_violations.is_empty() => {
            let mut violations = clew_core::Violations::default();
            for violation in &request.field_violations {
                violations.push(&violation.field, &violation.description);
            }
            match violations.into_result() {
                Err(error) => error,
                Ok(()) => Error::new(kind, reason, status.message()),
            }
        }
        _ => Error::new(kind, reason, status.message()),
    };
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        error = error.with_retry_after(delay);
    }
    error
}

/// Whether a status was made on this side because the connection broke under the call. tonic gives
/// such a status whatever code the broken layer suggests, CANCELLED and UNKNOWN among them; what
/// tells it from one that the server sent is that it has a cause.
fn is_lost_connection(status: &Status) -> bool {
    let suggests = matches!(
        status.code(),
        Code::Unknown | Code::Internal | Code::Cancelled | Code::Unavailable
    );
    let mut cause = std::error::Error::source(status);
    let has_cause = cause.is_some();
    while let Some(error) = cause {
        if error.is::<tonic::TimeoutExpired>() {
            return false;
        }
        cause = error.source();
    }
    suggests && has_cause
}

/// Reasons are static in [`Error`]; one that a newer server invented is passed on as `OTHER`.
pub(crate) fn known_reason(reason: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "INVALID_INPUT",
        "NOT_FOUND",
        "LABEL_NOT_HELD",
        "CORPUS_EXISTS",
        "DOCUMENT_EXISTS",
        "SNAPSHOT_BEING_DELETED",
        "SNAPSHOT_EXISTS",
        "SNAPSHOT_IN_USE",
        "SNAPSHOT_NOT_FOUND",
        "SNAPSHOT_UNFINISHED",
        "NO_SNAPSHOT_PLACE",
        "NEWER_FORMAT",
        "RESOURCE_EXHAUSTED",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "UNAVAILABLE",
        "SHARD_RESTARTING",
        "SHARD_WRITTEN_BY_ANOTHER",
        "STORAGE_UNAVAILABLE",
        "READERS_ACTIVE",
        "DISK_FULL",
        "DATA_LOSS",
        "DATA_DIRECTORY_IN_USE",
        "DATA_DIRECTORY_TAKEN",
        "TABLE_MISMATCH",
        "ENCODER_MISMATCH",
        "BROKEN_MODEL",
        "DEVICE_FAILED",
        "SHUTTING_DOWN",
        "NOT_OWNER",
        "SHARD_OPENING",
        "CORPUS_CHANGED",
        "REEMBEDDING_STATE",
        "REEMBEDDING_UNFINISHED",
        "MODEL_NOT_OFFERED",
        "DOCUMENT_REPLACED",
        "NO_MEMBER",
        "NO_PEER",
        "NO_RETRIEVER",
        "FOREIGN_LEASE",
        "REDIS_UNAVAILABLE",
        "PEER_LOST",
        "ENDPOINT_UNREACHABLE",
        "ENDPOINT_FAILED",
        "ENDPOINT_REFUSED",
        "MALFORMED_REPLY",
        "UNREADABLE_REPLY",
        "CONTEXT_TOO_LONG",
        "PROMPT_TOO_LONG",
        "REQUEST_REFUSED",
        "CONTENT_FILTERED",
        "CONTENT_REFUSED",
        "BUDGET_SPENT",
        "KEY_MISSING",
        "NO_COMPRESSED_MEMORY",
        "NO_MEMORY_MODEL",
        "NO_MODEL",
        "NO_RERANKER",
        "NO_STRUCTURE",
        "DIMENSION_MISMATCH",
        "KEY_REFUSED",
        "SCOPE_MISSING",
        "NODES_ONLY",
        "ROLE_MISSING",
        "QUOTA_SPENT",
        "TLS_REFUSED",
    ];
    KNOWN.iter().find(|known| **known == reason).copied().unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_wire() {
        let kinds = [
            ErrorKind::InvalidInput,
            ErrorKind::NotFound,
            ErrorKind::AlreadyExists,
            ErrorKind::Unauthenticated,
            ErrorKind::Denied,
            ErrorKind::WrongState,
            ErrorKind::LostRace,
            ErrorKind::Exhausted,
            ErrorKind::Unavailable,
            ErrorKind::DeadlineExceeded,
            ErrorKind::DataLoss,
            ErrorKind::Internal,
        ];
        for kind in kinds {
            let error = Error::new(kind, "NOT_FOUND", "what happened").with_source("a path");
            let status = to_status(&error);
            assert!(!format!("{status:?}").contains("a path"), "causes stay inside");
            let back = from_status(&status);
            assert_eq!(
                (back.kind(), back.reason(), back.message()),
                (kind, "NOT_FOUND", "what happened")
            );
        }
    }

    #[test]
    fn a_connection_that_broke_is_unavailable_whatever_code_it_comes_with() {
        let broke = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let error = from_status(&Status::from_error(Box::new(broke)));
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "TRANSPORT"));
        let said = from_status(&Status::unknown("the server's own words"));
        assert_eq!(said.kind(), ErrorKind::Internal);
    }

    #[test]
    fn violations_and_delays_survive_the_wire() {
        let back = from_status(&to_status(&Error::invalid("query.k", "expected 1 to 9, got 10")));
        assert_eq!(back.violations()[0].field, "query.k");
        let full = Error::exhausted("the queue", Duration::from_millis(40));
        assert_eq!(from_status(&to_status(&full)).retry_after(), Some(Duration::from_millis(40)));
    }
}
