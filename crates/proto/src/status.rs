//! Conversion of errors to and from gRPC statuses: one table of kinds and codes, with google.rpc
//! details.

use std::time::Duration;

use clew_core::{Error, ErrorKind};
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Domain of every `ErrorInfo` that Clew sends.
pub const ERROR_DOMAIN: &str = "clew";

/// Retry delay if the error itself has none.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Converts the result of a handler to its response.
///
/// # Errors
/// Returns the status of the handler's error, see [`to_status`].
pub fn respond<T>(result: Result<T, Error>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| to_status(&error))
}

/// Converts an error to a status for clients, without its causes.
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

/// Returns the gRPC code of a kind of error.
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

/// Returns the kind of error for a gRPC code.
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
        // When a deadline passes, the client's own timer reports CANCELLED.
        Code::DeadlineExceeded | Code::Cancelled => ErrorKind::DeadlineExceeded,
        Code::DataLoss => ErrorKind::DataLoss,
        Code::Ok | Code::Unknown | Code::Unimplemented | Code::Internal => ErrorKind::Internal,
    }
}

/// Converts a status to an error, for clients. A status without `ErrorInfo`, which is not from
/// Clew, keeps its message and gets the reason `TRANSPORT`.
pub fn from_status(status: &Status) -> Error {
    let details = status.get_error_details();
    let kind = match is_lost_connection(status) {
        true => ErrorKind::Unavailable,
        false => kind_of(status.code()),
    };
    let reason = details.error_info().map(|info| reason_from_wire(info.reason.clone()));
    let reason = reason.unwrap_or_else(|| "TRANSPORT".to_owned());
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

/// Returns whether a status was created on this side because the connection broke during the call.
/// tonic gives such a status the code that the broken layer suggests, CANCELLED and UNKNOWN among
/// them. Unlike a status that the server sent, it has a cause.
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

/// Returns a reason from the wire, even if this release does not know it: a server may be newer.
/// Returns `OTHER` for a text that does not have the form of a reason (`google.rpc.ErrorInfo`),
/// because reasons are logged and shown to people.
pub(crate) fn reason_from_wire(reason: String) -> String {
    const MAX_BYTES: usize = 63;
    let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_reason = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.len() <= MAX_BYTES
        && reason.bytes().all(is_word);
    if is_reason { reason } else { "OTHER".to_owned() }
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
    fn a_reason_is_passed_on_whoever_invented_it() {
        let passed_on = |reason: &str| {
            let error = Error::new(ErrorKind::WrongState, reason.to_owned(), "what happened");
            from_status(&to_status(&error)).reason().to_owned()
        };
        for reason in ["CLOCK_SKEW", "REDIS_EVICTS", "UNFIT_STORAGE", "OF_A_RELEASE_TO_COME_2"] {
            assert_eq!(passed_on(reason), reason);
        }
        let long = "R".repeat(64);
        for unfit in ["", "a word", "TWO WORDS", "LINE\nBREAK", "2ND", "É", long.as_str()] {
            assert_eq!(passed_on(unfit), "OTHER", "{unfit}");
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
