//! Storage of a shard: a folder, or a part of an object store.
//!
//! The storage engine manages the tables. This module does the rest that a shard needs: a few small
//! files.

mod bulk;
mod copies;
pub(crate) mod durable;
pub(crate) mod erasure_mark;
mod listing;
pub(crate) mod memories;
pub(crate) mod objects;
pub(crate) mod probe;
pub(crate) mod requests;
pub(crate) mod s3;
pub(crate) mod session;
pub(crate) mod staged;
pub(crate) mod unique;
pub(crate) mod url;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lance_io::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;

use crate::error::{Error, Result};
use crate::storage::objects::Objects;
use crate::storage::session::{IndexMemory, session};
use crate::storage::url::StorageUrl;

/// Storage location that all possible owners of a shard can reach.
#[derive(Clone, Debug)]
pub struct Storage(Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Folder(PathBuf),
    Objects(Objects),
}

impl From<&Path> for Storage {
    fn from(folder: &Path) -> Self {
        Self(Kind::Folder(folder.to_owned()))
    }
}

impl From<Objects> for Storage {
    fn from(objects: Objects) -> Self {
        Self(Kind::Objects(objects))
    }
}

impl Storage {
    /// Returns a place below a prefix of an existing store. For tests that bring stores which fail.
    #[doc(hidden)]
    pub fn in_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self::from(Objects::new(store, "bucket", prefix.into()))
    }

    /// Returns the store that the place is a part of, or `None` for a folder.
    #[doc(hidden)]
    pub fn store(&self) -> Option<Arc<dyn ObjectStore>> {
        match &self.0 {
            Kind::Folder(_) => None,
            Kind::Objects(objects) => Some(objects.store()),
        }
    }

    /// Connects to the place of a location.
    pub(crate) async fn of(location: &StorageUrl) -> Result<Self> {
        const DOING: &str = "connect to the object store";
        match &location.0 {
            url::Kind::Folder(folder) => Ok(Self::from(folder.as_path())),
            url::Kind::Bucket(bucket) => {
                let (settings, name) = (bucket.settings.clone(), bucket.name.clone());
                let connect = move || settings.connect(&name).map_err(io::Error::from);
                let store = on_files(DOING, connect).await?;
                Ok(Self::from(Objects::new(store, &bucket.name, bucket.prefix.clone())))
            }
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// Returns the folder, whose files have to be synced, or `None` for objects.
    #[doc(hidden)]
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Folder(folder) => Some(folder),
            Kind::Objects(_) => None,
        }
    }

    /// Returns the place of this name inside this one.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self(match &self.0 {
            Kind::Folder(folder) => Kind::Folder(folder.join(name)),
            Kind::Objects(objects) => Kind::Objects(objects.join(name)),
        })
    }

    /// Creates the folder. Does nothing on object storage.
    pub(crate) async fn make(&self, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || durable::create_folder(&folder)).await
            }
            Kind::Objects(_) => Ok(()),
        }
    }

    /// Creates the folder, unless the folder around it does not exist. Does nothing on object
    /// storage.
    pub(crate) async fn make_inside(&self, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || durable::create_folder_inside(&folder)).await
            }
            Kind::Objects(_) => Ok(()),
        }
    }

    /// Opens the place with the storage engine, which caches indexes in `memory`.
    pub(crate) async fn connect(&self, memory: &IndexMemory) -> Result<lancedb::Connection> {
        const DOING: &str = "open the shard's place";
        let folder = match &self.0 {
            Kind::Folder(folder) => folder,
            Kind::Objects(objects) => return objects.connect(memory, DOING).await,
        };
        // A relative path could be taken for an address.
        let folder = std::path::absolute(folder).map_err(|error| Error::of_file(DOING, error))?;
        let folder = folder
            .to_str()
            .ok_or_else(|| Error::invalid("data_dir", "expected a path that is valid UTF-8"))?;
        lancedb::connect(folder)
            .session(session(ObjectStoreRegistry::default(), memory))
            .execute()
            .await
            .map_err(|error| Error::Unavailable { doing: DOING.to_owned(), source: error.into() })
    }

    /// Returns the names of the direct entries of the place. Returns none if the place does not
    /// exist.
    pub(crate) async fn names(&self, doing: &'static str) -> Result<Vec<String>> {
        let folder = match &self.0 {
            Kind::Folder(folder) => folder.clone(),
            Kind::Objects(objects) => return objects.names(doing).await,
        };
        on_files(doing, move || match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect(),
        })
        .await
    }

    /// Creates an empty file that survives a power cut. The file may exist already.
    pub(crate) async fn put_mark(&self, name: &str, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                on_files(doing, move || durable::write_file(&path, b"")).await
            }
            Kind::Objects(objects) => objects.put(name, Bytes::new(), doing).await,
        }
    }

    /// Writes a file, which survives a power cut, as a whole. Replaces an existing one.
    pub(crate) async fn put_file(
        &self,
        name: &str,
        bytes: Bytes,
        doing: &'static str,
    ) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                on_files(doing, move || durable::write_file(&path, &bytes)).await
            }
            Kind::Objects(objects) => objects.put(name, bytes, doing).await,
        }
    }

    /// Writes a file as [`Storage::put_file`] does, unless it exists. Returns whether it did not
    /// exist.
    pub(crate) async fn put_new_file(
        &self,
        name: &str,
        bytes: Bytes,
        doing: &'static str,
    ) -> Result<bool> {
        match &self.0 {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                on_files(doing, move || durable::write_new_file(&path, &bytes)).await
            }
            Kind::Objects(objects) => objects.swap(name, None, &bytes, doing).await,
        }
    }

    /// Writes a file as [`Storage::put_file`] does, unless its content is no longer `expected`.
    /// Returns whether it was. In a folder, another process may write between the comparison and
    /// the write.
    pub(crate) async fn replace_file(
        &self,
        name: &str,
        expected: &Bytes,
        bytes: Bytes,
        doing: &'static str,
    ) -> Result<bool> {
        match &self.0 {
            Kind::Folder(folder) => {
                let (path, expected) = (folder.join(name), expected.clone());
                let replace = move || {
                    let is_it = match fs::read(&path) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                        found => found? == expected,
                    };
                    if is_it {
                        durable::write_shared_file(&path, &bytes)?;
                    }
                    Ok(is_it)
                };
                on_files(doing, replace).await
            }
            Kind::Objects(objects) => match objects.get(name, doing).await? {
                Some(found) if found.bytes == *expected => {
                    objects.swap(name, Some(found.version), &bytes, doing).await
                }
                Some(_) | None => Ok(false),
            },
        }
    }

    /// Returns a file, or only the bytes before `end`. Returns `None` if there is no such file.
    pub(crate) async fn get_file(
        &self,
        name: &str,
        end: Option<u64>,
        doing: &'static str,
    ) -> Result<Option<Bytes>> {
        let path = match &self.0 {
            Kind::Folder(folder) => folder.join(name),
            Kind::Objects(objects) => return objects.get_until(name, end, doing).await,
        };
        on_files(doing, move || {
            let file = match fs::File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let mut bytes = Vec::new();
            file.take(end.unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
            Ok(Some(bytes.into()))
        })
        .await
    }

    /// Removes a file. The file may be gone already.
    pub(crate) async fn remove_file(&self, name: &str, doing: &'static str) -> Result<()> {
        self.remove_files([name.to_owned()], doing).await
    }

    /// Removes files, in any order. Some may be gone already. On an object store, many go with one
    /// request. After an error, others may be left as well.
    pub(crate) async fn remove_files(
        &self,
        names: impl IntoIterator<Item = String>,
        doing: &'static str,
    ) -> Result<()> {
        let names = names.into_iter();
        match &self.0 {
            Kind::Folder(folder) => {
                let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
                on_files(doing, move || durable::remove_files(&paths)).await
            }
            Kind::Objects(objects) => {
                let paths = names.map(|name| objects.path(&name)).collect();
                objects.remove_paths(paths, doing).await
            }
        }
    }
}

impl Storage {
    /// Removes the folders inside that hold no files, and the place's own folder if nothing is
    /// left. Does nothing on object storage.
    pub(crate) async fn remove_empty_folders(&self, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || remove_if_empty(&folder)).await
            }
            Kind::Objects(_) => Ok(()),
        }
    }
}

fn remove_if_empty(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_if_empty(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(())
        }
        removed => removed,
    }
}

/// Runs file operations off the asynchronous threads.
pub(crate) async fn on_files<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Unavailable { doing: doing.to_owned(), source: error.into() })?
        .map_err(|error| Error::of_file(doing, error))
}
