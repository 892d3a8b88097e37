//! Errors of calls as responses of HTTP: one table of codes, and the parts of a failure from which
//! each shape makes its own body.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use clew_core::{Error, Violation};
use clew_proto::to_status;
use prost::Message;
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Media type of JSON.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Reason of failures that the transport reports and not Clew.
const TRANSPORT: &str = "TRANSPORT";

/// A call that failed, or a request that was refused before it became a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Status of the response. It follows from `code` unless HTTP has a closer one, for example for
    /// a body that is too long.
    pub http: StatusCode,
    /// Code of gRPC.
    pub code: Code,
    /// Stable upper-case reason to branch on.
    pub reason: String,
    /// What was expected, what came and what to do, for people.
    pub message: String,
    /// Refused fields.
    pub violations: Vec<Violation>,
    /// Delay after which the same call may succeed.
    pub retry_after: Option<Duration>,
    /// Messages of `google.rpc` that came with the status.
    details: Vec<prost_types::Any>,
}

impl Failure {
    /// Creates a failure for a request that the front itself refuses.
    pub fn new(
        http: StatusCode,
        code: Code,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            http,
            code,
            reason: reason.to_owned(),
            message: message.into(),
            violations: Vec::new(),
            retry_after: None,
            details: Vec::new(),
        }
    }

    /// Creates a failure for one refused field. An empty `field` means the whole request.
    pub fn invalid(field: &str, description: impl Into<String>) -> Self {
        let mut failure = Self::from(&Error::invalid(field, description));
        if field.is_empty() {
            failure.message = failure.violations.drain(..).map(|at| at.description).collect();
        }
        failure
    }

    /// Returns the response of this failure, with `body` as its JSON.
    ///
    /// It has the status, and the headers that every shape sends: when to try again
    /// (`Retry-After`), and how to present a key (`WWW-Authenticate`).
    pub fn respond_with(&self, body: &impl Serialize) -> Response {
        // Serialising texts, numbers and lists of them cannot fail.
        let body = serde_json::to_vec(body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.http;
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response.headers_mut().extend(self.headers());
        response
    }

    /// Returns the headers that say when to try again and how to present a key.
    fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let delay = self.retry_after.map(|delay| {
            // Whole seconds, and never 0, which would mean at once.
            let seconds = delay.as_millis().div_ceil(1000).clamp(1, 86_400) as u32;
            (RETRY_AFTER, HeaderValue::from(seconds))
        });
        let key = (self.http == StatusCode::UNAUTHORIZED)
            .then(|| (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        delay.into_iter().chain(key)
    }

    /// Returns the body that the routes below `/api` send.
    pub fn body(&self) -> FailureBody<'_> {
        FailureBody {
            code: code_name(self.code),
            message: &self.message,
            reason: &self.reason,
            violations: self.violations.iter().map(FieldViolation::of).collect(),
            details: self.details.iter().map(Detail::of).collect(),
        }
    }
}

/// Body of a failed request below `/api`. `code`, `message` and `details` are those of the Connect
/// protocol.
#[derive(Debug, Serialize)]
pub struct FailureBody<'a> {
    code: &'static str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<FieldViolation<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail<'a>>,
}

#[derive(Debug, Serialize)]
struct FieldViolation<'a> {
    field: &'a str,
    description: &'a str,
}

impl<'a> FieldViolation<'a> {
    fn of(violation: &'a Violation) -> Self {
        Self { field: &violation.field, description: &violation.description }
    }
}

/// A message in a failure: its name, and its bytes in base64.
#[derive(Debug, Serialize)]
struct Detail<'a> {
    r#type: &'a str,
    value: String,
}

