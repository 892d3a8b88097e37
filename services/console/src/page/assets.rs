//! The style sheet, the script and the icon.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/script.js");
const ICON: &str = include_str!("../assets/icon.svg");

pub(crate) async fn style(headers: HeaderMap) -> Response {
    file(&headers, "text/css; charset=utf-8", STYLE)
}

pub(crate) async fn script(headers: HeaderMap) -> Response {
    file(&headers, "text/javascript; charset=utf-8", SCRIPT)
}

pub(crate) async fn icon(headers: HeaderMap) -> Response {
    file(&headers, "image/svg+xml", ICON)
}

/// Returns a file, or that the browser's copy is still right. Browsers ask each time, so that no
/// page meets a style or a script of another release.
fn file(asked: &HeaderMap, kind: &'static str, content: &'static str) -> Response {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let tag = HeaderValue::try_from(tag).expect("quotes and digits are a value of a header");
    let checked = HeaderValue::from_static("no-cache");
    let headers = [(ETAG, tag), (CACHE_CONTROL, checked)];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(CONTENT_TYPE, HeaderValue::from_static(kind))], content).into_response()
}
