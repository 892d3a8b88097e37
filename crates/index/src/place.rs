//! Where shards lie: a folder, or a part of an object store.
//!
//! The tables are the storage engine's. Here is what else a shard needs of its place: a few small
//! files.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lance::session::Session;
use lance_io::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;

use crate::durable;
use crate::error::{Error, Result};
use crate::location::{self, Location};
use crate::objects::Objects;

/// Bytes of a shard's indexes, and of descriptions of its files, that the storage engine keeps in memory so that
/// searches need not read them again: enough for the indexes of some 100,000 passages. Left to itself it keeps seven
/// gigabytes for each shard, most of them of versions that are gone.
const INDEX_CACHE: usize = 96 << 20;
const METADATA_CACHE: usize = 32 << 20;

/// A place that all who may own a shard see.
#[derive(Clone, Debug)]
pub struct Place(Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Folder(PathBuf),
    Objects(Objects),
}

impl From<&Path> for Place {
    fn from(folder: &Path) -> Self {
        Self(Kind::Folder(folder.to_owned()))
    }
}

impl From<Objects> for Place {
    fn from(objects: Objects) -> Self {
        Self(Kind::Objects(objects))
    }
}

impl Place {
    /// A place in a store that is there already, below a prefix. For tests, which bring stores that fail.
    #[doc(hidden)]
    pub fn in_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self::from(Objects::new(store, "bucket", prefix.into()))
    }

    /// The store that it is a part of, if it is.
    #[doc(hidden)]
    pub fn store(&self) -> Option<Arc<dyn ObjectStore>> {
        match &self.0 {
            Kind::Folder(_) => None,
            Kind::Objects(objects) => Some(objects.store()),
        }
    }

    /// Where a location leads.
    pub(crate) async fn of(location: &Location) -> Result<Self> {
        const DOING: &str = "connect to the object store";
        match &location.0 {
            location::Kind::Folder(folder) => Ok(Self::from(folder.as_path())),
            location::Kind::Bucket(bucket) => {
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

    /// The folder, if it is one, whose files have to be synced.
    #[doc(hidden)]
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Folder(folder) => Some(folder),
            Kind::Objects(_) => None,
        }
    }

    /// The place of that name in this one.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self(match &self.0 {
            Kind::Folder(folder) => Kind::Folder(folder.join(name)),
            Kind::Objects(objects) => Kind::Objects(objects.join(name)),
        })
    }

    /// Makes it, where places have to be made.
    pub(crate) async fn make(&self, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || durable::create_folder(&folder)).await
            }
            Kind::Objects(_) => Ok(()),
        }
    }

    /// Opens it with the storage engine.
    pub(crate) async fn connect(&self) -> Result<lancedb::Connection> {
        const DOING: &str = "open the shard's place";
        let folder = match &self.0 {
            Kind::Folder(folder) => folder,
            Kind::Objects(objects) => return objects.connect(DOING).await,
        };
        // A relative path could read like an address.
        let folder = std::path::absolute(folder).map_err(|error| Error::of_file(DOING, error))?;
        let folder = folder
            .to_str()
            .ok_or_else(|| Error::invalid("data_dir", "expected a path that is valid UTF-8"))?;
        lancedb::connect(folder)
            .session(session(ObjectStoreRegistry::default()))
            .execute()
            .await
            .map_err(|error| Error::Unavailable { doing: DOING.to_owned(), source: error.into() })
    }

    /// Names of what is right in it; none if there is no such place.
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

    /// Makes an empty file that survives a power cut; it may be there already.
    pub(crate) async fn put_mark(&self, name: &str, doing: &'static str) -> Result<()> {
        match &self.0 {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                on_files(doing, move || durable::write_file(&path, b"")).await
            }
            Kind::Objects(objects) => objects.put(name, Bytes::new(), doing).await,
        }
    }

    /// Writes a file that survives a power cut, whole; what may have been there is replaced.
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

    /// As [`Place::put_file`], unless there is such a file. Returns whether there was none.
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

    /// As [`Place::put_file`], unless what is there is not `expected` any more. Returns whether it was. In a folder
    /// another may come between the look and the writing.
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
                        durable::write_file(&path, &bytes)?;
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

    /// A file, or what of it lies before `end`; `None` if there is none.
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

    /// Removes a file; it may be gone already.
    pub(crate) async fn remove_file(&self, name: &str, doing: &'static str) -> Result<()> {
        let path = match &self.0 {
            Kind::Folder(folder) => folder.join(name),
            Kind::Objects(objects) => return objects.remove(name, doing).await,
        };
        on_files(doing, move || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
            path.parent().map_or(Ok(()), durable::sync_folder)
        })
        .await
    }
}

impl Place {
    /// Removes the folders in it that hold no files, and itself if nothing is left. Where there are no folders, there
    /// is nothing to do.
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

/// What the storage engine does in: its caches of a shard, and the stores that it knows.
pub(crate) fn session(stores: ObjectStoreRegistry) -> Arc<Session> {
    Arc::new(Session::new(INDEX_CACHE, METADATA_CACHE, Arc::new(stores)))
}

/// Does file work off the asynchronous threads.
pub(crate) async fn on_files<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Unavailable { doing: doing.to_owned(), source: error.into() })?
        .map_err(|error| Error::of_file(doing, error))
}
