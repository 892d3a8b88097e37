//! Outcomes of requests.

use std::time::Duration;

use clew_core::Error;
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Reason in the report: the limit of requests under way was reached.
pub(crate) const CLIENT_LIMIT: &str = "not sent: client limit";
/// Reason in the report: no document that this run ingested was left to forget.
pub(crate) const NOTHING_TO_FORGET: &str = "not sent: nothing to forget";

/// Outcome of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The server did what was asked.
    Done(Done),
    /// The server refused or failed, or the connection to it broke.
    Failed(Failure),
    /// The request was not sent, for the given reason.
    NotSent(&'static str),
}

/// Result of a request that was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Verdict on the result.
    pub judgement: Judgement,
    /// Whether shards were missing, so that less was searched than there is.
    pub is_partial: bool,
    /// Parts of the server's time, if it reports them.
    pub timing: Option<ServerTime>,
    /// Number of documents that were acknowledged or forgotten.
    pub documents: u64,
}

/// Verdict on a result, compared with what is known to be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The result is right.
    Right,
    /// The result is wrong.
    Wrong,
    /// The server said that it does not know, although it should.
    Abstained,
    /// There is nothing to judge.
    #[default]
    None,
}

/// Parts of the time that a request took within the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerTime {
    /// Time of waiting for a place and for a device.
    pub queue: Duration,
    /// Time of embedding, judging and composing.
    pub compute: Duration,
    /// Time in the shards.
    pub store: Duration,
    /// Time from the request's arrival to its end.
    pub total: Duration,
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub status: StatusKey,
    /// Retry delay that the server asked for.
    pub retry_after: Option<Duration>,
}

/// gRPC status as it is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct StatusKey {
    /// Name of the gRPC code, such as `RESOURCE_EXHAUSTED`.
    pub code: &'static str,
    /// Reason of the `ErrorInfo`. Empty if there is none.
    pub reason: String,
}

impl StatusKey {
    /// Returns the status of a request that was done.
    pub(crate) fn ok() -> Self {
        Self { code: name_of(Code::Ok), reason: String::new() }
    }

    /// Returns whether the status says that there is no room now.
    pub fn is_refusal(&self) -> bool {
        self.code == name_of(Code::ResourceExhausted)
    }
}

impl Failure {
    /// Extracts the failure from an error of the client: the status that came, if there is one.
    pub fn of(error: &Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(now) = cause {
            if let Some(status) = now.downcast_ref::<Status>() {
                return Self::of_status(status);
            }
            cause = now.source();
        }
        let status = StatusKey { code: name_of(Code::Unknown), reason: error.reason().to_owned() };
        Self { status, retry_after: error.retry_after() }
    }

    fn of_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let told = details.error_info().map(|info| info.reason.clone());
        // A status without a reason was made on this side: by a timeout, or a broken connection.
        let made_here = if is_timeout(status) { "CLIENT_DEADLINE" } else { "TRANSPORT" };
        let reason = told.unwrap_or_else(|| made_here.to_owned());
        let retry_after = details.retry_info().and_then(|info| info.retry_delay);
        Self { status: StatusKey { code: name_of(status.code()), reason }, retry_after }
    }

    /// Returns the failure of a request with a document that was refused, within a stream that
    /// continued.
    pub fn refused_document(reason: String, is_retryable: bool) -> Self {
        let code = match reason.as_str() {
            "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
            _ if is_retryable => Code::Unavailable,
            _ => Code::InvalidArgument,
        };
        Self { status: StatusKey { code: name_of(code), reason }, retry_after: None }
    }

    /// Returns the failure of a request for which the client stopped waiting.
    pub fn gave_up() -> Self {
        let reason = "CLIENT_GAVE_UP".to_owned();
        Self {
            status: StatusKey { code: name_of(Code::DeadlineExceeded), reason },
            retry_after: None,
        }
    }
}

/// Returns whether the clock of this side ended the call.
fn is_timeout(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(now) = cause {
        if now.is::<tonic::TimeoutExpired>() {
            return true;
        }
        cause = now.source();
    }
    false
}

/// Returns the name of a code as gRPC writes it.
fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;
    use clew_proto::{from_status, to_status};

    use super::*;

    #[test]
    fn a_refusal_is_counted_by_code_and_reason_and_tells_its_delay() {
        let refused = Error::exhausted("the queue of questions", Duration::from_millis(500));
        let status = to_status(&refused);
        let failure = Failure::of(&from_status(&status).with_source(status));
        assert!(failure.status.is_refusal());
        assert_eq!(failure.status.reason, "RESOURCE_EXHAUSTED");
        assert_eq!(failure.retry_after, Some(Duration::from_millis(500)));
    }

    #[test]
    fn a_reason_that_this_client_does_not_know_is_kept() {
        let status = to_status(&Error::new(ErrorKind::Unavailable, "QUITE_NEW", "later"));
        let failure = Failure::of(&from_status(&status).with_source(status));
        assert_eq!(
            (failure.status.code, failure.status.reason.as_str()),
            ("UNAVAILABLE", "QUITE_NEW")
        );
        assert!(!failure.status.is_refusal());
    }

    #[test]
    fn a_connection_that_broke_has_a_reason_of_its_own() {
        let status = Status::unavailable("connection reset");
        let failure = Failure::of(&from_status(&status).with_source(status));
        assert_eq!(failure.status.reason, "TRANSPORT");
    }
}
