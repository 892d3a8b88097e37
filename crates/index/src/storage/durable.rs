//! Makes written files survive a power cut.
//!
//! The storage engine never calls `fsync`: its commits survive a killed process, but not a lost
//! page cache. Its files are written once and never changed. So it is enough to remember which
//! files were synced and, before a write is acknowledged, to sync the new files and then the
//! folders that name them.
//!
//! A power cut loses nothing that was acknowledged. Manifests are synced after the files they name,
//! so a commit that was under way exists as a whole, or not at all, or as an empty manifest (a name
//! that reached the disk before its bytes). [`remove_torn_commit`] removes such a manifest when the
//! table is opened. The engine's version hint is only a hint and is not synced again when it
//! changes.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::storage::unique::unique;

/// Folder of a table that holds its manifests, one per version.
pub(crate) const MANIFESTS: &str = "_versions";

/// Folder, with the files in it, at any depth, that are known to be on the disk.
#[derive(Debug)]
pub(crate) struct SyncedFolder {
    folder: PathBuf,
    known: HashSet<PathBuf>,
}

/// Number of files and folders that one round of syncing synced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    pub files: usize,
    pub folders: usize,
}

impl SyncedFolder {
    /// Returns a folder of which nothing is known to be synced.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, known: HashSet::new() }
    }

    /// Syncs the files that are new since the last call, then the folders that name them. Blocks
    /// for about 5 ms per file.
    ///
    /// # Errors
    /// Returns the first error of the operating system. The next call tries the files that were not
    /// synced again.
    pub(crate) fn sync(&mut self) -> io::Result<Synced> {
        let mut present = HashSet::with_capacity(self.known.len());
        let mut synced = Synced::default();
        self.sync_below(&self.folder, &mut present, &mut synced)?;
        self.known = present;
        Ok(synced)
    }

    fn sync_below(
        &self,
        folder: &Path,
        present: &mut HashSet<PathBuf>,
        synced: &mut Synced,
    ) -> io::Result<()> {
        let mut has_new_entry = false;
        let mut entries = match fs::read_dir(folder) {
            // An earlier owner of the shard is removing old versions.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?.collect::<io::Result<Vec<_>>>()?,
        };
        entries.sort_by_key(|entry| entry.file_name() == MANIFESTS);
        for entry in entries {
            let path = entry.path();
            let is_new = !self.known.contains(&path);
            has_new_entry |= is_new;
            if entry.file_type()?.is_dir() {
                self.sync_below(&path, present, synced)?;
            } else if is_new && sync_if_present(&path)? {
                synced.files += 1;
            }
            present.insert(path);
        }
        if has_new_entry {
            sync_folder(folder)?;
            synced.folders += 1;
        }
        Ok(())
    }
}

/// Syncs a file, unless it is gone: the engine writes a manifest under a temporary name first.
fn sync_if_present(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => file.sync_all().map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what a power cut may leave of a commit that was never acknowledged: an empty newest
/// manifest. Returns whether there was one.
///
/// Several processes may open a table after the same power cut, and one may commit the version
/// again while another is about to remove it. So only the process that holds the lock of the folder
/// removes an empty manifest. The operating system releases the lock of a process that ends.
///
/// # Errors
/// Returns `WouldBlock` if another process holds the lock.
pub(crate) fn remove_torn_commit(table_folder: &Path) -> io::Result<bool> {
    if newest_if_empty(table_folder)?.is_none() {
        return Ok(false);
    }
    let folder = File::open(table_folder.join(MANIFESTS))?;
    folder.try_lock()?;
    while let Some(empty) = newest_if_empty(table_folder)? {
        fs::remove_file(empty)?;
        folder.sync_all()?;
    }
    Ok(true)
}

fn newest_if_empty(table_folder: &Path) -> io::Result<Option<PathBuf>> {
    let Some(newest) = manifests(table_folder)?.into_iter().next() else { return Ok(None) };
    match fs::metadata(&newest) {
        Ok(found) => Ok((found.len() == 0).then_some(newest)),
        // Another process removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the manifests of a table, newest first: the engine names them so that they sort like
/// this.
fn manifests(table_folder: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = table_folder.join(MANIFESTS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut manifests = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "manifest") {
            manifests.push(path);
        }
    }
    manifests.sort();
    Ok(manifests)
}

/// Makes the names in `folder` survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes files, some of which may be gone already, so that they stay gone after a power cut.
pub(crate) fn remove_files(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    folders.into_iter().try_for_each(sync_folder)
}

/// Creates `folder` in a folder that exists. The name survives a power cut.
pub(crate) fn create_folder_inside(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        created => created?,
    }
    folder.parent().map_or(Ok(()), sync_folder)
}

/// Creates `folder` and its missing parents. Each name survives a power cut.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if parent != Path::new(".") {
        create_folder(parent)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_folder(parent)
}

