//! Refusals in the shape of OpenAI: `{"error": {"message", "type", "param", "code"}}`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use clew_http::Failure;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// Code by which OpenAI's clients know that a model does not exist.
const MODEL_NOT_FOUND: &str = "MODEL_NOT_FOUND";

/// A failed request to a route below `/v1`.
#[derive(Debug)]
pub(crate) struct Refusal {
    failure: Box<Failure>,
    /// Name of the parameter at fault, as the client sent it.
    param: Option<String>,
}

impl Refusal {
    /// Refuses a parameter.
    pub fn param(param: impl Into<String>, problem: impl Into<String>) -> Self {
        let failure = Failure::invalid("", problem);
        Self { failure: Box::new(failure), param: Some(param.into()) }
    }

    /// Refuses a model that the caller cannot ask, for the reason that `failure` gives.
    pub fn unknown_model(mut failure: Failure) -> Self {
        (failure.http, failure.code) = (StatusCode::NOT_FOUND, Code::NotFound);
        MODEL_NOT_FOUND.clone_into(&mut failure.reason);
        Self { failure: Box::new(failure), param: Some("model".to_owned()) }
    }

    /// Refuses what contradicts something that is stored.
    pub fn conflict(param: &str, reason: &'static str, problem: impl Into<String>) -> Self {
        let failure = Failure::new(StatusCode::CONFLICT, Code::FailedPrecondition, reason, problem);
        Self { failure: Box::new(failure), param: Some(param.to_owned()) }
    }

    /// Returns the refusal of a call about a model. `named` tells which parameter of the client
    /// became a field of the call. A corpus or strategy at fault is a model that does not exist.
    pub fn of_call(status: Status, named: impl Fn(&str) -> Option<String>) -> Self {
        let failure = Failure::from(status);
        let field = failure.violations.first().map(|at| at.field.clone());
        let is_unknown = failure.code == Code::NotFound
            || field
                .as_deref()
                .is_some_and(|field| ["corpus", "strategy", "name"].contains(&field));
        match is_unknown {
            true => Self::unknown_model(failure),
            false => Self { failure: Box::new(failure), param: field.as_deref().and_then(named) },
        }
    }

    /// Returns the refusal of a call about a corpus as a vector store.
    pub fn of_store(status: Status) -> Self {
        let failure = Failure::from(status);
        let param = match failure.violations.first() {
            Some(at) if !["corpus", "name"].contains(&at.field.as_str()) => Some(at.field.clone()),
            None if failure.code != Code::NotFound => None,
            _ => Some("vector_store_id".to_owned()),
        };
        Self { failure: Box::new(failure), param }
    }

    /// Returns the refusal of a call about a document as a file.
    pub fn of_file(status: Status) -> Self {
        let failure = Failure::from(status);
        let is_about_it = failure.code == Code::NotFound || !failure.violations.is_empty();
        let param = is_about_it.then(|| "file_id".to_owned());
        Self { failure: Box::new(failure), param }
    }

    /// Returns the body.
    pub fn body(&self) -> Value {
        let Self { failure, param } = self;
        json!({
            "error": {
                "message": failure.message,
                "type": kind(failure.http),
                "param": param,
                "code": failure.reason.to_ascii_lowercase(),
            },
        })
    }

    /// Returns the status of the response.
    #[cfg(test)]
    pub fn http(&self) -> StatusCode {
        self.failure.http
    }
}

/// Returns OpenAI's word for what kind of failure a status is.
fn kind(http: StatusCode) -> &'static str {
    match http {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        http if http.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let param = failure.violations.first().map(|at| at.field.clone());
        Self { failure: Box::new(failure), param }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.failure.respond_with(&self.body())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::{Error, ErrorKind};
    use clew_proto::to_status;

    use super::*;

    fn told(error: &Error) -> (u16, Value) {
        let named = |field: &str| (field == "question").then(|| "messages".to_owned());
        let refusal = Refusal::of_call(to_status(error), named);
        (refusal.http().as_u16(), refusal.body()["error"].clone())
    }

    #[test]
    fn every_kind_of_failure_has_openais_word() {
        for (kind, http, word) in [
            (ErrorKind::InvalidInput, 400, "invalid_request_error"),
            (ErrorKind::Unauthenticated, 401, "authentication_error"),
            (ErrorKind::Denied, 403, "permission_error"),
            (ErrorKind::Exhausted, 429, "rate_limit_error"),
            (ErrorKind::Unavailable, 503, "server_error"),
            (ErrorKind::DeadlineExceeded, 504, "server_error"),
        ] {
            let (status, error) = told(&Error::new(kind, "WHY", "what happened"));
            assert_eq!((status, error["type"].as_str()), (http, Some(word)));
            assert_eq!(
                (&error["message"], &error["code"]),
                (&json!("what happened"), &json!("why"))
            );
            assert_eq!(error["param"], Value::Null);
        }
    }

    #[test]
    fn a_corpus_or_strategy_at_fault_is_an_unknown_model() {
        for error in [
            Error::not_found("corpus", "x"),
            Error::invalid("strategy", "expected one of direct, got `x`"),
            Error::invalid("corpus", "expected a name"),
        ] {
            let (status, error) = told(&error);
            assert_eq!((status, &error["code"]), (404, &json!("model_not_found")), "{error}");
            assert_eq!(error["param"], "model");
        }
    }

    #[test]
    fn a_field_at_fault_is_named_as_the_client_sent_it() {
        let (_, error) = told(&Error::invalid("question", "expected at most 16384 bytes"));
        assert_eq!(error["param"], "messages");
    }

    #[test]
    fn a_delay_is_a_header() {
        let full = Error::exhausted("the queue", Duration::from_millis(1500));
        let response = Refusal::of_call(to_status(&full), |_| None).into_response();
        assert_eq!(response.headers()["retry-after"], "2");
    }
}
