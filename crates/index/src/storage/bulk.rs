//! Removes many objects with one request, from a store that can.
//!
//! S3 removes up to a thousand objects per request (`DeleteObjects`), and says of each whether it
//! is gone. Not every server that is compatible with S3 has that request, and nothing tells before
//! it is tried. So what such a request did not remove is removed one by one, and a store that
//! refuses the request is not asked for it again for a while.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Number of objects that one request removes: the limit of S3.
const AT_ONCE: usize = 1_000;
/// Time for which a store that refused to remove many objects at once is not asked again.
const REFUSED_FOR: Duration = Duration::from_secs(600);

/// Object store that removes many objects with one request if it can.
#[derive(Clone, Debug)]
pub(crate) struct BulkRemoval {
    /// The store, for everything else. Removes objects one by one.
    store: Arc<dyn ObjectStore>,
    /// The same store, which removes all objects of a stream with one request.
    in_bulk: Arc<dyn ObjectStore>,
    /// When it last refused that.
    refused: Arc<Mutex<Option<Instant>>>,
}

impl BulkRemoval {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, in_bulk: Arc<dyn ObjectStore>) -> Self {
        Self { store, in_bulk, refused: Arc::default() }
    }

    /// Removes some objects, [`AT_ONCE`] at most. The stream has one item for each.
    async fn remove(self, paths: Vec<Path>) -> BoxStream<'static, Result<Path>> {
        if paths.len() == 1 || self.is_refused() {
            return self.one_by_one(paths);
        }
        let all = stream::iter(paths.clone()).map(Ok).boxed();
        let told = self.in_bulk.delete_stream(all).map(|removed| removed.is_ok());
        let told: Vec<bool> = told.collect().await;
        // A request that fails has one error, and not one for each object.
        let is_answered = told.len() == paths.len();
        let told = told.into_iter().chain(std::iter::repeat(false));
        let (gone, left): (Vec<_>, Vec<_>) =
            paths.into_iter().zip(told).partition(|(_, is_gone)| is_answered && *is_gone);
        let paths = |of: Vec<(Path, bool)>| of.into_iter().map(|(path, _)| path).collect();
        // Another attempt repeats what failed, or says what is wrong with it.
        let (gone, left): (Vec<Path>, Vec<Path>) = (paths(gone), paths(left));
        let mut is_noted = is_answered;
        let one_by_one = self.one_by_one(left).inspect_ok(move |_| {
            // The store answers, so it was the request that it refused.
            if !std::mem::replace(&mut is_noted, true) {
                self.note_refusal();
            }
        });
        stream::iter(gone).map(Ok).chain(one_by_one).boxed()
    }

    fn one_by_one(&self, paths: Vec<Path>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(stream::iter(paths).map(Ok).boxed())
    }

    fn is_refused(&self) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < REFUSED_FOR)
    }

    fn note_refusal(&self) {
        tracing::info!("the object store refuses to remove many objects at once; it removes each");
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl fmt::Display for BulkRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for BulkRemoval {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let some = paths.try_chunks(AT_ONCE).map_err(|error| error.1);
        some.and_then(move |paths| this.clone().remove(paths).map(Ok)).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use clew_testkit::{Fault, FaultyStore};
    use object_store::memory::InMemory;
    use object_store::{Error, ObjectStoreExt};

    use super::*;

    /// How a server answers a request to remove many objects.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Answer {
        /// It removes all.
        Done,
        /// It does not know the request.
        Refused,
        /// It removes all but the second one.
        Partly,
    }

    /// Server whose removal of many objects answers in a certain way.
    #[derive(Clone, Debug)]
    struct Server {
        objects: FaultyStore,
        requests: Arc<AtomicUsize>,
        answer: Answer,
    }

    impl fmt::Display for Server {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.objects.fmt(f)
        }
    }

    #[async_trait]
    impl ObjectStore for Server {
        async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
            Err(failure())
        }

        async fn put_multipart_opts(
            &self,
            _: &Path,
            _: PutMultipartOptions,
        ) -> Result<Box<dyn MultipartUpload>> {
            Err(failure())
        }

        async fn get_opts(&self, _: &Path, _: GetOptions) -> Result<GetResult> {
            Err(failure())
        }

        fn delete_stream(
            &self,
            paths: BoxStream<'static, Result<Path>>,
        ) -> BoxStream<'static, Result<Path>> {
            let this = self.clone();
            let answers = async move {
                let paths: Vec<Path> = paths.try_collect().await?;
                this.requests.fetch_add(1, Ordering::Relaxed);
                if this.answer == Answer::Refused {
                    return Err(failure());
                }
                let mut told = Vec::new();
                for (at, path) in paths.into_iter().enumerate() {
                    told.push(match this.answer {
                        Answer::Partly if at == 1 => Err(failure()),
                        _ => this.objects.delete(&path).await.map(|()| path),
                    });
                }
                Ok(stream::iter(told))
            };
            stream::once(answers).try_flatten().boxed()
        }

        fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            stream::iter([Err(failure())]).boxed()
        }

        async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
            Err(failure())
        }

        async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
            Err(failure())
        }
    }

    fn failure() -> Error {
        Error::Generic { store: "S3", source: "not done".into() }
    }

    struct Fixture {
        objects: FaultyStore,
        requests: Arc<AtomicUsize>,
        store: BulkRemoval,
    }

    impl Fixture {
        fn new(answer: Answer) -> Self {
            let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let (objects, requests) = (FaultyStore::new(Arc::clone(&inner)), Arc::default());
            let in_bulk = Server {
                objects: FaultyStore::new(inner),
                requests: Arc::clone(&requests),
                answer,
            };
            let store = BulkRemoval::new(Arc::new(objects.clone()), Arc::new(in_bulk));
            Self { objects, requests, store }
        }

        async fn put(&self, number: usize) -> Vec<Path> {
            let paths: Vec<Path> = (0..number).map(|at| format!("x/{at}").into()).collect();
            for path in &paths {
                self.objects.put(path, "x".into()).await.unwrap();
            }
            paths
        }

        /// Removes objects. Returns how many were removed, and the number of requests for many
        /// objects and for one.
        async fn remove(&self, paths: Vec<Path>) -> (Result<usize>, usize, usize) {
            let counts = || (self.requests.load(Ordering::Relaxed), self.objects.changes());
            let before = counts();
            let removed = self.store.delete_stream(stream::iter(paths).map(Ok).boxed());
            let removed: Result<Vec<Path>> = removed.try_collect().await;
            let after = counts();
            (removed.map(|paths| paths.len()), after.0 - before.0, after.1 - before.1)
        }

        async fn left(&self) -> usize {
            self.objects.list(None).count().await
        }
    }

    #[tokio::test]
    async fn a_thousand_objects_take_one_request() {
        for (number, in_bulk, single) in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (2_001, 2, 1)] {
            let fixture = Fixture::new(Answer::Done);
            let paths = fixture.put(number).await;
            let (removed, many, one) = fixture.remove(paths).await;
            assert_eq!((removed.unwrap(), many, one), (number, in_bulk, single), "{number}");
            assert_eq!(fixture.left().await, 0);
        }
    }

    #[tokio::test]
    async fn a_store_that_refuses_removes_each_and_is_not_asked_again_soon() {
        let fixture = Fixture::new(Answer::Refused);
        for requests in [1, 0] {
            let paths = fixture.put(30).await;
            let (removed, many, one) = fixture.remove(paths).await;
            assert_eq!((removed.unwrap(), many, one), (30, requests, 30));
            assert_eq!(fixture.left().await, 0);
        }
    }

    #[tokio::test]
    async fn an_object_that_was_not_removed_is_tried_again_and_its_failure_is_told() {
        let fixture = Fixture::new(Answer::Partly);
        let paths = fixture.put(5).await;
        let (removed, many, one) = fixture.remove(paths).await;
        assert_eq!((removed.unwrap(), many, one, fixture.left().await), (5, 1, 1, 0));

        let paths = fixture.put(5).await;
        fixture.objects.plan(0, Fault::NotDone);
        let (removed, many, one) = fixture.remove(paths).await;
        assert!(removed.is_err());
        assert_eq!((many, one, fixture.left().await), (1, 1, 1));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_has_refused_nothing() {
        let fixture = Fixture::new(Answer::Refused);
        let paths = fixture.put(3).await;
        fixture.objects.plan(0, Fault::NotDone);
        assert!(fixture.remove(paths.clone()).await.0.is_err());
        let (removed, many, _) = fixture.remove(paths).await;
        assert_eq!((removed.unwrap(), many), (3, 1));
    }
}
