//! Registry of corpora in a folder.
//!
//! A corpus is a folder. It is created by renaming a finished folder into place, and deleted by
//! renaming it away first, so no corpus is ever half created or half deleted. Opening the registry
//! removes leftovers under other names. A folder that is being created is removed only after an
//! hour, because another process may be creating it.
//!
//! Settings are changed by renaming a finished file over the old one. Only the process that holds
//! the lock of a file beside the corpora may do this; the operating system releases the lock of a
//! process that ends. A deletion takes this lock as well, so that no process writes settings into
//! the folder of a later corpus of that name.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clew_core::{CorpusName, CorpusSettings};

use crate::error::{Cause, Error, Result};
use crate::registry::format::{CORPORA, Registered, damaged, from_json, to_json};
use crate::storage::durable;
use crate::storage::unique::unique;
use crate::storage::{Storage, on_files};

const SETTINGS: &str = "settings.json";
/// Empty file in the folder of a corpus that is to be deleted.
const RETIRED: &str = "retired";
/// Prefixes of the names of folders that are no corpora. No corpus name begins with a dot.
const BEING_MADE: &str = ".making-";
const DELETED: &str = ".deleted-";
/// Prefix of the folder name of a corpus that is being restored. The corpus' name, `@`, and the
/// beginning of the snapshot's digest follow.
const BEING_RESTORED: &str = ".restoring@";
/// Counterpart of `BEING_MADE` in releases that allowed only one process per data directory.
const LEFT_HALF_MADE: &str = ".new-";
/// Extension of the file whose lock a process holds while it changes or deletes a corpus.
const LOCK: &str = "lock";
/// Maximum wait for that lock, which is held for milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(5);
/// Age after which a folder is no longer being created, which takes milliseconds.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Registry in a folder; see [`super::Registry`] for its functions.
#[derive(Clone, Debug)]
pub(super) struct FolderRegistry {
    folder: PathBuf,
}

impl FolderRegistry {
    pub async fn open(data_dir: &Path) -> Result<Self> {
        let folder = data_dir.join(CORPORA);
        let registry = Self { folder: folder.clone() };
        on_files("open the data directory", move || finish_in_folder(&folder)).await?;
        Ok(registry)
    }

    /// Returns whether this call created it.
    pub async fn create(&self, settings: &CorpusSettings) -> Result<bool> {
        let folder = self.corpus_folder(&settings.name);
        let being_made = self.folder.join(unique_name(BEING_MADE, &settings.name));
        let text = to_json(settings, settings)
            .map_err(|error| Error::of_file("write the corpus' settings", error.into()))?;
        on_files("make the corpus", move || make_folder(&being_made, &folder, &text)).await
    }

    pub async fn get(&self, name: &CorpusName) -> Result<Option<CorpusSettings>> {
        let folder = self.corpus_folder(name);
        let read = on_files("read the corpus' settings", move || read_live(&folder));
        read.await?.transpose().map_err(|source| damaged(name, source))
    }

