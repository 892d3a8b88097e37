//! Who looks at a page, and what they may be offered.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path};
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use clew_client::Client;
use clew_core::CorpusName;
use clew_http::CallHeaders;
use clew_proto::auth::v1::{Scope, WhoAmIResponse};
use clew_proto::query::v1::Place;
use url::form_urlencoded::byte_serialize;

use crate::console::Console;
use crate::failed::Failed;
use crate::fields::{Fields, query};

/// Name of the cookie with a login.
pub(crate) const LOGIN_COOKIE: &str = "clew_login";
/// Time that a page waits for one call of the services.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who looks at a page. An extractor that asks the services who it is, so that a page only begins
/// if they know the visitor.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// The services as the visitor reaches them.
    pub client: Client,
    /// What the query of the page's address says.
    pub query: Fields,
    /// Address at which the visitor reaches this server, such as `http://127.0.0.1:7422`.
    pub origin: String,
    console: Arc<Console>,
    who: WhoAmIResponse,
}

impl Visitor {
    /// Returns whether the visitor came with a key.
    pub fn has_key(&self) -> bool {
        self.who.has_key
    }

    /// Returns the visitor's name: that of their key, with their tenant.
    pub fn name(&self) -> String {
        match (self.who.key.as_str(), self.who.tenant.as_str()) {
            (key, "") => key.to_owned(),
            (key, tenant) => format!("{key} of {tenant}"),
        }
    }

    /// Returns whether the visitor may read what is stored.
    pub fn may_read(&self) -> bool {
        self.has(Scope::Read)
    }

    /// Returns whether the visitor may add, correct and forget.
    pub fn may_write(&self) -> bool {
        self.has(Scope::Write)
    }

    /// Returns whether the visitor may make corpora and see their snapshots.
    pub fn may_administer(&self) -> bool {
        self.has(Scope::Admin)
    }

    /// Returns whether the visitor may see the cluster, if there is one.
    pub fn may_see_cluster(&self) -> bool {
        self.console.place.is_cluster && self.who.tenant.is_empty() && self.has(Scope::Read)
    }

    fn has(&self, scope: Scope) -> bool {
        self.who.scopes().any(|held| held == scope)
    }

    /// Returns the address of a page, for a path that begins with a slash.
    pub fn at(&self, path: &str) -> String {
        self.console.at(path)
    }

    /// Returns the address of a page of a corpus: `page` is empty for the corpus itself.
    pub fn of(&self, corpus: &CorpusName, page: &str, fields: &[(&str, &str)]) -> String {
        let corpus: String = byte_serialize(corpus.as_str().as_bytes()).collect();
        let slash = if page.is_empty() { "" } else { "/" };
        self.asking(&format!("/corpora/{corpus}{slash}{page}"), fields)
    }

    /// Returns the address of a page, for a path that begins with a slash, with the fields that
    /// have a value as its query.
    pub fn asking(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let fields: Vec<_> =
            fields.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
        let mark = if fields.is_empty() { "" } else { "?" };
        self.at(&format!("{path}{mark}{}", query(&fields)))
    }

    /// Returns the address of a document's page at which a place of it is marked.
    pub fn of_place(&self, corpus: &CorpusName, place: &Place) -> String {
        let span = place.span.unwrap_or_default();
        let [version, start, end] = [place.version, span.start, span.end].map(|n| n.to_string());
        let fields = [
            ("id", place.document_id.as_str()),
            ("version", &version),
            ("start", &start),
            ("end", &end),
        ];
        format!("{}#cited", self.of(corpus, "document", &fields))
    }
}

impl FromRequestParts<Arc<Console>> for Visitor {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, console: &Arc<Console>) -> Result<Self, Failed> {
        let mut head = parts.clone();
        let login = cookie(&parts.headers, LOGIN_COOKIE);
        if let Some(key) = login.and_then(|sealed| console.sealer.open(sealed, console.now())) {
            present(&mut head.headers, &key);
        }
        let call = CallHeaders::of(&head)?;
        let client = Client::over(call.over(&console.services), PATIENCE);
        let who = client.who_am_i().await?;
        Ok(Self {
            client,
            query: Fields::read(parts.uri.query().unwrap_or_default().as_bytes()),
            origin: origin(console, parts),
            console: Arc::clone(console),
            who,
        })
    }
}

/// Returns whether a key is that of somebody whom the services know.
///
/// # Errors
/// Returns the failure of asking, which is `KEY_REFUSED` if the key is not known.
pub(crate) async fn try_key(console: &Console, parts: &Parts, key: &str) -> Result<(), Failed> {
    let mut head = parts.clone();
    present(&mut head.headers, key);
    let call = CallHeaders::of(&head)?;
    Client::over(call.over(&console.services), PATIENCE).who_am_i().await?;
    Ok(())
}

/// Puts a key where the services look for it. A text that no header can have is no key, so the
/// services are asked without one.
fn present(headers: &mut HeaderMap, key: &str) {
    headers.remove(AUTHORIZATION);
    if let Ok(value) = HeaderValue::try_from(format!("Bearer {key}")) {
        headers.insert(AUTHORIZATION, value);
    }
}

/// Returns the value of a cookie.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(named, value)| (named.trim() == name).then_some(value.trim()))
}

/// Returns the address at which a visitor reached this server, as far as it can be known: a proxy
/// in front that encrypts says so.
fn origin(console: &Console, parts: &Parts) -> String {
    let host = host(parts).unwrap_or("localhost");
    let is_encrypted = console.place.is_encrypted
        || parts.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    format!("{}://{host}", if is_encrypted { "https" } else { "http" })
}

/// Returns the host and port that a request is for.
pub(crate) fn host(parts: &Parts) -> Option<&str> {
    let named = parts.headers.get("host").and_then(|host| host.to_str().ok());
    parts.uri.authority().map(axum::http::uri::Authority::as_str).or(named)
}

/// The corpus of a page, which its path names.
pub(crate) struct OfCorpus(pub CorpusName);

impl<S: Send + Sync> FromRequestParts<S> for OfCorpus {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        let name = named.map_or_else(|_| String::new(), |Path(name)| name);
        Ok(Self(name.parse::<CorpusName>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; clew_login=x=y"));
        headers.append(COOKIE, HeaderValue::from_static("clew_logins=2"));
        assert_eq!(cookie(&headers, "clew_login"), Some("x=y"));
        assert_eq!(cookie(&headers, "clew"), None);
    }

    #[test]
    fn a_text_that_no_header_can_have_is_no_key() {
        let mut headers = HeaderMap::new();
        present(&mut headers, "clew_a");
        assert_eq!(headers[AUTHORIZATION], "Bearer clew_a");
        present(&mut headers, "a\r\nX-Other: b");
        assert!(headers.is_empty());
    }
}
