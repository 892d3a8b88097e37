//! Folders that hold shards.
//!
//! The tables are the storage engine's. Here is what else a shard needs of its folder: a few small
//! files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::durable;
use crate::error::{Error, Result};

/// A folder that all who may own a shard see.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl From<&Path> for Place {
    fn from(folder: &Path) -> Self {
        Self(folder.to_owned())
    }
}

impl Place {
    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The folder of that name in this one.
    pub(crate) fn join(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }

    /// Makes the folder.
    pub(crate) async fn make(&self, doing: &'static str) -> Result<()> {
        let folder = self.0.clone();
        on_files(doing, move || durable::create_folder(&folder)).await
    }

    /// Opens it with the storage engine.
    pub(crate) async fn connect(&self) -> Result<lancedb::Connection> {
        const DOING: &str = "open the shard's folder";
        // A relative path could read like an address.
        let folder = std::path::absolute(&self.0).map_err(|error| Error::of_file(DOING, error))?;
        let folder = folder
            .to_str()
            .ok_or_else(|| Error::invalid("data_dir", "expected a path that is valid UTF-8"))?;
        lancedb::connect(folder)
            .execute()
            .await
            .map_err(|error| Error::Unavailable { doing: DOING.to_owned(), source: error.into() })
    }

    /// Names of what is right in it; none if there is no such folder.
    pub(crate) async fn names(&self, doing: &'static str) -> Result<Vec<String>> {
        let folder = self.0.clone();
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
        let path = self.0.join(name);
        on_files(doing, move || durable::write_file(&path, b"")).await
    }

    /// Removes a file; it may be gone already.
    pub(crate) async fn remove_file(&self, name: &str, doing: &'static str) -> Result<()> {
        let path = self.0.join(name);
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