    /// Returns the settings after this call: `to`, if they were `from`.
    pub async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
    ) -> Result<Option<CorpusSettings>> {
        const DOING: &str = "change the corpus' settings";
        let text = to_json(to, to).map_err(|error| Error::of_file(DOING, error.into()))?;
        let (corpora, folder) = (self.folder.clone(), self.corpus_folder(&from.name));
        let (from, to) = (from.clone(), to.clone());
        let name = from.name.clone();
        let changed = on_files(DOING, move || {
            locked(&corpora, || match read_live(&folder)? {
                Some(Ok(found)) if found == from => {
                    durable::write_file(&folder.join(SETTINGS), &text)?;
                    Ok(Some(Ok(to)))
                }
                found => Ok(found),
            })
        });
        changed.await?.transpose().map_err(|source| damaged(&name, source))
    }

    pub async fn list(&self) -> Result<Vec<Registered>> {
        let mut corpora = Vec::new();
        for name in self.names().await? {
            // Another process may have deleted the corpus since it was listed.
            let found = self.get(&name).await.transpose();
            corpora.extend(found.map(|settings| (name, settings)));
        }
        Ok(corpora)
    }

    /// Returns the names of the folders that may be corpora, in order.
    async fn names(&self) -> Result<Vec<CorpusName>> {
        let folder = self.folder.clone();
        let names = on_files("list the corpora", move || {
            let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name()));
            names.collect::<io::Result<Vec<_>>>()
        });
        // Entries that are no corpus name are not ours.
        let names = names.await?.into_iter().filter_map(|name| name.to_str()?.parse().ok());
        let mut names: Vec<CorpusName> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Returns whether the corpus existed.
    pub async fn retire(&self, name: &CorpusName) -> Result<bool> {
        if self.get(name).await?.is_none() {
            return Ok(false);
        }
        let mark = self.corpus_folder(name).join(RETIRED);
        on_files("retire the corpus", move || durable::write_file(&mark, b"")).await?;
        Ok(true)
    }

    pub async fn is_retired(&self, name: &CorpusName) -> Result<bool> {
        let mark = self.corpus_folder(name).join(RETIRED);
        on_files("look whether the corpus is retired", move || Ok(age(&mark)?.is_some())).await
    }

    pub async fn retired(&self) -> Result<Vec<(CorpusSettings, Duration)>> {
        let mut retired = Vec::new();
        for name in self.names().await? {
            let folder = self.corpus_folder(&name);
            let read = on_files("read the corpus' settings", move || {
                let Some(age) = age(&folder.join(RETIRED))? else { return Ok(None) };
                Ok(read_settings(&folder)?.map(|settings| (settings, age)))
            });
            // Damaged settings do not tell which shards exist. Such a corpus stays for a person to
            // look at.
            if let Some((Ok(settings), age)) = read.await? {
                retired.push((settings, age));
            }
        }
        Ok(retired)
    }

    /// Returns whether the corpus existed.
    pub async fn delete(&self, name: &CorpusName) -> Result<bool> {
        let folder = self.corpus_folder(name);
        let (corpora, deleted) =
            (self.folder.clone(), self.folder.join(unique_name(DELETED, name)));
        on_files("delete the corpus", move || delete_folder(&corpora, &folder, &deleted)).await
    }

    pub async fn begin_restore(
        &self,
        settings: &CorpusSettings,
        digest: &str,
    ) -> Result<Option<(CorpusSettings, Storage)>> {
        let (folder, being_restored) =
            (self.corpus_folder(&settings.name), self.being_restored(&settings.name, digest));
        let place = Storage::from(being_restored.as_path());
        let text = to_json(settings, settings)
            .map_err(|error| Error::of_file("write the corpus' settings", error.into()))?;
        let begin = move || {
            if folder.exists() {
                return Ok(None);
            }
            durable::create_folder(&being_restored)?;
            if !being_restored.join(SETTINGS).exists() {
                durable::write_new_file(&being_restored.join(SETTINGS), &text)?;
            }
            read_settings(&being_restored)
        };
        let begun = on_files("begin to restore the corpus", begin).await?.transpose();
        let begun = begun.map_err(|source| damaged(&settings.name, source))?;
        Ok(begun.map(|settings| (settings, place)))
    }

    /// Returns whether this call made the corpus exist.
    pub async fn finish_restore(&self, name: &CorpusName, digest: &str) -> Result<bool> {
        let (corpora, folder) = (self.folder.clone(), self.corpus_folder(name));
        let being_restored = self.being_restored(name, digest);
        let of_that_name = format!("{BEING_RESTORED}{name}@");
        on_files("end the restoring of the corpus", move || {
            let is_done = rename_into_place(&being_restored, &folder)?;
            // Files that were copied from other snapshots before are of no use any more.
            for entry in fs::read_dir(&corpora)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(&of_that_name) {
                    remove_folder(&entry.path())?;
                }
            }
            Ok(is_done)
        })
        .await
    }

    fn being_restored(&self, name: &CorpusName, digest: &str) -> PathBuf {
        let which: String = digest.chars().take(16).collect();
        self.folder.join(format!("{BEING_RESTORED}{name}@{which}"))
    }

    pub fn corpus_place(&self, name: &CorpusName) -> Storage {
        Storage::from(self.corpus_folder(name).as_path())
    }

    fn corpus_folder(&self, name: &CorpusName) -> PathBuf {
        self.folder.join(name.as_str())
    }
}

