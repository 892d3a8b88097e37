//! Requests that failed.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use clew_core::Error;
use clew_http::Failure;

/// What a request failed with. As a response it has the status and no body: the layer around all
/// routes makes the page, or asks for a key.
#[derive(Clone, Debug)]
pub(crate) struct Failed(Arc<Failure>);

impl Failed {
    /// Creates a failure for a request that the console itself refuses.
    pub fn refused(failure: Failure) -> Self {
        Self(Arc::new(failure))
    }

    /// Returns the status of HTTP.
    pub fn status(&self) -> StatusCode {
        self.0.http
    }

    /// Returns what was expected, what came and what to do.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the stable reason.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::refused(failure)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::refused(Failure::from(error))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
