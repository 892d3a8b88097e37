//! Large files: written in parts before they take their names, and read in ranges.
//!
//! A memory may take gigabytes. As one request it would take longer than any useful limit of a
//! request, and S3 takes at most 5 GiB at once. So its file is sent and read in parts, and each
//! part has a deadline. Sending takes minutes and needs no writer. The file is seen by nobody until
//! it takes its name, which is one short operation.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::storage::objects::Objects;
use crate::storage::unique::unique;
use crate::storage::{Kind, Storage, durable, on_files};

/// Bytes of a part and of a range. All parts but the last are equal, as some stores demand. S3
/// takes at most 10,000 parts, which is more than the largest memory has.
pub(crate) const PART: usize = 16 << 20;
/// Number of parts that are sent or read at the same time.
const AT_ONCE: usize = 4;
/// Time limit of one part, with the repetitions of its request, and of the other requests of an
/// upload.
const PART_PATIENCE: Duration = Duration::from_secs(60);

/// File that is written, and has not taken its name yet. What was written is removed if it never
/// does.
#[derive(Debug)]
pub(crate) struct StagedFile {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Small enough to be put as a whole when it takes its name.
    Whole(Bytes),
    Unfinished(Unfinished),
    Upload(Upload),
}

impl Storage {
    /// Writes the file of this name, without the name. Its content is `head` and then `body`. Asks
    /// `is_wanted` before each part; returns `None` as soon as the file is not wanted any more.
    pub(crate) async fn stage_file(
        &self,
        name: &str,
        [head, body]: [Bytes; 2],
        is_wanted: impl Fn() -> bool,
        doing: &'static str,
    ) -> Result<Option<StagedFile>> {
        let staged = |content| StagedFile { name: name.to_owned(), content };
        if head.len() + body.len() <= PART {
            let whole = Content::Whole([head, body].concat().into());
            return Ok(is_wanted().then(|| staged(whole)));
        }
        let parts = parts_of(&[head, body]);
        let content = match self.kind() {
            Kind::Folder(folder) => {
                write(&folder.join(name), parts, is_wanted, doing).await?.map(Content::Unfinished)
            }
            Kind::Objects(objects) => {
                upload(objects, name, parts, is_wanted, doing).await?.map(Content::Upload)
            }
        };
        Ok(content.map(staged))
    }

    /// Gives a file its name. Replaces an existing file. After an error the file may have taken its
    /// name or not.
    pub(crate) async fn publish_file(&self, file: StagedFile, doing: &'static str) -> Result<()> {
        let StagedFile { name, content } = file;
        match content {
            Content::Whole(bytes) => self.put_file(&name, bytes, doing).await,
            Content::Unfinished(unfinished) => unfinished.finish(doing).await,
            Content::Upload(upload) => upload.complete(doing).await,
        }
    }

    /// Returns a file, which is read in ranges if it is large, or `None` if there is no such file.
    pub(crate) async fn get_large_file(
        &self,
        name: &str,
        doing: &'static str,
    ) -> Result<Option<Bytes>> {
        match self.kind() {
            Kind::Folder(_) => self.get_file(name, None, doing).await,
            Kind::Objects(objects) => match read(objects, name, doing).await {
                Err(Error::Unavailable { source, .. }) if is_not_found(source.as_ref()) => Ok(None),
                read => read.map(Some),
            },
        }
    }
}

impl StagedFile {
    /// Removes what was written.
    pub(crate) async fn discard(self) {
        match self.content {
            Content::Whole(_) => {}
            Content::Unfinished(unfinished) => unfinished.remove().await,
            Content::Upload(upload) => upload.abort().await,
        }
    }
}

/// File in a folder under another name than its own.
#[derive(Debug)]
struct Unfinished {
    new: PathBuf,
    path: PathBuf,
    /// Whether the file has its name or was removed.
    is_over: bool,
}

impl Unfinished {
    async fn finish(mut self, doing: &'static str) -> Result<()> {
        let (new, path) = (self.new.clone(), self.path.clone());
        on_files(doing, move || {
            fs::rename(&new, &path)?;
            path.parent().map_or(Ok(()), durable::sync_folder)
        })
        .await?;
        self.is_over = true;
        Ok(())
    }

    async fn remove(mut self) {
        self.is_over = true;
        // What stays is removed with the other files that nothing names.
        drop(tokio::fs::remove_file(&self.new).await);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_over
            && let Ok(runtime) = Handle::try_current()
        {
            let new = std::mem::take(&mut self.new);
            runtime.spawn_blocking(move || fs::remove_file(new));
        }
    }
}

/// Upload of an object whose parts are not an object yet. `None` once it is completed or aborted.
#[derive(Debug)]
struct Upload(Option<Box<dyn MultipartUpload>>);

