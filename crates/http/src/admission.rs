//! Which requests get to the routes: those of allowed hosts and origins, with a bounded body.
//!
//! A browser sends a request to this listener for any page that asks it to. Two headers tell such
//! requests from those of the listener's own clients. `Host` is the name that the browser connected
//! to: it is foreign if a page had its own name point here (DNS rebinding). `Origin` is the page's.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    CACHE_CONTROL, HOST, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tonic::Code;

use crate::received::BoundedBody;
use crate::{Failure, HttpConfig};

/// What pages of allowed origins may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, connect-protocol-version, connect-timeout-ms, content-type, grpc-timeout, last-event-id, \
     mcp-protocol-version, mcp-session-id, traceparent, tracestate, x-grpc-web, x-user-agent",
);
/// What pages of allowed origins may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "grpc-message, grpc-status, grpc-status-details-bin, mcp-session-id, retry-after, www-authenticate",
);
/// Time, in seconds, for which a browser may keep the answer to its question about an origin.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The rules of a listener.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Allowed host names, in lower case. `None` if every name is allowed.
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
    body_bytes: usize,
    patience: Duration,
}

impl Admission {
    /// Creates the rules of a listener whose connections are `encrypted` or not.
    pub(crate) fn new(config: &HttpConfig, encrypted: bool) -> Self {
        let listed = &config.allowed_hosts;
        let every = listed.iter().any(|host| host == "*") || (listed.is_empty() && encrypted);
        let hosts = listed.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self {
            hosts: (!every).then_some(hosts),
            origins: config.allowed_origins.clone(),
            body_bytes: config.body_bytes,
            patience: config.patience(),
        }
    }

    /// Returns the origin to name to the browser if the request comes from a page of an allowed
    /// origin, and `None` if it comes from no other page than the listener's own.
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>, Failure> {
        let authority = authority(uri, headers)?;
        if !self.allows_host(authority.host()) {
            let problem = "expected a host that `http.allowed_hosts` lists; call the server by one of these names or \
                           by its address";
            let code = Code::PermissionDenied;
            return Err(Failure::new(
                StatusCode::MISDIRECTED_REQUEST,
                code,
                "HOST_REFUSED",
                problem,
            ));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
        let named = origin.to_str().unwrap_or_default();
        if self.origins.iter().any(|allowed| allowed == named) {
            return Ok(Some(origin.clone()));
        }
        if is_own(named, &authority) {
            return Ok(None);
        }
        let problem = "expected a page of an origin that `http.allowed_origins` lists";
        Err(Failure::new(StatusCode::FORBIDDEN, Code::PermissionDenied, "ORIGIN_REFUSED", problem))
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let unbracketed = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost"
            || name.parse::<Ipv4Addr>().is_ok()
            || unbracketed.parse::<Ipv6Addr>().is_ok()
            || hosts.contains(&name)
    }
}

/// Returns the host and port that a request is for.
fn authority(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Failure> {
    let refused = |problem| {
        Failure::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, "HOST_REFUSED", problem)
    };
    let mut hosts = headers.get_all(HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return Err(refused("expected one header `Host`, got several"));
    }
    let host = host
        .map(|host| Authority::try_from(host.as_bytes()))
        .transpose()
        .map_err(|_| refused("expected a host name in the header `Host`"))?;
    let authority = match (uri.authority(), host) {
        (Some(target), Some(host)) if *target != host => {
            return Err(refused("expected the same host in the request's target and in `Host`"));
        }
        (Some(target), _) => target.clone(),
        (None, Some(host)) => host,
        (None, None) => return Err(refused("expected a header `Host`")),
    };
    match authority.as_str().contains('@') {
        true => Err(refused("expected a host without a user")),
        false => Ok(authority),
    }
}

/// Returns whether an origin is the one that this listener itself is at `authority`.
fn is_own(origin: &str, authority: &Authority) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let usual = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let port = |port: Option<u16>| port.unwrap_or(usual);
    origin.host().is_some_and(|host| host.eq_ignore_ascii_case(authority.host()))
        && port(origin.port_u16()) == port(authority.port_u16())
}

/// Passes a request on if it is admitted, with a bounded body.
pub(crate) async fn admit(
    State(admission): State<Arc<Admission>>,
    request: Request,
    next: Next,
) -> Response {
    let origin = match admission.check(request.uri(), request.headers()) {
        Ok(origin) => origin,
        Err(failure) => {
            tracing::info!(reason = failure.reason, "a request of HTTP was refused");
            return failure.into_response();
        }
    };
    let asks_first = request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks_first {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let Admission { body_bytes, patience, .. } = *admission;
        let bounded = |body| Body::new(BoundedBody::new(body, body_bytes, patience));
        next.run(request.map(bounded)).await
    };
    let headers = response.headers_mut();
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        if asks_first {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(hosts: &[&str], encrypted: bool) -> Admission {
        let config = HttpConfig {
            allowed_hosts: hosts.iter().map(ToString::to_string).collect(),
            allowed_origins: vec!["https://app.example.com".to_owned()],
            ..HttpConfig::default()
        };
        Admission::new(&config, encrypted)
    }

    fn check(
        admission: &Admission,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<Option<String>, String> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let checked = admission.check(request.uri(), request.headers());
        checked
            .map(|origin| origin.map(|origin| origin.to_str().unwrap().to_owned()))
            .map_err(|failure| failure.reason)
    }

    #[test]
    fn a_foreign_host_is_refused_in_plain_text() {
        let plain = admission(&[], false);
        let own = ["localhost:7422", "127.0.0.1", "[::1]:7422", "LOCALHOST", "localhost.:80"];
        for host in own {
            assert_eq!(check(&plain, "/", &[("host", host)]), Ok(None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x:y@z"] {
            assert!(check(&plain, "/", &[("host", host)]).is_err(), "{host}");
        }
        let listed = admission(&["Clew.example.com"], true);
        assert_eq!(check(&listed, "/", &[("host", "clew.example.com:443")]), Ok(None));
        assert!(check(&listed, "/", &[("host", "evil.example")]).is_err());
        // The certificate proves the name.
        assert_eq!(check(&admission(&[], true), "/", &[("host", "a.example")]), Ok(None));
        assert_eq!(check(&admission(&["*"], false), "/", &[("host", "a.example")]), Ok(None));
    }

    #[test]
    fn a_request_names_one_host() {
        let plain = admission(&[], false);
        assert!(check(&plain, "/", &[]).is_err());
        assert!(check(&plain, "/", &[("host", "localhost"), ("host", "localhost")]).is_err());
        assert!(check(&plain, "http://evil.example/", &[("host", "localhost")]).is_err());
        assert!(check(&plain, "http://evil.example/", &[]).is_err());
        assert_eq!(check(&plain, "http://localhost/", &[("host", "localhost")]), Ok(None));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let plain = admission(&[], false);
        let check = |origin| check(&plain, "/", &[("host", "localhost:7422"), ("origin", origin)]);
        let listed = "https://app.example.com";
        assert_eq!(check(listed), Ok(Some(listed.to_owned())));
        assert_eq!(check("http://localhost:7422"), Ok(None));
        let others = ["null", "http://localhost", "http://localhost:3000", "https://evil.example"];
        for origin in others.into_iter().chain(["https://app.example.com.evil.example", "*", ""]) {
            assert_eq!(check(origin), Err("ORIGIN_REFUSED".to_owned()), "{origin}");
        }
    }
}
