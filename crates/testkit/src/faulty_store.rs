//! Object store that fails on demand.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, UploadPart,
};

/// A fault of one put or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is not done and fails.
    NotDone,
    /// It is done and reported as failed.
    Done,
    /// It is reported as failed, and is done after the next change or by [`FaultyStore::settle`].
    DoneLater,
    /// It is done after a delay, so that changes that began later are done first.
    Delayed,
    /// It is not done and everything fails from then on, as if the process were killed before it.
    Crash,
    /// It is done and everything fails from then on, as if the process were killed after it.
    CrashAfter,
}

impl Fault {
    /// Every kind of fault.
    pub const ALL: [Self; 6] =
        [Self::NotDone, Self::Done, Self::DoneLater, Self::Delayed, Self::Crash, Self::CrashAfter];
}

/// Delay of [`Fault::Delayed`]: many times the duration of an operation in memory.
const DELAY: Duration = Duration::from_millis(5);

/// A view of a store on which one put or removal, or one read, fails. The store itself may be in
/// use at the same time. Of an upload in parts, the beginning, each part and the end count as
/// changes. None of them is done later.
///
/// Cheap to clone; clones share the planned faults.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    changes: usize,
    planned: Option<(usize, Fault)>,
    reads: usize,
    planned_read: Option<usize>,
    is_dead: bool,
    ignores_conditions: bool,
    unfinished_uploads: usize,
    late: Option<Change>,
}

/// A put or a removal.
#[derive(Clone, Debug)]
enum Change {
    Put(Path, PutPayload, PutOptions),
    Delete(Path),
}

impl FaultyStore {
    /// Creates a view of `inner` on which nothing fails yet.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Plans a fault for the `nth` change from now on, counted from 0.
    pub fn plan(&self, nth: usize, fault: Fault) {
        let mut state = self.state();
        state.planned = Some((state.changes + nth, fault));
    }

    /// Plans a failure of the `nth` read from now on, counted from 0.
    pub fn plan_read(&self, nth: usize) {
        let mut state = self.state();
        state.planned_read = Some(state.reads + nth);
    }

    /// Makes every put overwrite whatever its condition, as storage without conditional puts does.
    pub fn ignore_conditions(&self) {
        self.state().ignores_conditions = true;
    }

    /// Returns the number of reads requested so far.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    /// Returns the number of puts and removals requested so far.
    pub fn changes(&self) -> usize {
        self.state().changes
    }

    /// Returns the number of uploads in parts that were begun, and neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        self.state().unfinished_uploads
    }

    /// Applies the change that was left for later.
    pub async fn settle(&self) {
        let late = self.state().late.take();
        if let Some(change) = late {
            // It may fail by now, as it would for any caller.
            drop(self.apply(change).await);
        }
    }

    // No code that can panic runs under the lock, so a poisoned lock still holds a valid state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a change and returns the fault that is planned for it.
    fn begin(&self) -> Result<Option<Fault>> {
        let mut state = self.state();
        if state.is_dead {
            return Err(failure("the process is dead"));
        }
        let this = state.changes;
        state.changes += 1;
        let fault = state.planned.filter(|(nth, _)| *nth == this).map(|(_, fault)| fault);
        if matches!(fault, Some(Fault::Crash | Fault::CrashAfter)) {
            state.is_dead = true;
        }
        Ok(fault)
    }

    async fn change(&self, change: Change) -> Result<Option<PutResult>> {
        let done = match self.begin()? {
            None => self.apply(change).await,
            Some(Fault::Delayed) => {
                tokio::time::sleep(DELAY).await;
                self.apply(change).await
            }
            Some(Fault::NotDone | Fault::Crash) => return Err(failure("not done")),
            Some(Fault::Done | Fault::CrashAfter) => {
                drop(self.apply(change).await);
                return Err(failure("done, and the answer is lost"));
            }
            Some(Fault::DoneLater) => {
                self.state().late = Some(change);
                return Err(failure("done later"));
            }
        };
        self.settle().await;
        done
    }

    async fn apply(&self, change: Change) -> Result<Option<PutResult>> {
        match change {
            Change::Put(path, payload, mut options) => {
                if self.state().ignores_conditions {
                    options.mode = PutMode::Overwrite;
                }
                self.inner.put_opts(&path, payload, options).await.map(Some)
            }
            Change::Delete(path) => self.inner.delete(&path).await.map(|()| None),
        }
    }

    fn is_alive(&self) -> Result<()> {
        if self.state().is_dead { Err(failure("the process is dead")) } else { Ok(()) }
    }
}

