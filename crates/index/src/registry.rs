//! Which corpora there are, each with its settings in a file.
//!
//! A file and not a table, because settings are few, are hardly ever changed, and should be readable by a
//! person when nothing else is. Any number of processes may use a registry at the same time.

#[cfg(test)]
mod fixture;
mod folder;
mod objects;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use clew_core::{CorpusName, CorpusSettings, ShardIndex};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Cause, Error, Result};
use crate::location::Location;
use crate::place::{self, Place};
use folder::FolderRegistry;
use objects::ObjectRegistry;

const CORPORA: &str = "corpora";

/// The corpora of a data directory.
#[derive(Clone, Debug)]
pub struct Registry(Kind);

/// The name of a corpus, and its settings, unless they cannot be read: as [`Registry::get`].
pub type Registered = (CorpusName, Result<CorpusSettings>);

#[derive(Clone, Debug)]
enum Kind {
    Folder(FolderRegistry),
    Objects(ObjectRegistry),
}

impl Registry {
    /// Opens the registry of a data directory, making it if it is not there, and finishes deletions
    /// that were interrupted.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::DiskFull`] from the storage.
    pub async fn open(location: &Location) -> Result<Self> {
        Self::open_place(&Place::of(location).await?).await
    }

    /// As [`Registry::open`].
    #[doc(hidden)]
    pub async fn open_place(place: &Place) -> Result<Self> {
        Ok(Self(match place.kind() {
            place::Kind::Folder(folder) => Kind::Folder(FolderRegistry::open(folder).await?),
            place::Kind::Objects(objects) => Kind::Objects(ObjectRegistry::open(objects).await?),
        }))
    }

    /// Makes a corpus. The settings are not checked here; see [`CorpusSettings::check`].
    ///
    /// # Errors
    /// [`Error::CorpusExists`], also if another process makes it at the same time;
    /// [`Error::Unavailable`] and [`Error::DiskFull`] from the storage, and then there is no such
    /// corpus, unless the storage does not answer to that question either.
    pub async fn create(&self, settings: &CorpusSettings) -> Result<()> {
        let is_new = match &self.0 {
            Kind::Folder(registry) => registry.create(settings).await?,
            Kind::Objects(registry) => registry.create(settings).await?,
        };
        if is_new { Ok(()) } else { Err(Error::CorpusExists(settings.name.clone())) }
    }

    /// The settings of a corpus.
    ///
    /// # Errors
    /// [`Error::CorpusNotFound`]; [`Error::Corrupt`] if its settings cannot be read back.
    pub async fn get(&self, name: &CorpusName) -> Result<CorpusSettings> {
        let found = match &self.0 {
            Kind::Folder(registry) => registry.get(name).await?,
            Kind::Objects(registry) => registry.get(name).await?,
        };
        found.ok_or_else(|| Error::CorpusNotFound(name.clone()))
    }

    /// Changes the settings of a corpus from `from` to `to`, which may differ in their models: everyone reads the ones
    /// or the others, also after a crash, and of several who change them at the same time one succeeds. Nothing is
    /// changed if they are `to` already.
    ///
    /// # Errors
    /// [`Error::Invalid`] if more than their models differ; [`Error::CorpusNotFound`]; [`Error::CorpusChanged`] if the
    /// settings are neither; [`Error::Unavailable`] and [`Error::DiskFull`] from the storage, and then they may be
    /// either.
    pub async fn change(&self, from: &CorpusSettings, to: &CorpusSettings) -> Result<()> {
        let (encoder, reembedding) = (from.encoder.clone(), from.reembedding.clone());
        if (CorpusSettings { encoder, reembedding, ..to.clone() }) != *from {
            return Err(Error::invalid("to", "expected settings that differ in their models only"));
        }
        let found = match &self.0 {
            Kind::Folder(registry) => registry.change(from, to).await?,
            Kind::Objects(registry) => registry.change(from, to).await?,
        };
        match found {
            Some(found) if found == *to => Ok(()),
            Some(_) => Err(Error::CorpusChanged),
            None => Err(Error::CorpusNotFound(from.name.clone())),
        }
    }

    /// All corpora, by name. Settings of one that cannot be read are that one's matter.
    ///
    /// # Errors
    /// Those of the storage, if it does not tell which there are.
    pub async fn list(&self) -> Result<Vec<Registered>> {
        match &self.0 {
            Kind::Folder(registry) => registry.list().await,
            Kind::Objects(registry) => registry.list().await,
        }
    }

    /// Begins to delete a corpus that other processes use: from now on it is neither listed nor found,
    /// also after a crash, so that its owners close its shards. [`Registry::delete`] ends it.
    ///
    /// # Errors
    /// [`Error::CorpusNotFound`]; [`Error::Unavailable`] and [`Error::DiskFull`] from the storage.
    pub async fn retire(&self, name: &CorpusName) -> Result<()> {
        let was_there = match &self.0 {
            Kind::Folder(registry) => registry.retire(name).await?,
            Kind::Objects(registry) => registry.retire(name).await?,
        };
        if was_there { Ok(()) } else { Err(Error::CorpusNotFound(name.clone())) }
    }

