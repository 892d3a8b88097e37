//! Discovery of objects in buckets.

use std::collections::HashSet;
use std::path::Path as FilePath;
use std::sync::Arc;

use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore, path};

use crate::discover::{Discovery, FoundFile};
use crate::object::StoredObject;
use crate::{FileFormat, FileLocation, Problem, Source, Unreadable};

/// Maximum number of keys of one request: as many as servers give.
const PAGE: usize = 1000;

/// A place in a bucket that can be listed and read.
#[derive(Clone)]
pub struct BucketPlace {
    /// Address of the place, as people know it: `s3://bucket/prefix`.
    pub address: String,
    /// Beginning of the keys of its objects, without the last `/`. May be empty.
    pub prefix: String,
    /// Reader of the bucket.
    pub objects: Arc<dyn ObjectStore>,
    /// Lister of the bucket.
    pub lister: Arc<dyn PaginatedListStore>,
}

impl BucketPlace {
    /// Finds the objects below the prefix, or the one object whose key it is. An object's name is
    /// its key below the prefix. Keys with an unknown extension are counted, and so are those that
    /// end with `/`, with which some tools mark folders. A key that no object can be read by is
    /// reported as a problem, and the listing goes on behind it.
    ///
    /// If the bucket cannot be listed to its end, that is a problem, and [`Discovery::is_whole`] is
    /// false.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub async fn discover(&self) -> Discovery {
        let mut discovery = Discovery::default();
        let mut seen = HashSet::new();
        let below = match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        self.list(&below, &mut discovery, |discovery, object| {
            let name = object.location.as_ref().strip_prefix(&below).map(str::to_owned);
            match name {
                Some(name) if seen.insert(name.clone()) => self.add(discovery, name, object),
                // A mark of a folder, or a key that differs from another by a mark only.
                _ => discovery.unknown += 1,
            }
        })
        .await;
        if seen.is_empty() && discovery.problems.is_empty() && !self.prefix.is_empty() {
            self.find_one(&mut discovery).await;
        }
        discovery
    }

    /// Adds the object whose key is the prefix itself.
    async fn find_one(&self, discovery: &mut Discovery) {
        let head = GetOptions { head: true, ..GetOptions::default() };
        let problem = match path::Path::parse(&self.prefix) {
            Err(error) => Problem::malformed("a key of an object", error),
            Ok(path) => match self.objects.get_opts(&path, head).await {
                Err(Error::NotFound { .. }) => Problem::Io(std::io::ErrorKind::NotFound.into()),
                Err(error) => Problem::Io(std::io::Error::other(error)),
                Ok(found) => {
                    let name = path.filename().unwrap_or_default().to_owned();
                    let format = FileFormat::of_path(FilePath::new(&name));
                    let object = StoredObject::new(Arc::clone(&self.objects), found.meta);
                    let source = Source::object(name, object);
                    let format = format.unwrap_or(FileFormat::PlainText);
                    return discovery.files.push(FoundFile { source, format });
                }
            },
        };
        self.fail(discovery, "", problem);
    }

    fn add(&self, discovery: &mut Discovery, name: String, object: ObjectMeta) {
        match FileFormat::of_path(FilePath::new(&name)) {
            None => discovery.unknown += 1,
            Some(format) => {
                let object = StoredObject::new(Arc::clone(&self.objects), object);
                discovery.files.push(FoundFile { source: Source::object(name, object), format });
            }
        }
    }

    /// Lists all keys that begin with `below`, in their order.
    ///
    /// A key that is no path fails the whole page that it is on. Smaller pages go up to it, until a
    /// page of one key tells which it is.
    async fn list(
        &self,
        below: &str,
        discovery: &mut Discovery,
        mut found: impl FnMut(&mut Discovery, ObjectMeta),
    ) {
        let (mut last, mut page_token, mut size) = (None, None, PAGE);
        loop {
            let options = PaginatedListOptions {
                // A token knows where it goes on.
                offset: if page_token.is_some() { None } else { last.clone() },
                page_token: page_token.take(),
                max_keys: Some(size),
                ..PaginatedListOptions::default()
            };
            match self.lister.list_paginated(Some(below), options).await {
                Ok(page) => {
                    let mut objects = page.result.objects;
                    objects.sort_by(|a, b| a.location.cmp(&b.location));
                    for object in objects {
                        last = Some(object.location.to_string());
                        found(discovery, object);
                    }
                    page_token = page.page_token;
                    if page_token.is_none() {
                        return;
                    }
                    if size < PAGE {
                        (size, page_token) = (PAGE.min(size * 2), None);
                    }
                }
                Err(Error::InvalidPath { .. }) if size > 1 => size /= 2,
                Err(Error::InvalidPath { source }) => match key_of(&source) {
                    Some(key) => {
                        let problem = Problem::malformed(
                            "a key without empty parts, `.`, `..` and control characters",
                            &source,
                        );
                        self.fail(discovery, key, problem);
                        last = Some(key.to_owned());
                    }
                    None => return self.stop(discovery, last.as_deref(), source.into()),
                },
                Err(error) => return self.stop(discovery, last.as_deref(), error),
            }
        }
    }

    /// Notes that the listing ended before its end.
    fn stop(&self, discovery: &mut Discovery, last: Option<&str>, error: Error) {
        discovery.is_whole = false;
        let behind = last.map(|key| format!(" behind the key `{key}`")).unwrap_or_default();
        let problem = format!("the bucket cannot be listed{behind}: {error}");
        self.fail(discovery, "", Problem::Malformed(problem));
    }

    fn fail(&self, discovery: &mut Discovery, key: &str, problem: Problem) {
        let file = if key.is_empty() { self.address.clone() } else { key.to_owned() };
        discovery.problems.push(Unreadable { place: FileLocation { file, row: None }, problem });
    }
}