fn failure(what: &'static str) -> Error {
    // The same form as the errors of the real S3 store.
    Error::Generic { store: "S3", source: what.into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = self.change(Change::Put(path.clone(), payload, options)).await?;
        put.ok_or_else(|| failure("a put without a result"))
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.begin()? {
            None | Some(Fault::Delayed) => {}
            Some(_) => return Err(failure("not begun")),
        }
        let upload = self.inner.put_multipart_opts(path, options).await?;
        self.state().unfinished_uploads += 1;
        Ok(Box::new(FaultyUpload { store: self.clone(), upload }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.is_alive()?;
        let is_failing = {
            let mut state = self.state();
            state.reads += 1;
            state.planned_read == Some(state.reads - 1)
        };
        if is_failing {
            return Err(failure("not read"));
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Result<Path>| {
            let this = this.clone();
            async move {
                let path = path?;
                this.change(Change::Delete(path.clone())).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.is_alive() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.is_alive()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match self.begin()? {
            None | Some(Fault::Delayed) => self.inner.copy_opts(from, to, options).await,
            Some(_) => Err(failure("not copied")),
        }
    }
}

/// An upload in parts on which each step may fail.
#[derive(Debug)]
struct FaultyUpload {
    store: FaultyStore,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (begun, part) = (self.store.begin(), self.upload.put_part(data));
        Box::pin(async move {
            match begun? {
                None | Some(Fault::Delayed) => part.await,
                Some(Fault::Done | Fault::CrashAfter) => {
                    drop(part.await);
                    Err(failure("done, and the answer is lost"))
                }
                Some(Fault::NotDone | Fault::DoneLater | Fault::Crash) => Err(failure("not sent")),
            }
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.store.begin()?;
        match fault {
            None | Some(Fault::Delayed) => {
                let done = self.upload.complete().await?;
                self.store.state().unfinished_uploads -= 1;
                Ok(done)
            }
            Some(Fault::Done | Fault::CrashAfter) => {
                drop(self.upload.complete().await);
                Err(failure("done, and the answer is lost"))
            }
            Some(Fault::NotDone | Fault::DoneLater | Fault::Crash) => Err(failure("not done")),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.store.is_alive()?;
        self.upload.abort().await?;
        self.store.state().unfinished_uploads -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{PutMode, PutOptions};

    use super::*;

    async fn put(store: &FaultyStore, name: &str) -> bool {
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.put_opts(&name.into(), "x".into(), create).await.is_ok()
    }

    #[tokio::test]
    async fn the_planned_change_fails_as_planned_and_no_other() {
        for (fault, is_told, is_there) in [
            (Fault::NotDone, false, false),
            (Fault::Done, false, true),
            (Fault::DoneLater, false, false),
            (Fault::Delayed, true, true),
            (Fault::Crash, false, false),
            (Fault::CrashAfter, false, true),
        ] {
            let inner = Arc::new(InMemory::new());
            let store = FaultyStore::new(Arc::clone(&inner) as _);
            assert!(put(&store, "a").await);
            store.plan(1, fault);
            assert!(put(&store, "b").await);
            assert_eq!(put(&store, "c").await, is_told, "{fault:?}");
            assert_eq!(inner.head(&"c".into()).await.is_ok(), is_there, "{fault:?}");
            let is_dead = matches!(fault, Fault::Crash | Fault::CrashAfter);
            assert_eq!(store.head(&"a".into()).await.is_err(), is_dead, "{fault:?}");
            assert_eq!(store.delete(&"a".into()).await.is_err(), is_dead, "{fault:?}");
            assert_eq!(inner.head(&"a".into()).await.is_ok(), is_dead, "{fault:?}");
            let is_late = fault == Fault::DoneLater;
            assert_eq!(inner.head(&"c".into()).await.is_ok(), is_there || is_late, "{fault:?}");
            assert_eq!(store.changes(), if is_dead { 3 } else { 4 });
        }
    }

    #[tokio::test]
    async fn each_step_of_an_upload_may_fail() {
        for nth in 0..4 {
            let store = FaultyStore::new(Arc::new(InMemory::new()));
            store.plan(nth, Fault::NotDone);
            let sent = async {
                let mut upload = store.put_multipart(&"a".into()).await?;
                let sent = async {
                    upload.put_part("x".into()).await?;
                    upload.put_part("y".into()).await?;
                    upload.complete().await
                };
                match sent.await {
                    Ok(_) => Ok(()),
                    Err(error) => upload.abort().await.and(Err(error)),
                }
            };
            assert!(sent.await.is_err(), "{nth}");
            assert_eq!((store.changes(), store.unfinished_uploads()), (nth + 1, 0));
            assert!(store.head(&"a".into()).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_read_fails_once() {
        let store = FaultyStore::new(Arc::new(InMemory::new()));
        assert!(put(&store, "a").await);
        store.plan_read(1);
        let path = Path::from("a");
        let reads = [0, 1, 2].map(|_| store.get(&path));
        let read = futures::future::join_all(reads).await;
        assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(store.reads(), 3);
    }
}
