//! Fields of forms and queries.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequest, Request};
use clew_core::Error;
use clew_http::Received;
use url::form_urlencoded;

use crate::failed::Failed;

/// Fields of a form or of a query, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads fields as forms and queries have them. Bytes that are not UTF-8 are replaced.
    pub fn read(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// Returns the first value of a field, without white space around it. Returns an empty text if
    /// there is none.
    pub fn get(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// Returns the first value of a field as it was sent, or an empty text.
    pub fn raw(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(named, _)| named == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns all values of a field as they were sent.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(named, _)| named == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a field was sent with a value.
    pub fn has(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// Returns the value of a field as a number. Returns `None` if it is absent or empty.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if it is something else.
    pub fn number<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Error> {
        let sent = self.get(name);
        if sent.is_empty() {
            return Ok(None);
        }
        let number = sent
            .parse()
            .map_err(|_| Error::invalid(name, format!("expected a whole number, got `{sent}`")))?;
        Ok(Some(number))
    }
}

/// Fields of a form that was posted.
pub(crate) struct Posted(pub Fields);

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failed> {
        let received = Received::from_request(request, state).await;
        let Received(body) = received.map_err(Failed::from)?;
        Ok(Self(Fields::read(&body)))
    }
}

/// Returns fields as a query has them.
pub(crate) fn query(fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_a_query_says() {
        let fields = [("id", "a/b c&d=ä+\n"), ("k", "5"), ("empty", "")];
        let read = Fields::read(query(&fields).as_bytes());
        assert_eq!(read.raw("id"), "a/b c&d=ä+\n");
        assert_eq!(read.get("id"), "a/b c&d=ä+");
        assert_eq!(read.number::<u32>("k").unwrap(), Some(5));
        assert_eq!(read.number::<u32>("empty").unwrap(), None);
        assert_eq!(read.number::<u32>("id").unwrap_err().fields_at_fault(), ["id"]);
        assert!(!read.has("empty") && !read.has("absent") && read.has("k"));
        let read = Fields::read(b"a=1&b=2&a=%203");
        assert_eq!(read.all("a").collect::<Vec<_>>(), ["1", " 3"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(Fields::read(b"a=%ff&%=%zz").raw("a"), "\u{fffd}");
    }
}