    /// Whether a corpus was retired and is not deleted yet.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn is_retired(&self, name: &CorpusName) -> Result<bool> {
        match &self.0 {
            Kind::Folder(registry) => registry.is_retired(name).await,
            Kind::Objects(registry) => registry.is_retired(name).await,
        }
    }

    /// Corpora that were retired and are not deleted yet, and whose settings can be read, with how long ago that was.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn retired(&self) -> Result<Vec<(CorpusSettings, Duration)>> {
        match &self.0 {
            Kind::Folder(registry) => registry.retired().await,
            Kind::Objects(registry) => registry.retired().await,
        }
    }

    /// Deletes a corpus with all that belongs to it. Its shards must be closed before, everywhere.
    /// Once this has begun, the corpus does not come back, also after a crash.
    ///
    /// # Errors
    /// [`Error::CorpusNotFound`], also if another process deletes it at the same time;
    /// [`Error::Unavailable`] from the storage: then the corpus is there still, or files of it
    /// are and are removed when the registry is opened again.
    pub async fn delete(&self, name: &CorpusName) -> Result<()> {
        let was_there = match &self.0 {
            Kind::Folder(registry) => registry.delete(name).await?,
            Kind::Objects(registry) => registry.delete(name).await?,
        };
        if was_there { Ok(()) } else { Err(Error::CorpusNotFound(name.clone())) }
    }

    /// Begins to restore a corpus out of the snapshot of that digest, or finds it begun: then its settings
    /// are those from then. Returns them and where its shards are to lie; `None` if there is a corpus of
    /// that name.
    pub(crate) async fn begin_restore(
        &self,
        settings: &CorpusSettings,
        digest: &str,
    ) -> Result<Option<(CorpusSettings, Place)>> {
        match &self.0 {
            Kind::Folder(registry) => registry.begin_restore(settings, digest).await,
            Kind::Objects(registry) => registry.begin_restore(settings, digest).await,
        }
    }

    /// Ends a restoring: from now on there is the corpus. Returns whether that is so; `false` if there is
    /// another of that name, or another snapshot is being restored to it.
    pub(crate) async fn finish_restore(
        &self,
        settings: &CorpusSettings,
        digest: &str,
    ) -> Result<bool> {
        match &self.0 {
            Kind::Folder(registry) => registry.finish_restore(&settings.name, digest).await,
            Kind::Objects(registry) => registry.finish_restore(settings, digest).await,
        }
    }

    /// Where a shard lies, to be opened with [`crate::Shard::open`].
    pub fn shard_place(&self, corpus: &CorpusSettings, shard: ShardIndex) -> Place {
        match &self.0 {
            Kind::Folder(registry) => registry.corpus_place(&corpus.name),
            Kind::Objects(registry) => registry.corpus_place(corpus),
        }
        .join(&shard.to_string())
    }
}

/// The newest version of what is written of a corpus. Raise it with every change that a release which does not know it
/// would misread.
pub(crate) const FORMAT: u32 = 3;
/// What the first releases wrote, which had no versions yet.
const FIRST_FORMAT: u32 = 1;
/// What corpora have that moved to another model, and say nothing of conversations.
const MOVED_FORMAT: u32 = 2;
const FORMAT_KEY: &str = "format";

/// Formats beyond [`FORMAT`] that this process knows, and writes.
#[cfg(debug_assertions)]
static AHEAD: AtomicU32 = AtomicU32::new(0);

/// Has this process act as the next release, which raised the format and writes every corpus in it: what tests of
/// upgrades run beside a process that does not. Programs that are built for use have no such thing.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub fn act_as_next_release() {
    AHEAD.store(1, Ordering::Relaxed);
}

#[cfg(debug_assertions)]
fn ahead() -> u32 {
    AHEAD.load(Ordering::Relaxed)
}

#[cfg(not(debug_assertions))]
const fn ahead() -> u32 {
    0
}

/// The newest version that this process knows.
fn newest_format() -> u32 {
    FORMAT + ahead()
}

/// What a corpus written by a newer release has.
#[derive(Debug, thiserror::Error)]
#[error("it has format {found}, and this release knows none beyond {}", newest_format())]
struct Newer {
    found: u32,
}

/// The version that settings are written in: the oldest that says it all. A release of the first one would search a
/// corpus that moved to another model for the vectors of a model that made none; one of the second would look for
/// turns of conversations by other keys than they have, and lose how they are recalled when it writes settings.
pub(crate) fn format_of(settings: &CorpusSettings) -> u32 {
    match (&settings.chat, &settings.reembedding) {
        (Some(_), _) => FORMAT,
        (None, Some(_)) => MOVED_FORMAT,
        (None, None) => FIRST_FORMAT,
    }
}

/// What is written of the corpus of these settings, with the version of that.
fn to_json<T: Serialize>(written: &T, settings: &CorpusSettings) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_value(written)?;
    let format = if ahead() > 0 { newest_format() } else { format_of(settings) };
    json[FORMAT_KEY] = format.into();
    serde_json::to_vec_pretty(&json)
}

/// Reads what is written of a corpus; its version first, which decides what else there may be. The first
/// releases wrote none.
fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, Cause> {
    let json: serde_json::Value = serde_json::from_slice(bytes)?;
    let found =
        json.get(FORMAT_KEY).map_or(Some(u64::from(FIRST_FORMAT)), serde_json::Value::as_u64);
    let found = found.and_then(|found| u32::try_from(found).ok()).unwrap_or(u32::MAX);
    if found > newest_format() {
        return Err(Newer { found }.into());
    }
    Ok(serde_json::from_value(json)?)
}

fn damaged(name: &CorpusName, source: Cause) -> Error {
    if let Some(Newer { found }) = source.downcast_ref() {
        let what = format!("corpus `{name}`");
        return Error::NewerFormat { what, found: *found, known: newest_format() };
    }
    Error::Corrupt { what: format!("the settings of corpus `{name}`"), source }
}

/// A text that is no other's.
pub(crate) fn unique() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos());
    // Processes in containers have the same number everywhere. A new state is hashed with random keys.
    let random = RandomState::new().build_hasher().finish();
    format!("{}-{nanos}-{random:x}", process::id())
}
