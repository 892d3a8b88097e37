//! The retriever: the corpora of one data directory and their shards.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Clock, CorpusName, CorpusSettings, DocumentId, Encoder, Error, ShardIndex, placement,
};
use clew_index::{Counts, Location, Registry};
use tokio::sync::Mutex;

use crate::RetrieverConfig;
use crate::lock::DirectoryLock;
use crate::shard::{ShardHandle, ShardLine};

/// A corpus whose shards run here.
pub struct Corpus {
    settings: Arc<CorpusSettings>,
    shards: Vec<ShardHandle>,
}

impl Corpus {
    /// Its settings.
    pub fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// Its shards, by index.
    pub fn shards(&self) -> &[ShardHandle] {
        &self.shards
    }

    /// The shard a document belongs to.
    pub fn shard_of(&self, document: &DocumentId) -> &ShardHandle {
        let ShardIndex(index) = placement::shard_of(document, self.settings.shards);
        &self.shards[index as usize]
    }

    /// What it holds, over all shards.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] while a shard restarts.
    pub async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut total = Counts::default();
        for shard in &self.shards {
            total += shard.reader(deadline).await?.counts();
        }
        Ok(total)
    }

    async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        let stopped = self.shards.iter().map(|shard| shard.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }
}

/// Owns a data directory and runs the shards of its corpora.
pub struct Retriever {
    registry: Registry,
    encoder: Arc<dyn Encoder>,
    clock: Arc<dyn Clock>,
    config: RetrieverConfig,
    /// Changes of the set of corpora go one at a time; readers never wait for one.
    changing: Mutex<()>,
    corpora: std::sync::RwLock<BTreeMap<CorpusName, Arc<Corpus>>>,
    _lock: DirectoryLock,
}

impl Retriever {
    /// Takes the data directory and starts the shards of its corpora.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::WrongState`] if another process has the directory; [`clew_core::ErrorKind::DataLoss`] if it
    /// is damaged. A single corpus that cannot run does not keep the others from running: its own
    /// calls say why.
    pub async fn start(
        data_dir: &Path,
        encoder: Arc<dyn Encoder>,
        clock: Arc<dyn Clock>,
        config: RetrieverConfig,
    ) -> Result<Self, Error> {
        config.validate()?;
        let location = Location::try_new(&data_dir.to_string_lossy())?;
        let lock = DirectoryLock::acquire(location.path())?;
        let registry = Registry::open(&location).await?;
        let retriever = Self {
            registry,
            encoder,
            clock,
            config,
            changing: Mutex::new(()),
            corpora: std::sync::RwLock::default(),
            _lock: lock,
        };
        for settings in retriever.registry.list().await? {
            let corpus = retriever.run(settings).await?;
            retriever.insert(corpus);
        }
        Ok(retriever)
    }

    /// Makes a corpus and starts its shards.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`]; [`clew_core::ErrorKind::AlreadyExists`]; those of the storage.
    pub async fn create(&self, settings: CorpusSettings) -> Result<Arc<Corpus>, Error> {
        settings.check(&clew_core::Limits::default())?;
        let _one_at_a_time = self.changing.lock().await;
        self.registry.create(&settings).await?;
        let corpus = self.run(settings).await?;
        self.insert(Arc::clone(&corpus));
        Ok(corpus)
    }

    /// The corpus of that name.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::NotFound`].
    pub fn corpus(&self, name: &CorpusName) -> Result<Arc<Corpus>, Error> {
        let corpora = self.corpora.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        corpora.get(name).cloned().ok_or_else(|| Error::not_found("corpus", name))
    }

    /// Up to `limit` corpora whose names come after `after`, by name.
    pub fn list(&self, after: &str, limit: usize) -> Vec<Arc<Corpus>> {
        let corpora = self.corpora.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let following = corpora.iter().filter(|(name, _)| name.as_str() > after);
        following.take(limit).map(|(_, corpus)| Arc::clone(corpus)).collect()
    }

    /// Deletes a corpus: stops its shards and removes its files.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::NotFound`]; those of the storage, after which the deletion is finished at the
    /// next start.
    pub async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let _one_at_a_time = self.changing.lock().await;
        let corpus = self.corpus(name)?;
        let documents = corpus.counts(deadline).await.map_or(0, |counts| counts.accepted);
        if let Ok(mut corpora) = self.corpora.write() {
            corpora.remove(name);
        }
        // Its documents go with it, so a stop that was cut short loses nothing.
        if let Err(error) = corpus.stop(deadline).await {
            tracing::warn!(corpus = %name, error = error.chain(), "stopped in the middle of work");
        }
        self.registry.delete(name).await?;
        Ok(documents)
    }

    /// Stops all shards: what was accepted is finished, the rest stays due.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::DeadlineExceeded`] if a shard had to be cut short; nothing accepted is lost.
    pub async fn stop(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        let corpora = self.list("", usize::MAX);
        let stopped = corpora.iter().map(|corpus| corpus.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }

    fn insert(&self, corpus: Arc<Corpus>) {
        let mut corpora = self.corpora.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        corpora.insert(corpus.settings.name.clone(), corpus);
    }

    async fn run(&self, settings: CorpusSettings) -> Result<Arc<Corpus>, Error> {
        let settings = Arc::new(settings);
        let mut shards = Vec::new();
        for index in (0..settings.shards).map(ShardIndex) {
            let line = ShardLine {
                place: self.registry.shard_place(&settings, index),
                shard: index,
                settings: Arc::clone(&settings),
                encoder: Arc::clone(&self.encoder),
                clock: Arc::clone(&self.clock),
                config: self.config.clone(),
            };
            shards.push(ShardHandle::start(line).await?);
        }
        Ok(Arc::new(Corpus { settings, shards }))
    }
}
