//! Copies files from one place to another, each completely or not at all.
//!
//! A file is copied under a unique name and takes its own name once it is complete, synced and
//! verified. So a process that copies may stop at any moment, and several may copy the same files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::error::{Error, Result};
use crate::storage::durable;
use crate::storage::unique::unique;
use crate::storage::{Kind, Storage, on_files};

/// Bytes that are read or written at once: an object store takes parts of an object from 5 MiB.
const PART: usize = 8 << 20;

/// Number of files that are copied at the same time.
const AT_ONCE: usize = 4;

/// File that was copied or is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Name in its place, with `/` between folders.
    pub name: String,
    pub bytes: u64,
    /// BLAKE3 hash of its bytes, hexadecimal. Empty if it is not known yet.
    pub blake3: String,
}

impl FileRecord {
    /// Returns a record of a file whose hash is not known yet.
    pub(crate) fn new(name: &str, bytes: u64) -> Self {
        Self { name: name.to_owned(), bytes, blake3: String::new() }
    }
}

impl Storage {
    /// Copies a file to the same name in another place, synced. Returns its record with the hash.
    /// Replaces an existing file, unless the copied file has another length than described, or
    /// another hash if one is given.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the file is missing or not as described, or a storage error.
    pub(crate) async fn copy_file(
        &self,
        described: &FileRecord,
        to: &Self,
        doing: &'static str,
    ) -> Result<FileRecord> {
        let (name, bytes) = (described.name.as_str(), described.bytes);
        let mut source = Source::open(self, name, bytes, doing).await?;
        let mut sink = Sink::create(to, name, doing).await?;
        let mut hasher = blake3::Hasher::new();
        let mut copied = 0;
        while let Some(part) = source.next(doing).await? {
            hasher.update(&part);
            copied += part.len() as u64;
            sink.write(part, doing).await?;
        }
        let blake3 = hasher.finalize().to_hex().to_string();
        let record = FileRecord { name: name.to_owned(), bytes: copied, blake3 };
        let is_other = !described.blake3.is_empty() && described.blake3 != record.blake3;
        if is_other || copied != bytes {
            sink.give_up().await;
            let problem = match is_other {
                true => "its bytes are not those that were written".to_owned(),
                false => format!("expected {bytes} bytes, got {copied}"),
            };
            return Err(damaged(name, problem));
        }
        sink.finish(doing).await?;
        Ok(record)
    }
}

/// Returns the error for a file that is missing or has changed.
pub(crate) fn damaged(name: &str, problem: impl Into<String>) -> Error {
    Error::Corrupt { what: format!("file `{name}`"), source: problem.into().into() }
}

/// Copies files with `copy`, several at the same time. Starts none after `until` except the first.
pub(crate) fn in_time<F: Future<Output = Result<FileRecord>>>(
    files: Vec<FileRecord>,
    until: Instant,
    copy: impl FnMut(FileRecord) -> F,
) -> impl Stream<Item = Result<FileRecord>> {
    let mut is_first = true;
    let in_time = move |_: &FileRecord| std::mem::take(&mut is_first) || Instant::now() < until;
    let files = files.into_iter().take_while(in_time);
    futures::stream::iter(files.map(copy)).buffer_unordered(AT_ONCE)
}

/// File that is read part by part.
enum Source {
    File(tokio::fs::File),
    Object { store: Arc<dyn ObjectStore>, path: object_store::path::Path, at: u64, end: u64 },
}

impl Source {
    async fn open(place: &Storage, name: &str, bytes: u64, doing: &'static str) -> Result<Self> {
        match place.kind() {
            Kind::Folder(folder) => match tokio::fs::File::open(folder.join(name)).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(damaged(name, "it is not there"))
                }
                file => Ok(Self::File(file.map_err(|error| Error::of_file(doing, error))?)),
            },
            Kind::Objects(objects) => {
                let (store, path) = (objects.store(), objects.path(name));
                Ok(Self::Object { store, path, at: 0, end: bytes })
            }
        }
    }

    async fn next(&mut self, doing: &'static str) -> Result<Option<Bytes>> {
        match self {
            Self::File(file) => {
                let mut part = BytesMut::with_capacity(1 << 20);
                let read = file.read_buf(&mut part).await;
                let read = read.map_err(|error| Error::of_file(doing, error))?;
                Ok((read > 0).then(|| part.freeze()))
            }
            Self::Object { store, path, at, end } => {
                if at >= end {
                    return Ok(None);
                }
                let until = (*end).min(*at + PART as u64);
                let part = match store.get_range(path, *at..until).await {
                    Err(object_store::Error::NotFound { .. }) => {
                        return Err(damaged(path.as_ref(), "it is not there"));
                    }
                    part => part.map_err(|error| Error::of_object(doing, error))?,
                };
                *at = until;
                Ok(Some(part))
            }
        }
    }
}

/// File that is written part by part and exists once it is finished.
enum Sink {
    File {
        file: tokio::fs::File,
        new: PathBuf,
        path: PathBuf,
    },
    Object {
        store: Arc<dyn ObjectStore>,
        path: object_store::path::Path,
        buffer: BytesMut,
        /// Upload, once the file is longer than one part.
        upload: Option<Box<dyn MultipartUpload>>,
    },
}

