//! Lists the files of a place, with their sizes and times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

use clew_core::Timestamp;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStoreExt};

use crate::error::{Error, Result};
use crate::storage::objects::Objects;
use crate::storage::{Kind, Storage, on_files};

impl Storage {
    /// Returns every file at any depth with its bytes, by name. Returns none if the place does not
    /// exist.
    pub(crate) async fn files(&self, doing: &'static str) -> Result<BTreeMap<String, u64>> {
        match self.kind() {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || {
                    let mut files = BTreeMap::new();
                    files_below(&folder, "", &mut |name, found| {
                        files.insert(name, found.len());
                        Ok(())
                    })?;
                    Ok(files)
                })
                .await
            }
            Kind::Objects(objects) => {
                let prefix = objects.prefix();
                let listed = objects_below(objects, doing).await?;
                let named = listed.into_iter().filter_map(|object| {
                    let parts: Vec<_> = object.location.prefix_match(prefix)?.collect();
                    let name: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
                    Some((name.join("/"), object.size))
                });
                Ok(named.collect())
            }
        }
    }

    /// Returns when a file at any depth was changed last, or `None` if there is no file.
    pub(crate) async fn newest_change(&self, doing: &'static str) -> Result<Option<Timestamp>> {
        match self.kind() {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(doing, move || {
                    let mut newest = None;
                    files_below(&folder, "", &mut |_, found| {
                        newest = newest.max(Some(changed(&found)?));
                        Ok(())
                    })?;
                    Ok(newest)
                })
                .await
            }
            Kind::Objects(objects) => {
                let listed = objects_below(objects, doing).await?;
                Ok(listed.iter().map(put_at).max())
            }
        }
    }

    /// Returns when a file was changed, or `None` if it does not exist.
    pub(crate) async fn changed_at(
        &self,
        name: &str,
        doing: &'static str,
    ) -> Result<Option<Timestamp>> {
        match self.kind() {
            Kind::Folder(folder) => {
                let path = folder.join(name);
                on_files(doing, move || match fs::metadata(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    found => changed(&found?).map(Some),
                })
                .await
            }
            Kind::Objects(objects) => match objects.store().head(&objects.path(name)).await {
                Ok(found) => Ok(Some(put_at(&found))),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(Error::of_object(doing, error)),
            },
        }
    }
}

async fn objects_below(objects: &Objects, doing: &'static str) -> Result<Vec<ObjectMeta>> {
    let listed = objects.store().list(Some(objects.prefix())).try_collect().await;
    listed.map_err(|error| Error::of_object(doing, error))
}

fn put_at(object: &ObjectMeta) -> Timestamp {
    Timestamp::from_micros(object.last_modified.timestamp_micros())
}

fn changed(file: &fs::Metadata) -> io::Result<Timestamp> {
    let since = file.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::from_micros(0).saturating_add(since))
}

fn files_below(
    folder: &Path,
    above: &str,
    see: &mut impl FnMut(String, fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = format!("{above}{}", name.to_string_lossy());
        // Another process may remove it meanwhile.
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => match found? {
                found if found.is_dir() => files_below(&entry.path(), &format!("{name}/"), see)?,
                found => see(name, found)?,
            },
        }
    }
    Ok(())
}
