//! Registry of the corpora of a data directory, each with its settings in a file.
//!
//! The settings are in a file and not in a table because they are few, hardly ever change, and
//! should be readable by a person when nothing else is. Any number of processes may use a registry
//! at the same time.

#[cfg(test)]
mod fixture;
mod folder;
pub(crate) mod format;
mod objects;
pub(crate) mod runs;

use clew_core::{
    CorpusName, CorpusSettings, IngestRun, PartReport, RunName, RunPage, RunPlace, ShardIndex,
    Timestamp,
};

use crate::error::{Error, Result};
use crate::registry::folder::FolderRegistry;
use crate::registry::format::{Listed, Registered};
use crate::registry::objects::ObjectRegistry;
use crate::registry::runs::{Reported, Runs};
use crate::storage::url::StorageUrl;
use crate::storage::{self, Storage};

/// Corpora of a data directory.
#[derive(Clone, Debug)]
pub struct Registry(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Folder(FolderRegistry),
    Objects(ObjectRegistry),
}

impl Registry {
    /// Opens the registry of a data directory. A folder is created if it does not exist, and
    /// deletions that were interrupted there are finished.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] and [`Error::DiskFull`] from the storage.
    pub async fn open(location: &StorageUrl) -> Result<Self> {
        Self::open_place(&Storage::of(location).await?).await
    }

    /// Opens the registry in a place; see [`Registry::open`].
    #[doc(hidden)]
    pub async fn open_place(place: &Storage) -> Result<Self> {
        Ok(Self(match place.kind() {
            storage::Kind::Folder(folder) => Kind::Folder(FolderRegistry::open(folder).await?),
            storage::Kind::Objects(objects) => Kind::Objects(ObjectRegistry::new(objects)),
        }))
    }

    /// Removes from a bucket what deletions that were interrupted and late writers left of deleted
    /// corpora. It takes two requests for each corpus, one after the other, so that those who serve
    /// do it in the background. A folder has no such leftovers once it is open.
    ///
    /// # Errors
    /// Returns a storage error. What is left then is removed by the next call.
    pub async fn remove_leftovers(&self) -> Result<()> {
        match &self.0 {
            Kind::Folder(_) => Ok(()),
            Kind::Objects(registry) => registry.remove_leftovers().await,
        }
    }

    /// Creates a corpus. Does not check the settings; see [`CorpusSettings::check`].
    ///
    /// # Errors
    /// Returns [`Error::CorpusExists`] if the corpus exists, also if another process creates it at
    /// the same time. Returns [`Error::Unavailable`] and [`Error::DiskFull`] from the storage. The
    /// corpus does not exist then, unless the storage failed to answer that question as well.
    pub async fn create(&self, settings: &CorpusSettings) -> Result<()> {
        let is_new = match &self.0 {
            Kind::Folder(registry) => registry.create(settings).await?,
            Kind::Objects(registry) => registry.create(settings).await?,
        };
        if is_new { Ok(()) } else { Err(Error::CorpusExists(settings.name.clone())) }
    }

    /// Returns the settings of a corpus.
    ///
    /// # Errors
    /// Returns [`Error::CorpusNotFound`] if the corpus does not exist, [`Error::NewerFormat`] if a
    /// newer release wrote its settings, and [`Error::Corrupt`] if they cannot be read back.
    pub async fn get(&self, name: &CorpusName) -> Result<CorpusSettings> {
        let found = match &self.0 {
            Kind::Folder(registry) => registry.get(name).await?,
            Kind::Objects(registry) => registry.get(name).await?,
        };
        found.ok_or_else(|| Error::CorpusNotFound(name.clone()))
    }

    /// Changes the settings of a corpus from `from` to `to`, which may differ only in their models.
    /// Every reader sees either the old or the new settings, also after a crash. If several callers
    /// change them at the same time, one succeeds. Changes nothing if the settings are `to`
    /// already.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if more than the models differ, [`Error::CorpusNotFound`] if the
    /// corpus does not exist, and [`Error::CorpusChanged`] if the settings are neither `from` nor
    /// `to`. Returns [`Error::Unavailable`] and [`Error::DiskFull`] from the storage; the settings
    /// may be either then.
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

    /// Returns all corpora, by name. If the settings of one cannot be read, only its own entry is
    /// an error.
    ///
    /// # Errors
    /// Returns a storage error if the corpora cannot be listed.
    pub async fn list(&self) -> Result<Vec<Registered>> {
        match &self.0 {
            // The folder has no one listing that tells of both.
            Kind::Folder(registry) => registry.list().await,
            Kind::Objects(registry) => Ok(registry.list_all().await?.corpora),
        }
    }

    /// Returns all corpora, and those that were retired and are not deleted yet. A bucket is listed
    /// once, and only settings that have changed since the last time are read.
    ///
    /// # Errors
    /// Returns a storage error if the corpora cannot be listed.
    pub async fn list_all(&self) -> Result<Listed> {
        match &self.0 {
            Kind::Folder(registry) => {
                let (corpora, retired) = (registry.list().await?, registry.retired().await?);
                Ok(Listed { corpora, retired })
            }
            Kind::Objects(registry) => registry.list_all().await,
        }
    }

