//! What of a request's headers is passed on to the services.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Request};
use clew_client::Services;
use clew_tls::ConnectInfo;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tower::ServiceExt;

use crate::Failure;

/// Headers that are passed on as they are: the key, and the trace that a call belongs to.
const PASSED_ON: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];
/// Header with the time that the client waits, in milliseconds.
const PATIENCE: &str = "connect-timeout-ms";
/// Header with the time that the client waits, as gRPC-Web clients send it.
const GRPC_PATIENCE: &str = "grpc-timeout";
/// Maximum number of digits of a time, as the Connect protocol has it.
const DIGITS: usize = 10;

/// What a call carries on behalf of the client whose HTTP request caused it: the key, the trace,
/// the deadline, and the address that it came from. Nothing else that a client sends becomes
/// metadata.
///
/// It is an extractor of routes. Make one for each request, and never keep it for another.
#[derive(Clone, Debug, Default)]
pub struct CallHeaders {
    headers: HeaderMap,
    /// Time that the client waits, if it said so by [`PATIENCE`].
    patience: Option<Duration>,
    connection: Option<ConnectInfo>,
}

impl CallHeaders {
    /// Takes what is passed on out of a request.
    ///
    /// # Errors
    /// Returns `INVALID_ARGUMENT` if the header `Connect-Timeout-Ms` is not a number.
    pub fn of(parts: &Parts) -> Result<Self, Failure> {
        Self::taken(&parts.headers, &parts.extensions)
    }

    pub(crate) fn taken(sent: &HeaderMap, extensions: &Extensions) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        for name in PASSED_ON {
            if let Some(value) = sent.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let patience = sent.get(PATIENCE).map(millis).transpose()?;
        let of_grpc = sent.get(GRPC_PATIENCE);
        if let Some(patience) = patience.map(grpc_patience).or_else(|| of_grpc.cloned()) {
            headers.insert(GRPC_PATIENCE, patience);
        }
        Ok(Self { headers, patience, connection: extensions.get().cloned() })
    }

    /// Returns the time that the client waits for the end of its call, if it named one by
    /// `Connect-Timeout-Ms`.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Sets the time that the client waits, unless it said so itself.
    #[must_use]
    pub fn waiting_at_most(mut self, patience: Duration) -> Self {
        self.headers.entry(GRPC_PATIENCE).or_insert_with(|| grpc_patience(patience));
        self
    }

    /// Returns the call of a generated client with `message`.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let metadata = MetadataMap::from_headers(self.headers.clone());
        let mut extensions = Extensions::new();
        if let Some(connection) = &self.connection {
            extensions.insert(connection.clone());
        }
        tonic::Request::from_parts(metadata, extensions, message)
    }

    /// Returns `services` for the calls of this client alone, for example for a
    /// [`clew_client::Client`].
    pub fn over(&self, services: &Services) -> Services {
        let call = self.clone();
        Services::over(services.clone().map_request(move |mut request: Request<Body>| {
            for (name, value) in &call.headers {
                request.headers_mut().insert(name, value.clone());
            }
            if let Some(connection) = &call.connection {
                request.extensions_mut().insert(connection.clone());
            }
            request
        }))
    }

    /// Returns whether the client presents a key.
    pub fn has_key(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CallHeaders {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        Self::of(parts)
    }
}

/// Reads a number of milliseconds.
fn millis(sent: &HeaderValue) -> Result<Duration, Failure> {
    let digits = sent.to_str().unwrap_or_default();
    let is_number =
        (1..=DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let millis = digits.parse().ok().filter(|_| is_number);
    millis.map(Duration::from_millis).ok_or_else(|| {
        let expected = format!("expected a number of milliseconds of at most {DIGITS} digits");
        Failure::invalid("Connect-Timeout-Ms", expected)
    })
}

/// Returns a time in the form of gRPC, which has at most eight digits.
fn grpc_patience(patience: Duration) -> HeaderValue {
    let text = match patience.as_millis() {
        millis if millis < 100_000_000 => format!("{millis}m"),
        _ => format!("{}S", patience.as_secs().min(99_999_999)),
    };
    HeaderValue::try_from(text).expect("digits and a letter are a value of a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(headers: &[(&str, &str)]) -> Result<CallHeaders, Failure> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        CallHeaders::of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_what_is_listed_is_passed_on() {
        let sent = [
            ("authorization", "Bearer k"),
            ("traceparent", "t"),
            ("connect-timeout-ms", "1500"),
            ("cookie", "c"),
            ("x-clew-spend", "1"),
            ("grpc-encoding", "gzip"),
        ];
        let request = taken(&sent).unwrap().request(());
        let mut names: Vec<_> =
            request.metadata().clone().into_headers().keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["authorization", "grpc-timeout", "traceparent"]);
        assert_eq!(request.metadata().get("grpc-timeout").unwrap(), "1500m");
    }

    #[test]
    fn a_time_that_is_no_number_is_refused() {
        for (bad, times) in [("", 1), ("-1", 1), ("1.5", 1), ("1s", 1), ("9", 11)] {
            let failure = taken(&[("connect-timeout-ms", &bad.repeat(times))]).unwrap_err();
            assert_eq!(failure.violations[0].field, "Connect-Timeout-Ms", "{bad}");
        }
        let long = taken(&[("connect-timeout-ms", "9999999999")]).unwrap().request(());
        assert_eq!(long.metadata().get("grpc-timeout").unwrap(), "9999999S");
    }

    #[test]
    fn a_default_time_holds_unless_the_client_names_one() {
        let waits = |headers: &[(&str, &str)]| {
            let call = taken(headers).unwrap().waiting_at_most(Duration::from_secs(2));
            call.request(()).metadata().get("grpc-timeout").unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(waits(&[]), "2000m");
        assert_eq!(waits(&[("connect-timeout-ms", "10")]), "10m");
    }
}