/// Returns a name that no other process uses.
fn unique_name(prefix: &str, name: &CorpusName) -> String {
    format!("{prefix}{name}-{}", unique())
}

fn finish_in_folder(corpora: &Path) -> io::Result<()> {
    durable::create_folder(corpora)?;
    for entry in fs::read_dir(corpora)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_garbage = name.starts_with(LEFT_HALF_MADE)
            || name.starts_with(DELETED)
            || (name.starts_with(BEING_MADE) && is_abandoned(&entry));
        if is_garbage {
            remove_folder(&entry.path())?;
        }
    }
    Ok(())
}

fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let age = entry.metadata().and_then(|found| found.modified()).map(|time| time.elapsed());
    matches!(age, Ok(Ok(age)) if age > ABANDONED)
}

/// Creates the folder of a corpus. Returns whether this call created it.
fn make_folder(being_made: &Path, folder: &Path, settings: &[u8]) -> io::Result<bool> {
    if folder.exists() {
        return Ok(false);
    }
    durable::create_folder(being_made)?;
    durable::write_file(&being_made.join(SETTINGS), settings)?;
    let is_done = rename_into_place(being_made, folder)?;
    if !is_done {
        remove_folder(being_made)?;
    }
    Ok(is_done)
}

/// Renames a folder into place. Returns `false` if another one is there.
fn rename_into_place(made: &Path, folder: &Path) -> io::Result<bool> {
    match fs::rename(made, folder) {
        Ok(()) => {
            folder.parent().map_or(Ok(()), durable::sync_folder)?;
            Ok(true)
        }
        // A folder can replace only an empty one.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Deletes the folder of a corpus. Returns whether this call deleted it.
fn delete_folder(corpora: &Path, folder: &Path, deleted: &Path) -> io::Result<bool> {
    match locked(corpora, || fs::rename(folder, deleted)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    durable::sync_folder(corpora)?;
    remove_folder(deleted)?;
    Ok(true)
}

/// Does `work` while no other process changes or deletes a corpus.
fn locked<T>(corpora: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // Opened for writing, which network file systems require for a lock.
    let mut options = fs::OpenOptions::new();
    let lock =
        options.create(true).truncate(false).write(true).open(corpora.with_extension(LOCK))?;
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return work(),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_LOOK),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads settings as [`read_settings`] does, unless the corpus is to be deleted.
fn read_live(folder: &Path) -> io::Result<Option<std::result::Result<CorpusSettings, Cause>>> {
    if folder.join(RETIRED).exists() { Ok(None) } else { read_settings(folder) }
}

/// Reads the settings of a corpus. Returns `None` if the corpus does not exist, and an inner error
/// if its settings do not parse.
fn read_settings(folder: &Path) -> io::Result<Option<std::result::Result<CorpusSettings, Cause>>> {
    match fs::read(folder.join(SETTINGS)) {
        Ok(bytes) => Ok(Some(from_json(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(folder.exists().then(|| Err(error.into())))
        }
        Err(error) => Err(error),
    }
}

/// Returns how long ago a file was written, or `None` if it does not exist.
fn age(file: &Path) -> io::Result<Option<Duration>> {
    match fs::metadata(file) {
        // If the clock was set back, the file counts as new.
        Ok(found) => Ok(Some(found.modified()?.elapsed().unwrap_or_default())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a folder that another process may be removing, too.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::registry::fixture::{listed, next, refuses_what_is_not_there, settings};
    use crate::storage::s3::ObjectStoreSettings;
    use crate::storage::url::StorageUrl;

    async fn registry(folder: &Path) -> Registry {
        let reached = ObjectStoreSettings::default();
        let location = StorageUrl::try_new(folder.to_str().unwrap(), &reached).unwrap();
        Registry::open(&location).await.unwrap()
    }

    #[tokio::test]
    async fn corpora_are_made_once_listed_by_name_and_deleted_once() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        for name in ["b", "a"] {
            corpora.create(&settings(name, 0)).await.unwrap();
        }
        assert!(matches!(corpora.create(&settings("a", 0)).await, Err(Error::CorpusExists(_))));
        let reopened = registry(folder.path()).await;
        assert_eq!(listed(&reopened).await, [settings("a", 0), settings("b", 0)]);
        let name = "a".parse().unwrap();
        assert_eq!(reopened.get(&name).await.unwrap(), settings("a", 0));
        reopened.delete(&name).await.unwrap();
        assert!(matches!(reopened.get(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(reopened.delete(&name).await, Err(Error::CorpusNotFound(_))));
        assert_eq!(fs::read_dir(folder.path().join(CORPORA)).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn an_interrupted_deletion_or_creation_is_finished_on_open() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        corpora.create(&settings("a", 0)).await.unwrap();
        let root = folder.path().join(CORPORA);
        fs::rename(root.join("a"), root.join(".deleted-a")).unwrap();
        fs::create_dir(root.join(".new-b")).unwrap();
        let corpora = registry(folder.path()).await;
        assert!(corpora.list().await.unwrap().is_empty());
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_folder_that_another_process_may_be_making_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        registry(folder.path()).await;
        let root = folder.path().join(CORPORA);
        let (fresh, old) = (root.join(".making-a-1-1"), root.join(".making-b-1-1"));
        for being_made in [&fresh, &old] {
            fs::create_dir(being_made).unwrap();
        }
        let past = std::time::SystemTime::now() - ABANDONED - Duration::from_secs(1);
        fs::File::open(&old).unwrap().set_modified(past).unwrap();
        registry(folder.path()).await;
        assert!(fresh.exists() && !old.exists());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_several_who_make_or_delete_a_corpus_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let name: CorpusName = "a".parse().unwrap();
        for _ in 0..10 {
            let registries = [registry(folder.path()).await, registry(folder.path()).await];
            let made = registries.clone().map(|registry| {
                tokio::spawn(async move { registry.create(&settings("a", 0)).await.is_ok() })
            });
            let made: Vec<_> = futures::future::try_join_all(made).await.unwrap();
            assert_eq!(made.iter().filter(|&&made| made).count(), 1);
            assert_eq!(registries[0].get(&name).await.unwrap(), settings("a", 0));
            let deleted = registries.clone().map(|registry| {
                let name = name.clone();
                tokio::spawn(async move { registry.delete(&name).await.is_ok() })
            });
            let deleted: Vec<_> = futures::future::try_join_all(deleted).await.unwrap();
            assert_eq!(deleted.iter().filter(|&&deleted| deleted).count(), 1);
        }
        assert_eq!(fs::read_dir(folder.path().join(CORPORA)).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_retired_corpus_is_gone_for_everyone_and_deleted_by_anyone() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        corpora.create(&settings("a", 0)).await.unwrap();
        let name = "a".parse().unwrap();
        corpora.retire(&name).await.unwrap();
        let other = registry(folder.path()).await;
        assert!(other.list().await.unwrap().is_empty());
        assert!(matches!(other.get(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(other.retire(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(other.create(&settings("a", 0)).await, Err(Error::CorpusExists(_))));
        let retired = other.list_all().await.unwrap().retired;
        assert_eq!(
            retired.iter().map(|(settings, _)| settings).collect::<Vec<_>>(),
            [&settings("a", 0)]
        );
        other.delete(&name).await.unwrap();
        assert!(corpora.list_all().await.unwrap().retired.is_empty());
        corpora.create(&settings("a", 0)).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_several_who_change_a_corpus_one_succeeds_and_readers_see_its_settings_whole() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        corpora.create(&settings("a", 0)).await.unwrap();
        let mut before = settings("a", 0);
        // Leftovers of a process that was killed: a file that was not renamed yet, and a lock file
        // that no process has locked.
        let root = folder.path().join(CORPORA);
        fs::write(root.join("a").join("settings.new"), "{").unwrap();
        fs::write(root.with_extension(LOCK), "").unwrap();
        for _ in 0..10 {
            let reader = registry(folder.path()).await;
            let reading = tokio::spawn(async move {
                for _ in 0..20 {
                    reader.get(&"a".parse().unwrap()).await.unwrap();
                }
            });
            let mut changing = Vec::new();
            for model in ["b", "c", "d"] {
                let (corpora, from) = (registry(folder.path()).await, before.clone());
                let to = next(&from, model);
                changing.push(tokio::spawn(async move {
                    let changed = corpora.change(&from, &to).await;
                    let lost = matches!(changed, Err(Error::CorpusChanged));
                    assert!(changed.is_ok() || lost, "{changed:?}");
                    changed.is_ok().then_some(to)
                }));
            }
            let changed = futures::future::try_join_all(changing).await.unwrap();
            reading.await.unwrap();
            let [after] = changed.into_iter().flatten().collect::<Vec<_>>().try_into().unwrap();
            assert_eq!(corpora.get(&"a".parse().unwrap()).await.unwrap(), after);
            before = after;
        }
    }

    #[tokio::test]
    async fn a_corpus_that_is_gone_or_another_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        refuses_what_is_not_there(&corpora).await;
        // A change waits for a deletion that holds the lock.
        let lock = fs::File::create(folder.path().join(CORPORA).with_extension(LOCK)).unwrap();
        lock.lock().unwrap();
        let before = settings("b", 0);
        corpora.create(&before).await.unwrap();
        let changing = {
            let (corpora, after) = (corpora.clone(), next(&before, "b"));
            tokio::spawn(async move { corpora.change(&before, &after).await })
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
        let root = folder.path().join(CORPORA);
        fs::rename(root.join("b"), root.join(".deleted-b")).unwrap();
        corpora.create(&settings("b", 1)).await.unwrap();
        drop(lock);
        let changed = changing.await.unwrap();
        assert!(matches!(changed, Err(Error::CorpusChanged)), "{changed:?}");
        assert_eq!(corpora.get(&"b".parse().unwrap()).await.unwrap(), settings("b", 1));
    }

    #[tokio::test]
    async fn settings_that_cannot_be_read_stop_their_corpus_alone_until_they_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        for name in ["a", "b"] {
            corpora.create(&settings(name, 0)).await.unwrap();
        }
        let file = folder.path().join(CORPORA).join("a").join(SETTINGS);
        let written = fs::read_to_string(&file).unwrap();
        let newer = written.replace("\"format\": 1", "\"format\": 99");
        for (bad, reason) in
            [(Some("{"), "DATA_LOSS"), (None, "DATA_LOSS"), (Some(newer.as_str()), "NEWER_FORMAT")]
        {
            match bad {
                Some(text) => fs::write(&file, text).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let mut found = registry(folder.path()).await.list().await.unwrap();
            let (name, unreadable) = found.remove(0);
            assert_eq!(name.as_str(), "a");
            let error: clew_core::Error = unreadable.unwrap_err().into();
            assert_eq!(error.reason(), reason);
            assert_eq!(found[0].1.as_ref().unwrap(), &settings("b", 0));
            let error: clew_core::Error = corpora.get(&name).await.unwrap_err().into();
            assert_eq!(error.reason(), reason);
        }
        fs::write(&file, written).unwrap();
        assert_eq!(listed(&corpora).await, [settings("a", 0), settings("b", 0)]);
    }
}