    /// Begins to delete a corpus that other processes use. From now on it is neither listed nor
    /// found, also after a crash, so its owners close its shards. [`Registry::delete`] completes
    /// the deletion.
    ///
    /// # Errors
    /// Returns [`Error::CorpusNotFound`] if the corpus does not exist, and [`Error::Unavailable`]
    /// and [`Error::DiskFull`] from the storage.
    pub async fn retire(&self, name: &CorpusName) -> Result<()> {
        let was_there = match &self.0 {
            Kind::Folder(registry) => registry.retire(name).await?,
            Kind::Objects(registry) => registry.retire(name).await?,
        };
        if was_there { Ok(()) } else { Err(Error::CorpusNotFound(name.clone())) }
    }

    /// Returns whether a corpus was retired and is not deleted yet.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn is_retired(&self, name: &CorpusName) -> Result<bool> {
        match &self.0 {
            Kind::Folder(registry) => registry.is_retired(name).await,
            Kind::Objects(registry) => registry.is_retired(name).await,
        }
    }

    /// Deletes a corpus with everything that belongs to it. Its shards must be closed before, on
    /// all nodes. Once this has begun, the corpus does not come back, also after a crash.
    ///
    /// # Errors
    /// Returns [`Error::CorpusNotFound`] if the corpus does not exist, also if another process
    /// deletes it at the same time. Returns [`Error::Unavailable`] from the storage. Then the
    /// corpus still exists, or files of it are left, which are removed when the registry is opened
    /// again.
    pub async fn delete(&self, name: &CorpusName) -> Result<()> {
        let was_there = match &self.0 {
            Kind::Folder(registry) => registry.delete(name).await?,
            Kind::Objects(registry) => registry.delete(name).await?,
        };
        if was_there { Ok(()) } else { Err(Error::CorpusNotFound(name.clone())) }
    }

    /// Begins to restore a corpus from the snapshot with that digest, or continues if this was
    /// begun; the settings are then those of the beginning. Returns the settings and the place for
    /// its shards, or `None` if a corpus of that name exists.
    pub(crate) async fn begin_restore(
        &self,
        settings: &CorpusSettings,
        digest: &str,
    ) -> Result<Option<(CorpusSettings, Storage)>> {
        match &self.0 {
            Kind::Folder(registry) => registry.begin_restore(settings, digest).await,
            Kind::Objects(registry) => registry.begin_restore(settings, digest).await,
        }
    }

    /// Completes a restore: from now on the corpus exists. Returns whether it does, and `false` if
    /// another corpus of that name exists or another snapshot is being restored to it.
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

    /// Returns the place of a shard, to be opened with [`crate::ShardWriter::open`].
    pub fn shard_place(&self, corpus: &CorpusSettings, shard: ShardIndex) -> Storage {
        self.corpus_place(corpus).join(&shard.to_string())
    }

    fn corpus_place(&self, corpus: &CorpusSettings) -> Storage {
        match &self.0 {
            Kind::Folder(registry) => registry.corpus_place(&corpus.name),
            Kind::Objects(registry) => registry.corpus_place(corpus),
        }
    }

    /// Keeps what a part of a run of ingestion has done so far, and returns what that changed. The
    /// first report of a run creates it, in place of the oldest run that has ended if there are a
    /// thousand. Does not check the report; see [`PartReport::check`].
    ///
    /// # Errors
    /// Returns the errors of [`Registry::get`], [`Error::RunDiffers`] if the run has another number
    /// of parts, [`Error::RunsFull`] if none of a thousand runs has ended, and [`Error::Corrupt`]
    /// or [`Error::NewerFormat`] if the run cannot be read. Returns [`Error::Unavailable`] and
    /// [`Error::DiskFull`] from the storage; the report may be kept then.
    pub async fn report_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
        now: Timestamp,
    ) -> Result<Reported> {
        self.runs_of(corpus).await?.report(run, parts, report, now).await
    }

    /// Returns a run of ingestion.
    ///
    /// # Errors
    /// Returns the errors of [`Registry::get`], [`Error::RunNotFound`] if there is no such run, and
    /// [`Error::Corrupt`] or [`Error::NewerFormat`] if a file of it cannot be read.
    pub async fn run(&self, corpus: &CorpusName, run: &RunName) -> Result<IngestRun> {
        self.runs_of(corpus).await?.read(run).await
    }

    /// Returns up to `limit` runs that come after a place in the list, the newest first; fewer if
    /// they have many parts. A run that cannot be read is named with the reason. Reads a small file
    /// for each run of the corpus and each part of the page.
    ///
    /// # Errors
    /// Returns the errors of [`Registry::get`], and a storage error if the runs cannot be listed.
    pub async fn runs(
        &self,
        corpus: &CorpusName,
        after: Option<&RunPlace>,
        limit: usize,
    ) -> Result<RunPage> {
        self.runs_of(corpus).await?.list(after, limit).await
    }

    /// Deletes what is kept of a run, whether it can be read or not.
    ///
    /// # Errors
    /// Returns the errors of [`Registry::get`], [`Error::RunNotFound`] if there is no such run, and
    /// [`Error::Unavailable`] from the storage. Call it again then.
    pub async fn delete_run(&self, corpus: &CorpusName, run: &RunName) -> Result<()> {
        self.runs_of(corpus).await?.delete(run).await
    }

    async fn runs_of(&self, corpus: &CorpusName) -> Result<Runs> {
        let settings = self.get(corpus).await?;
        Ok(Runs::of(corpus, &self.corpus_place(&settings)))
    }
}