impl Upload {
    async fn complete(mut self, doing: &'static str) -> Result<()> {
        let Some(parts) = &mut self.0 else { return Ok(()) };
        match in_time(parts.complete(), doing).await {
            Ok(_) => {
                self.0 = None;
                Ok(())
            }
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn abort(mut self) {
        if let Some(parts) = self.0.take() {
            abort(parts).await;
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(parts), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(abort(parts));
        }
    }
}

/// Removes the parts of an upload, if possible. If it is not, the bucket's rules remove them.
async fn abort(mut upload: Box<dyn MultipartUpload>) {
    if let Err(error) = in_time(upload.abort(), "abort an upload").await {
        tracing::warn!(%error, "the parts of an upload stay until the bucket's rules remove them");
    }
}

/// Sends the parts of an object.
async fn upload(
    objects: &Objects,
    name: &str,
    parts: Vec<PutPayload>,
    is_wanted: impl Fn() -> bool,
    doing: &'static str,
) -> Result<Option<Upload>> {
    if !is_wanted() {
        return Ok(None);
    }
    let (store, path) = (objects.store(), objects.path(name));
    let begun = in_time(store.put_multipart(&path), doing).await?;
    let mut upload = Upload(Some(begun));
    if let Some(sink) = &mut upload.0 {
        let wanted = parts.into_iter().take_while(|_| is_wanted());
        let sending = stream::iter(wanted.map(|part| in_time(sink.put_part(part), doing)));
        let sent = sending.buffer_unordered(AT_ONCE).try_collect::<()>().await;
        if let Err(error) = sent {
            upload.abort().await;
            return Err(error);
        }
    }
    if !is_wanted() {
        upload.abort().await;
        return Ok(None);
    }
    Ok(Some(upload))
}

/// Writes a file under another name, synced.
async fn write(
    path: &Path,
    parts: Vec<PutPayload>,
    is_wanted: impl Fn() -> bool,
    doing: &'static str,
) -> Result<Option<Unfinished>> {
    let new = path.with_added_extension(format!("{}.new", unique()));
    let created = new.clone();
    let create = move || {
        created.parent().map_or(Ok(()), durable::create_folder)?;
        File::create_new(created)
    };
    let mut file = on_files(doing, create).await?;
    let unfinished = Unfinished { new, path: path.to_owned(), is_over: false };
    for part in parts {
        // Asked after the file is there: whoever makes it unwanted removes such files afterwards.
        if !is_wanted() {
            unfinished.remove().await;
            return Ok(None);
        }
        let append = move || {
            part.iter().try_for_each(|bytes| file.write_all(bytes))?;
            Ok(file)
        };
        file = on_files(doing, append).await?;
    }
    on_files(doing, move || file.sync_all()).await?;
    Ok(Some(unfinished))
}

/// Reads an object range by range, all of one version of it.
async fn read(objects: &Objects, name: &str, doing: &'static str) -> Result<Bytes> {
    let (store, path) = (objects.store(), objects.path(name));
    let (store, path) = (store.as_ref(), &path);
    let range = |start: u64, version: Option<String>| async move {
        let range = GetRange::Bounded(start..start + PART as u64);
        let options = GetOptions::new().with_range(Some(range)).with_if_match(version);
        let found = store.get_opts(path, options).await?;
        let meta = found.meta.clone();
        Ok((meta, found.bytes().await?))
    };
    let (meta, first) = in_time(range(0, None), doing).await?;
    if meta.size <= first.len() as u64 {
        return Ok(first);
    }
    let unavailable = |source| Error::Unavailable { doing: doing.to_owned(), source };
    let size = usize::try_from(meta.size).map_err(|error| unavailable(error.into()))?;
    let mut whole: Vec<u8> = Vec::new();
    whole.try_reserve_exact(size).map_err(|error| unavailable(error.into()))?;
    whole.extend_from_slice(&first);
    drop(first);
    let starts = (PART as u64..meta.size).step_by(PART);
    let ranges = starts.map(|start| in_time(range(start, meta.e_tag.clone()), doing));
    let mut ranges = stream::iter(ranges).buffered(AT_ONCE);
    while let Some((_, bytes)) = ranges.try_next().await? {
        whole.extend_from_slice(&bytes);
    }
    match whole.len() == size {
        true => Ok(whole.into()),
        false => Err(unavailable(format!("expected {size} bytes, got {}", whole.len()).into())),
    }
}

/// Waits for a request as long as one may take.
async fn in_time<T>(
    request: impl Future<Output = object_store::Result<T>>,
    doing: &'static str,
) -> Result<T> {
    match tokio::time::timeout(PART_PATIENCE, request).await {
        Ok(done) => done.map_err(|error| Error::of_object(doing, error)),
        Err(_elapsed) => {
            let source = format!("expected an answer within {PART_PATIENCE:?}, got none").into();
            Err(Error::Unavailable { doing: doing.to_owned(), source })
        }
    }
}

fn is_not_found(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(object_store::Error::NotFound { .. }))
}

/// Divides the bytes of several texts, one after the other, into parts. Copies nothing.
fn parts_of(texts: &[Bytes]) -> Vec<PutPayload> {
    let mut parts: Vec<Vec<Bytes>> = Vec::new();
    let mut room = 0;
    for text in texts {
        let mut left = text.clone();
        while !left.is_empty() {
            if room == 0 {
                parts.push(Vec::new());
                room = PART;
            }
            let taken = left.split_to(room.min(left.len()));
            room -= taken.len();
            parts.last_mut().into_iter().for_each(|part| part.push(taken.clone()));
        }
    }
    parts.into_iter().map(PutPayload::from_iter).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use clew_testkit::{Fault, FaultyStore};
    use object_store::memory::InMemory;

    use super::*;

    const DOING: &str = "write in a test";

    fn bytes(length: usize) -> Bytes {
        (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>().into()
    }

    /// Returns head and body that together have these bytes.
    fn divided(whole: &Bytes) -> [Bytes; 2] {
        let at = whole.len() / 3;
        [whole.slice(..at), whole.slice(at..)]
    }

    /// Returns a folder and a part of an object store, with its faults.
    fn places() -> (tempfile::TempDir, FaultyStore, [Storage; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let store = FaultyStore::new(Arc::new(InMemory::new()));
        let objects = Storage::in_store(Arc::new(store.clone()), "some/where");
        let places = [Storage::from(folder.path()), objects];
        (folder, store, places)
    }

    #[tokio::test]
    async fn a_file_of_any_length_is_seen_once_it_takes_its_name_and_is_read_as_it_was() {
        let (_folder, store, places) = places();
        for length in [0, 1, PART, PART + 1, 2 * PART, 5 * PART + 7] {
            for place in &places {
                let written = bytes(length);
                let staged = place.stage_file("x", divided(&written), || true, DOING).await;
                assert!(place.get_large_file("x", DOING).await.unwrap().is_none());
                place.publish_file(staged.unwrap().unwrap(), DOING).await.unwrap();
                let files = place.files(DOING).await.unwrap();
                assert_eq!(files, BTreeMap::from([("x".to_owned(), length as u64)]));
                // The store in memory refuses a range of an empty object, as S3 does.
                if length > 0 {
                    assert!(place.get_large_file("x", DOING).await.unwrap() == Some(written));
                }
                place.remove_file("x", DOING).await.unwrap();
            }
        }
        assert_eq!(store.unfinished_uploads(), 0);
    }

    #[tokio::test]
    async fn what_is_not_wanted_any_more_leaves_nothing() {
        let (_folder, store, places) = places();
        for place in &places {
            for wanted in [0, 1, 3] {
                let asked = Cell::new(0);
                let is_wanted = || asked.replace(asked.get() + 1) < wanted;
                let file = divided(&bytes(4 * PART));
                assert!(place.stage_file("x", file, is_wanted, DOING).await.unwrap().is_none());
                assert!(place.files(DOING).await.unwrap().is_empty());
                assert_eq!(store.unfinished_uploads(), 0);
            }
            let file = divided(&bytes(4 * PART));
            let staged = place.stage_file("x", file, || true, DOING).await.unwrap().unwrap();
            staged.discard().await;
            assert!(place.files(DOING).await.unwrap().is_empty());
            assert_eq!(store.unfinished_uploads(), 0);
        }
    }

    #[tokio::test]
    async fn an_upload_that_fails_or_is_dropped_is_aborted() {
        let (_folder, store, [_, place]) = places();
        // The beginning, each of three parts, and the end.
        for nth in 0..5 {
            store.plan(nth, Fault::NotDone);
            let file = divided(&bytes(3 * PART));
            let stored = async {
                let staged = place.stage_file("x", file, || true, DOING).await?;
                place.publish_file(staged.unwrap(), DOING).await
            };
            assert!(matches!(stored.await, Err(Error::Unavailable { .. })), "{nth}");
            assert_eq!(store.unfinished_uploads(), 0, "{nth}");
            assert!(place.files(DOING).await.unwrap().is_empty(), "{nth}");
        }
        let file = divided(&bytes(3 * PART));
        let staged = place.stage_file("x", file, || true, DOING).await.unwrap();
        assert_eq!(store.unfinished_uploads(), 1);
        drop(staged);
        while store.unfinished_uploads() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_large_file_is_read_in_ranges_of_one_version() {
        let (_folder, store, [_, place]) = places();
        let staged = place.stage_file("x", divided(&bytes(5 * PART)), || true, DOING).await;
        place.publish_file(staged.unwrap().unwrap(), DOING).await.unwrap();
        let before = store.reads();
        place.get_large_file("x", DOING).await.unwrap().unwrap();
        assert_eq!(store.reads() - before, 5);
        store.plan_read(3);
        let failed = place.get_large_file("x", DOING).await;
        assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_answered_ends_at_its_deadline() {
        let waiting = futures::future::pending::<object_store::Result<()>>();
        let began = tokio::time::Instant::now();
        let error = in_time(waiting, DOING).await.unwrap_err();
        assert_eq!(began.elapsed(), PART_PATIENCE);
        assert_eq!(error.to_string(), format!("could not {DOING}"));
    }
}
