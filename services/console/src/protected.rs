//! What surrounds every route: forms of other sites are refused, failures become pages, and every
//! response carries the policy by which browsers treat it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, LOCATION, ORIGIN, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clew_http::Failure;
use tonic::Code;

use crate::console::Console;
use crate::failed::Failed;
use crate::fields::query;
use crate::shell;
use crate::visitor::host;

/// A page loads, runs, frames and sends nothing but by the console itself, and no other page frames
/// it. Styles and scripts are files: what a stored text could smuggle into a page is neither.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// Headers besides the policy. The page that a link leads to does not learn where it came from: the
/// address of a page has questions in it. Forms of the console itself do, because browsers would
/// otherwise hide their origin.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Answers a request within the rules of all pages.
pub(crate) async fn protect(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let is_own = method != Method::POST || is_of_own_page(&parts);
    let mut response = match is_own {
        true => next.run(Request::from_parts(parts, body)).await,
        false => foreign().into_response(),
    };
    if let Some(failed) = response.extensions_mut().remove::<Failed>() {
        response = told(&console, &failed, &method, &uri);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.extend(HEADERS);
    response
}

/// Returns whether a form was sent by a page of the console. Browsers name the origin of every
/// form, and no page can have its browser name another.
fn is_of_own_page(parts: &axum::http::request::Parts) -> bool {
    let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let authority = origin.and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    matches!((authority, host(parts)), (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host))
}

fn foreign() -> Failed {
    let problem = "expected a form of this console, got one of another page; open the console and \
                   send it there";
    let status = StatusCode::FORBIDDEN;
    Failure::new(status, Code::PermissionDenied, "ORIGIN_REFUSED", problem).into()
}

/// Returns the response of a request that failed: a page, or the way to the login.
fn told(console: &Console, failed: &Failed, method: &Method, uri: &Uri) -> Response {
    if failed.status() != StatusCode::UNAUTHORIZED {
        return shell::failed(console, failed);
    }
    // Back to the page, but never to a form, which would be sent without what was in it.
    let next = uri.path_and_query().filter(|_| method == Method::GET).map(|path| path.as_str());
    let next = next.filter(|path| *path != console.at("/") && *path != console.base);
    let to = match next {
        Some(next) => console.at(&format!("/login?{}", query(&[("next", next)]))),
        None => console.at("/login"),
    };
    see_other(&to)
}

/// Returns the response that sends a browser to another page of the console.
pub(crate) fn see_other(to: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    // Paths of the console and encoded queries are ASCII.
    if let Ok(to) = HeaderValue::try_from(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_taken_from_the_own_origin_alone() {
        let own = |host: &str, origin: Option<&str>| {
            let mut request = Request::builder().method(Method::POST).header("host", host);
            if let Some(origin) = origin {
                request = request.header(ORIGIN, origin);
            }
            is_of_own_page(&request.body(()).unwrap().into_parts().0)
        };
        assert!(own("127.0.0.1:7422", Some("http://127.0.0.1:7422")));
        assert!(own("clew.example.com", Some("https://clew.example.com")));
        for origin in ["http://127.0.0.1", "null", "", "http://evil.example", "127.0.0.1:7422"] {
            assert!(!own("127.0.0.1:7422", Some(origin)), "{origin}");
        }
        assert!(!own("127.0.0.1:7422", None));
    }
}