/// Returns the key that an error is about.
fn key_of(error: &path::Error) -> Option<&str> {
    match error {
        path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. } => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use object_store::list::PaginatedListResult;
    use object_store::memory::InMemory;
    use object_store::{ListResult, ObjectStoreExt, PutPayload};

    use super::*;

    /// Keys of a bucket, listed as the S3 store of `object_store` lists them: a key that is no path
    /// fails its page.
    #[derive(Default)]
    struct Keys {
        keys: Vec<&'static str>,
        requests: AtomicUsize,
        /// Number of the request that is refused.
        refused: Option<usize>,
    }

    #[async_trait::async_trait]
    impl PaginatedListStore for Keys {
        async fn list_paginated(
            &self,
            prefix: Option<&str>,
            options: PaginatedListOptions,
        ) -> object_store::Result<PaginatedListResult> {
            if Some(self.requests.fetch_add(1, Ordering::Relaxed)) == self.refused {
                return Err(Error::NotImplemented {
                    operation: "list".into(),
                    implementer: "".into(),
                });
            }
            let after = options.page_token.or(options.offset).unwrap_or_default();
            let is_wanted =
                |key: &&&str| key.starts_with(prefix.unwrap_or_default()) && **key > after.as_str();
            let mut wanted = self.keys.iter().filter(is_wanted).peekable();
            let page: Vec<&str> =
                wanted.by_ref().take(options.max_keys.unwrap()).copied().collect();
            let page_token = wanted.peek().and_then(|_| page.last().map(ToString::to_string));
            let object = |key: &&str| {
                Ok(ObjectMeta {
                    location: path::Path::parse(key)?,
                    last_modified: Default::default(),
                    size: 4,
                    e_tag: None,
                    version: None,
                })
            };
            let objects = page.iter().map(object).collect::<object_store::Result<_>>()?;
            let (common_prefixes, extensions) = Default::default();
            let result = ListResult { objects, common_prefixes, extensions };
            Ok(PaginatedListResult { result, page_token })
        }
    }

    async fn found(prefix: &str, keys: Keys) -> (Discovery, usize) {
        let objects = InMemory::new();
        for key in &keys.keys {
            if let Ok(path) = path::Path::parse(key) {
                objects.put(&path, PutPayload::from_static(b"text")).await.unwrap();
            }
        }
        let lister = Arc::new(keys);
        let place = BucketPlace {
            address: format!("s3://bucket/{prefix}"),
            prefix: prefix.to_owned(),
            objects: Arc::new(objects),
            lister: Arc::<Keys>::clone(&lister),
        };
        (place.discover().await, lister.requests.load(Ordering::Relaxed))
    }

    fn names(discovery: &Discovery) -> Vec<&str> {
        discovery.files.iter().map(|found| found.source.name()).collect()
    }

    #[tokio::test]
    async fn objects_are_named_below_the_prefix_and_a_key_alone_by_its_last_part() {
        let keys = ["docs/a.md", "docs/deep/", "docs/deep/b.txt", "docs/c.bin", "docs-too/d.md"];
        let (discovery, requests) =
            found("docs", Keys { keys: keys.to_vec(), ..Keys::default() }).await;
        assert_eq!((names(&discovery), requests), (vec!["a.md", "deep/b.txt"], 1));
        assert_eq!(discovery.unknown, 2);
        assert!(discovery.problems.is_empty() && discovery.is_whole);

        let (one, _) = found("docs/a.md", Keys { keys: keys.to_vec(), ..Keys::default() }).await;
        assert_eq!(names(&one), ["a.md"]);
        let (none, _) = found("absent", Keys { keys: keys.to_vec(), ..Keys::default() }).await;
        assert!(none.files.is_empty());
        assert!(none.problems[0].to_string().contains("s3://bucket/absent"));
    }

    #[tokio::test]
    async fn a_key_that_is_no_path_is_named_and_the_rest_goes_on() {
        let mut all: Vec<String> = (0..2500).map(|i| format!("p/{i:04}.md")).collect();
        all.extend(["p/0700//x.md", "p/0700/../y.md", "p/1999\u{7}.md"].map(str::to_owned));
        all.sort();
        let keys: Vec<&'static str> = all.into_iter().map(|key| &*key.leak()).collect();
        let (discovery, requests) = found("p", Keys { keys, ..Keys::default() }).await;
        assert_eq!(discovery.files.len(), 2500);
        let named: Vec<&str> =
            discovery.problems.iter().map(|problem| problem.place.file.as_str()).collect();
        assert_eq!(named, ["p/0700/../y.md", "p/0700//x.md", "p/1999\u{7}.md"]);
        assert!(discovery.is_whole);
        assert!(requests < 100, "{requests}");
    }

    #[tokio::test]
    async fn a_listing_that_ends_too_early_is_not_whole() {
        let all = (0..2500).map(|i| &*format!("p/{i:04}.md").leak()).collect();
        let (discovery, _) =
            found("p", Keys { keys: all, refused: Some(2), ..Keys::default() }).await;
        assert_eq!(discovery.files.len(), 2000);
        assert!(!discovery.is_whole);
        let problem = discovery.problems[0].to_string();
        assert!(problem.contains("s3://bucket/p") && problem.contains("p/1999.md"), "{problem}");
    }
}
