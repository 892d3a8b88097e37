//! Object store for tests of the fence, which fails on request.

use std::sync::{Arc, Mutex};

use futures::stream::BoxStream;
use lance_io::object_store::ObjectStore;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The put happens but reports a failure.
    AnswerLost,
    /// Like [`Fault::AnswerLost`], and from then on nothing can be read.
    AnswerLostAndDeaf,
    /// The put reports a failure and happens when [`Faulty::arrives`] is called.
    Late,
}

/// Store that fails on request.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: Arc<dyn object_store::ObjectStore>,
    state: Mutex<FaultyState>,
}

#[derive(Debug, Default)]
struct FaultyState {
    next: Option<Fault>,
    late: Option<(Path, PutPayload, PutOptions)>,
    is_deaf: bool,
}

impl Faulty {
    pub(super) fn before(mut store: ObjectStore) -> (Arc<Self>, ObjectStore) {
        let faulty = Arc::new(Self { inner: store.inner, state: Mutex::default() });
        store.inner = Arc::clone(&faulty) as _;
        (faulty, store)
    }

    pub(super) fn next(&self, fault: Fault) {
        self.state.lock().unwrap().next = Some(fault);
    }

    pub(super) fn hears_again(&self) {
        self.state.lock().unwrap().is_deaf = false;
    }

    pub(super) async fn arrives(&self) -> object_store::Result<PutResult> {
        let (path, payload, options) = self.state.lock().unwrap().late.take().unwrap();
        self.inner.put_opts(&path, payload, options).await
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

fn timed_out() -> object_store::Error {
    let source = std::io::Error::from(std::io::ErrorKind::TimedOut).into();
    object_store::Error::Generic { store: "faulty", source }
}

#[async_trait::async_trait]
impl object_store::ObjectStore for Faulty {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let fault = self.state.lock().unwrap().next.take();
        if fault == Some(Fault::Late) {
            self.state.lock().unwrap().late = Some((path.clone(), payload, options));
            return Err(timed_out());
        }
        let put = self.inner.put_opts(path, payload, options).await?;
        self.state.lock().unwrap().is_deaf |= fault == Some(Fault::AnswerLostAndDeaf);
        if fault.is_some() { Err(timed_out()) } else { Ok(put) }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        if self.state.lock().unwrap().is_deaf {
            return Err(timed_out());
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
