//! Which corpora there are: one folder each, with its settings in a file.
//!
//! A file and not a table, because settings are few, are written once, and should be readable by a
//! person when nothing else is. A corpus is made by renaming a finished folder into place and
//! deleted by renaming it away first, so there is no half-made and no half-deleted corpus; what is
//! left under another name is removed when the registry is opened.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clew_core::{CorpusName, CorpusSettings, ShardIndex};

use crate::durable;
use crate::erase::on_files;
use crate::error::{Error, Result};
use crate::location::Location;

const CORPORA: &str = "corpora";
const SETTINGS: &str = "settings.json";
/// Begin names of folders that are no corpora; no corpus name begins with a dot.
const BEING_MADE: &str = ".new-";
const DELETED: &str = ".deleted-";

/// The corpora of a data directory. One process uses a data directory at a time.
#[derive(Clone, Debug)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// Opens the registry of a data directory, making it if it is not there, and finishes deletions
    /// that were interrupted.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::DiskFull`] from the file system.
    pub async fn open(location: &Location) -> Result<Self> {
        let folder = location.path().join(CORPORA);
        let registry = Self { folder: folder.clone() };
        on_files("open the data directory", move || {
            durable::create_folder(&folder)?;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with(BEING_MADE) || name.starts_with(DELETED) {
                    remove_folder(&entry.path())?;
                }
            }
            Ok(())
        })
        .await?;
        Ok(registry)
    }

    /// Makes a corpus. The settings are not checked here; see [`CorpusSettings::check`].
    ///
    /// # Errors
    /// [`Error::CorpusExists`]; [`Error::Unavailable`] and [`Error::DiskFull`] from the file
    /// system, and then there is no such corpus.
    pub async fn create(&self, settings: &CorpusSettings) -> Result<()> {
        let folder = self.corpus_folder(&settings.name);
        let being_made = self.folder.join(format!("{BEING_MADE}{}", settings.name));
        let text = serde_json::to_vec_pretty(settings)
            .map_err(|error| Error::of_file("write the corpus' settings", error.into()))?;
        let is_new = on_files("make the corpus", move || {
            if folder.exists() {
                return Ok(false);
            }
            remove_folder(&being_made)?;
            durable::create_folder(&being_made)?;
            durable::write_file(&being_made.join(SETTINGS), &text)?;
            fs::rename(&being_made, &folder)?;
            folder.parent().map_or(Ok(()), durable::sync_folder)?;
            Ok(true)
        })
        .await?;
        if is_new { Ok(()) } else { Err(Error::CorpusExists(settings.name.clone())) }
    }

    /// The settings of a corpus.
    ///
    /// # Errors
    /// [`Error::CorpusNotFound`]; [`Error::Corrupt`] if its settings cannot be read back.
    pub async fn get(&self, name: &CorpusName) -> Result<CorpusSettings> {
        let folder = self.corpus_folder(name);
        let wanted = name.clone();
        let read = on_files("read the corpus' settings", move || read_settings(&folder)).await?;
        read.ok_or(Error::CorpusNotFound(wanted.clone()))?
            .map_err(|source| damaged(&wanted, source))
    }

    /// All corpora, by name.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if settings of one cannot be read back.
    pub async fn list(&self) -> Result<Vec<CorpusSettings>> {
        let folder = self.folder.clone();
        let mut names = on_files("list the corpora", move || {
            let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name()));
            names.collect::<io::Result<Vec<_>>>()
        })
        .await?;
        names.sort();
        let mut corpora = Vec::new();
        for name in names {
            // Anything that is not a corpus' name is not ours.
            if let Some(Ok(name)) = name.to_str().map(str::parse::<CorpusName>) {
                corpora.push(self.get(&name).await?);
            }
        }
        Ok(corpora)
    }

    /// Deletes a corpus with all that belongs to it. Its shards must be closed before. Once this
    /// has begun, the corpus does not come back, also after a crash.
    ///
    /// # Errors
    /// [`Error::CorpusNotFound`]; [`Error::Unavailable`] from the file system: then the corpus is
    /// there still, or files of it are and are removed when the registry is opened again.
    pub async fn delete(&self, name: &CorpusName) -> Result<()> {
        let folder = self.corpus_folder(name);
        let deleted = self.folder.join(format!("{DELETED}{name}"));
        let was_there = on_files("delete the corpus", move || {
            if !folder.exists() {
                return Ok(false);
            }
            remove_folder(&deleted)?;
            fs::rename(&folder, &deleted)?;
            folder.parent().map_or(Ok(()), durable::sync_folder)?;
            remove_folder(&deleted)?;
            Ok(true)
        })
        .await?;
        if was_there { Ok(()) } else { Err(Error::CorpusNotFound(name.clone())) }
    }

    /// The folder of a shard, to be opened with [`crate::Shard::open`].
    pub fn shard_folder(&self, name: &CorpusName, shard: ShardIndex) -> PathBuf {
        self.corpus_folder(name).join(shard.to_string())
    }

    fn corpus_folder(&self, name: &CorpusName) -> PathBuf {
        self.folder.join(name.as_str())
    }
}