impl Sink {
    async fn create(place: &Storage, name: &str, doing: &'static str) -> Result<Self> {
        match place.kind() {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                let new = path.with_added_extension(format!("{}.new", unique()));
                let (parent, file) = (path.parent().map(Path::to_owned), new.clone());
                let create = move || {
                    parent.as_deref().map_or(Ok(()), durable::create_folder)?;
                    fs::File::create_new(file)
                };
                let file = tokio::fs::File::from_std(on_files(doing, create).await?);
                Ok(Self::File { file, new, path })
            }
            Kind::Objects(objects) => {
                let (store, path) = (objects.store(), objects.path(name));
                Ok(Self::Object { store, path, buffer: BytesMut::new(), upload: None })
            }
        }
    }

    async fn write(&mut self, part: Bytes, doing: &'static str) -> Result<()> {
        match self {
            Self::File { file, .. } => {
                file.write_all(&part).await.map_err(|error| Error::of_file(doing, error))
            }
            Self::Object { store, path, buffer, upload } => {
                buffer.extend_from_slice(&part);
                while buffer.len() > PART {
                    let payload = PutPayload::from(buffer.split_to(PART).freeze());
                    let sent = async {
                        let upload = match upload {
                            Some(upload) => upload,
                            None => upload.insert(store.put_multipart(path).await?),
                        };
                        upload.put_part(payload).await
                    };
                    if let Err(error) = sent.await {
                        // The parts sent are garbage. If the abort fails, the bucket's rules remove
                        // them.
                        if let Some(upload) = upload {
                            drop(upload.abort().await);
                        }
                        return Err(Error::of_object(doing, error));
                    }
                }
                Ok(())
            }
        }
    }

    async fn finish(self, doing: &'static str) -> Result<()> {
        match self {
            Self::File { mut file, new, path } => {
                file.flush().await.map_err(|error| Error::of_file(doing, error))?;
                let file = file.into_std().await;
                on_files(doing, move || {
                    file.sync_all()?;
                    fs::rename(&new, &path)?;
                    path.parent().map_or(Ok(()), durable::sync_folder)
                })
                .await
            }
            Self::Object { store, path, buffer, upload: None } => {
                let put = store.put(&path, buffer.freeze().into()).await;
                put.map(drop).map_err(|error| Error::of_object(doing, error))
            }
            Self::Object { buffer, upload: Some(mut upload), .. } => {
                let sent = async {
                    upload.put_part(buffer.freeze().into()).await?;
                    upload.complete().await
                };
                match sent.await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        drop(upload.abort().await);
                        Err(Error::of_object(doing, error))
                    }
                }
            }
        }
    }

    /// Removes what was written, if possible. What is left is removed with the other files that
    /// nothing names.
    async fn give_up(self) {
        match self {
            Self::File { new, .. } => drop(tokio::fs::remove_file(new).await),
            Self::Object { upload: Some(mut upload), .. } => drop(upload.abort().await),
            Self::Object { upload: None, .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use object_store::memory::InMemory;

    use super::*;

    const DOING: &str = "copy in a test";

    /// Returns a folder and a part of an object store.
    fn places() -> (tempfile::TempDir, [Storage; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let objects = Storage::in_store(Arc::new(InMemory::new()), "some/where");
        let places = [Storage::from(folder.path()), objects];
        (folder, places)
    }

    fn bytes(length: usize) -> Bytes {
        (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>().into()
    }

    #[tokio::test]
    async fn files_of_any_length_are_copied_whole_between_all_kinds_of_places() {
        for length in [0, 1, PART, PART + 1, 2 * PART + 5] {
            let ((_from, from), (_to, to)) = (places(), places());
            for from in &from {
                let folder = from.join("a");
                folder.make(DOING).await.unwrap();
                folder.put_file("x", bytes(length), DOING).await.unwrap();
                for to in &to {
                    let file = FileRecord::new("a/x", length as u64);
                    let copied = from.copy_file(&file, to, DOING).await.unwrap();
                    assert_eq!(copied.bytes, length as u64);
                    let again = from.copy_file(&copied, to, DOING).await.unwrap();
                    assert_eq!(again, copied);
                    let read = to.join("a").get_file("x", None, DOING).await.unwrap();
                    assert!(read.unwrap() == bytes(length));
                    let files = to.files(DOING).await.unwrap();
                    assert_eq!(files, BTreeMap::from([("a/x".to_owned(), length as u64)]));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_file_that_is_another_or_gone_is_damage_and_leaves_nothing() {
        let ((_from, from), (_to, to)) = (places(), places());
        for (from, to) in from.iter().zip(&to) {
            from.put_file("x", bytes(100), DOING).await.unwrap();
            let copied = from.copy_file(&FileRecord::new("x", 100), to, DOING).await.unwrap();
            to.remove_file("x", DOING).await.unwrap();
            let other = FileRecord { blake3: "0".repeat(64), ..copied };
            for file in [other, FileRecord::new("x", 101), FileRecord::new("y", 100)] {
                let error = from.copy_file(&file, to, DOING).await;
                assert!(matches!(error, Err(Error::Corrupt { .. })), "{error:?}");
            }
            assert!(to.files(DOING).await.unwrap().is_empty());
        }
    }
}