impl<'a> Detail<'a> {
    fn of(any: &'a prost_types::Any) -> Self {
        let name = any.type_url.rsplit_once('/').map_or(any.type_url.as_str(), |(_, name)| name);
        Self { r#type: name, value: STANDARD_NO_PAD.encode(&any.value) }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map_or(TRANSPORT, |info| info.reason.as_str());
        let violations = details.bad_request().map_or_else(Vec::new, |request| {
            let violations = request.field_violations.iter();
            let violation = |at: &tonic_types::FieldViolation| Violation {
                field: at.field.clone(),
                description: at.description.clone(),
            };
            violations.map(violation).collect()
        });
        let message = match (status.code(), status.message()) {
            (Code::Unimplemented, "") => "there is no such method",
            (code, "") => code.description(),
            (_, message) => message,
        };
        Self {
            http: http_code(status.code()),
            code: status.code(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            violations,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            // Every status of Clew has details that decode; those of others may have anything.
            details: tonic_types::pb::Status::decode(status.details())
                .map_or_else(|_| Vec::new(), |decoded| decoded.details),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        to_status(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.respond_with(&self.body())
    }
}

/// Returns the status of HTTP for a code of gRPC.
pub fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        // Not registered, and what proxies log for a client that went away.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT),
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// Returns the name of a code, as JSON has it.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    fn json(failure: &Failure) -> serde_json::Value {
        serde_json::to_value(failure.body()).unwrap()
    }

    #[test]
    fn every_kind_of_error_has_its_status() {
        for (kind, http, name) in [
            (ErrorKind::InvalidInput, 400, "invalid_argument"),
            (ErrorKind::NotFound, 404, "not_found"),
            (ErrorKind::AlreadyExists, 409, "already_exists"),
            (ErrorKind::Unauthenticated, 401, "unauthenticated"),
            (ErrorKind::Denied, 403, "permission_denied"),
            (ErrorKind::WrongState, 400, "failed_precondition"),
            (ErrorKind::LostRace, 409, "aborted"),
            (ErrorKind::Exhausted, 429, "resource_exhausted"),
            (ErrorKind::Unavailable, 503, "unavailable"),
            (ErrorKind::DeadlineExceeded, 504, "deadline_exceeded"),
            (ErrorKind::DataLoss, 500, "data_loss"),
            (ErrorKind::Internal, 500, "internal"),
        ] {
            let failure = Failure::from(Error::new(kind, "WHY", "what happened"));
            assert_eq!(failure.http.as_u16(), http, "{kind:?}");
            let body = json(&failure);
            assert_eq!(body["code"], name);
            assert_eq!([&body["message"], &body["reason"]], ["what happened", "WHY"]);
            let details = body["details"].as_array().unwrap();
            let names = |detail: &serde_json::Value| detail["type"] == "google.rpc.ErrorInfo";
            assert!(details.iter().any(names), "{details:?}");
        }
    }

    #[test]
    fn a_delay_is_told_in_whole_seconds() {
        for (millis, header) in [(1, "1"), (1000, "1"), (1001, "2")] {
            let full = Error::exhausted("the queue", Duration::from_millis(millis));
            let response = Failure::from(full).into_response();
            assert_eq!(response.headers()[RETRY_AFTER], header, "{millis}");
        }
        let refused = Failure::from(Error::new(ErrorKind::Unauthenticated, "KEY_REFUSED", "no"));
        let response = refused.into_response();
        assert!(!response.headers().contains_key(RETRY_AFTER));
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
    }

    #[test]
    fn refused_fields_are_named() {
        let body = json(&Failure::from(Error::invalid("query.k", "expected 1 to 9, got 10")));
        assert_eq!(body["violations"][0]["field"], "query.k");
        assert_eq!(body["violations"][0]["description"], "expected 1 to 9, got 10");
        let whole = Failure::invalid("", "expected JSON");
        assert_eq!((whole.message.as_str(), whole.violations.len()), ("expected JSON", 0));
    }

    #[test]
    fn a_status_of_the_transport_has_a_message() {
        let failure = Failure::from(Status::unimplemented(""));
        assert_eq!(failure.message, "there is no such method");
        assert_eq!((failure.http.as_u16(), failure.reason.as_str()), (501, TRANSPORT));
        assert_eq!(Failure::from(Status::internal("")).message, Code::Internal.description());
    }
}