/// `None` if there is no such corpus; an inner error if its settings do not parse.
fn read_settings(
    folder: &Path,
) -> io::Result<Option<std::result::Result<CorpusSettings, crate::error::Cause>>> {
    match fs::read(folder.join(SETTINGS)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(Into::into))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(folder.exists().then(|| Err(error.into())))
        }
        Err(error) => Err(error),
    }
}

fn damaged(name: &CorpusName, source: crate::error::Cause) -> Error {
    Error::Corrupt { what: format!("the settings of corpus `{name}`"), source }
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{Chunking, EncoderIdentity, Timestamp};

    use super::*;

    fn settings(name: &str) -> CorpusSettings {
        CorpusSettings {
            name: name.parse().unwrap(),
            shards: 2,
            chunking: Chunking::Sentences { max_tokens: 100 },
            encoder: EncoderIdentity {
                model: "m".to_owned(),
                revision: "r".to_owned(),
                dimension: 8,
                max_tokens: 256,
            },
            created_at: Timestamp::from_micros(0),
        }
    }

    async fn registry(folder: &Path) -> Registry {
        Registry::open(&Location::try_new(folder.to_str().unwrap()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn corpora_are_made_once_listed_by_name_and_deleted_once() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        for name in ["b", "a"] {
            corpora.create(&settings(name)).await.unwrap();
        }
        assert!(matches!(corpora.create(&settings("a")).await, Err(Error::CorpusExists(_))));
        let reopened = registry(folder.path()).await;
        assert_eq!(reopened.list().await.unwrap(), [settings("a"), settings("b")]);
        let name = "a".parse().unwrap();
        assert_eq!(reopened.get(&name).await.unwrap(), settings("a"));
        reopened.delete(&name).await.unwrap();
        assert!(matches!(reopened.get(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(reopened.delete(&name).await, Err(Error::CorpusNotFound(_))));
        assert_eq!(fs::read_dir(folder.path().join(CORPORA)).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn an_interrupted_deletion_or_creation_is_finished_on_open() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        corpora.create(&settings("a")).await.unwrap();
        let root = folder.path().join(CORPORA);
        fs::rename(root.join("a"), root.join(".deleted-a")).unwrap();
        fs::create_dir(root.join(".new-b")).unwrap();
        let corpora = registry(folder.path()).await;
        assert!(corpora.list().await.unwrap().is_empty());
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn damaged_settings_are_data_loss() {
        let folder = tempfile::tempdir().unwrap();
        let corpora = registry(folder.path()).await;
        corpora.create(&settings("a")).await.unwrap();
        let file = folder.path().join(CORPORA).join("a").join(SETTINGS);
        for damage in [Some("{"), None] {
            match damage {
                Some(text) => fs::write(&file, text).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let error = corpora.list().await.unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        }
    }
}