/// Writes a file so that after a power cut it exists as a whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(&path.with_extension("new"), path, bytes)
}

/// Writes a file as [`write_file`] does, also while others write it. One of them is the last.
pub(crate) fn write_shared_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(&unfinished(path), path, bytes)
}

fn write_by(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_synced(new, bytes)?;
    fs::rename(new, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Returns a path beside `path` at which no other process or thread writes.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(format!("new-{}", unique()))
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

/// Writes a file as [`write_file`] does, unless it exists. Returns whether it did not exist. Of
/// several that write it at the same time, one succeeds.
pub(crate) fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let new = unfinished(path);
    write_synced(&new, bytes)?;
    // Unlike a rename, this fails if the name is taken.
    let linked = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        linked => linked?,
    }
    path.parent().map_or(Ok(()), sync_folder)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_synced_once_and_then_the_folders_that_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut synced = SyncedFolder::new(folder.path().to_owned());
        assert_eq!(synced.sync().unwrap(), Synced { files: 0, folders: 0 });

        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/a"), "a").unwrap();
        fs::write(folder.path().join("b"), "b").unwrap();
        assert_eq!(synced.sync().unwrap(), Synced { files: 2, folders: 2 });
        assert_eq!(synced.sync().unwrap(), Synced { files: 0, folders: 0 });

        fs::write(folder.path().join("data/c"), "c").unwrap();
        assert_eq!(synced.sync().unwrap(), Synced { files: 1, folders: 1 });
    }

    #[test]
    fn a_file_that_was_removed_and_made_again_is_synced_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut synced = SyncedFolder::new(folder.path().to_owned());
        fs::write(folder.path().join("a"), "a").unwrap();
        synced.sync().unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        synced.sync().unwrap();
        fs::write(folder.path().join("a"), "other").unwrap();
        assert_eq!(synced.sync().unwrap().files, 1);
    }

    #[test]
    fn what_was_never_acknowledged_is_taken_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("chunks.lance");
        assert!(!remove_torn_commit(&table).unwrap());
        fs::create_dir_all(table.join(MANIFESTS)).unwrap();
        fs::create_dir_all(table.join("data")).unwrap();
        fs::write(table.join("data/rows.lance"), "rows").unwrap();
        assert!(!remove_torn_commit(&table).unwrap());
        fs::write(table.join("_versions/8.manifest"), "").unwrap();
        fs::write(table.join("_versions/9.manifest"), "older").unwrap();
        let other = File::open(table.join(MANIFESTS)).unwrap();
        other.lock().unwrap();
        let error = remove_torn_commit(&table).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(other);
        assert!(remove_torn_commit(&table).unwrap());
        assert!(!table.join("_versions/8.manifest").exists());
        assert!(!remove_torn_commit(&table).unwrap());
        assert!(table.join("_versions/9.manifest").exists());
    }

    #[test]
    fn folders_and_files_are_made_whole() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x/y/z");
        create_folder(&deep).unwrap();
        create_folder(&deep).unwrap();
        write_file(&deep.join("settings.json"), b"1").unwrap();
        write_file(&deep.join("settings.json"), b"2").unwrap();
        assert_eq!(fs::read(deep.join("settings.json")).unwrap(), b"2");
        assert!(!write_new_file(&deep.join("settings.json"), b"3").unwrap());
        assert_eq!(fs::read(deep.join("settings.json")).unwrap(), b"2");
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 1);
        assert!(write_new_file(&deep.join("other.json"), b"3").unwrap());
        assert_eq!(fs::read(deep.join("other.json")).unwrap(), b"3");
        create_folder_inside(&deep).unwrap();
        create_folder_inside(&deep.join("inside")).unwrap();
        let orphan = create_folder_inside(&deep.join("gone/inside")).unwrap_err();
        assert_eq!(orphan.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn of_those_who_write_a_file_at_the_same_time_each_writes_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (replaced, new) = (folder.path().join("replaced"), folder.path().join("new"));
        let bytes = |writer: u8| vec![writer; 10_000];
        let created: Vec<bool> = std::thread::scope(|scope| {
            let write = |writer| {
                let (replaced, new) = (&replaced, &new);
                scope.spawn(move || {
                    write_shared_file(replaced, &bytes(writer)).unwrap();
                    write_new_file(new, &bytes(writer)).unwrap()
                })
            };
            let writers: Vec<_> = (0..8).map(write).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        assert_eq!(created.iter().filter(|created| **created).count(), 1);
        for path in [replaced, new] {
            let read = fs::read(path).unwrap();
            assert_eq!(read, bytes(read[0]));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
