//! Counts the requests that this process sends to object stores.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Method;

/// Kind of a request to an object store. Providers charge for them by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageRequest {
    /// Reads an object or a part of it.
    Get,
    /// Asks whether an object exists, and for its tag.
    Head,
    /// Lists a page of objects, or of unfinished uploads.
    List,
    /// Writes an object, or does a step of an upload in parts.
    Put,
    /// Removes an object, up to a thousand at once, or what was uploaded of one.
    Delete,
}

static SENT: [AtomicU64; StorageRequest::ALL.len()] =
    [const { AtomicU64::new(0) }; StorageRequest::ALL.len()];

impl StorageRequest {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Get, Self::Head, Self::List, Self::Put, Self::Delete];

    /// Returns the name that metrics show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    /// Returns the number of requests of this kind that this process has sent. Repetitions count.
    pub fn sent(self) -> u64 {
        SENT.get(self as usize).map_or(0, |sent| sent.load(Ordering::Relaxed))
    }

    /// Returns the kind of a request with this method and query.
    pub(crate) fn of(method: &Method, query: Option<&str>) -> Self {
        let names = || query.unwrap_or_default().split('&').filter_map(|it| it.split('=').next());
        let asks = |name: &str| names().any(|found| found == name);
        match *method {
            Method::HEAD => Self::Head,
            Method::DELETE => Self::Delete,
            Method::POST if asks("delete") => Self::Delete,
            Method::GET if asks("list-type") || asks("uploads") => Self::List,
            Method::GET => Self::Get,
            _ => Self::Put,
        }
    }

    /// Counts one that is sent.
    pub(crate) fn count(self) {
        if let Some(sent) = SENT.get(self as usize) {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_method_and_query() {
        for (method, query, kind) in [
            (Method::GET, None, StorageRequest::Get),
            (Method::GET, Some("versionId=delete"), StorageRequest::Get),
            (Method::GET, Some("delimiter=%2F&list-type=2"), StorageRequest::List),
            (Method::HEAD, None, StorageRequest::Head),
            (Method::PUT, Some("partNumber=1&uploadId=x"), StorageRequest::Put),
            (Method::POST, Some("uploads"), StorageRequest::Put),
            (Method::POST, Some("delete"), StorageRequest::Delete),
            (Method::DELETE, Some("uploadId=x"), StorageRequest::Delete),
        ] {
            assert_eq!(StorageRequest::of(&method, query), kind, "{method} {query:?}");
        }
    }
}
