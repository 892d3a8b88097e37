//! The retriever: the corpora of one data directory and their shards.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Access, Corpora, Corpus, CorpusName, CorpusSettings, Error, Restoration, RestoreStep,
    ShardIndex, SnapshotName, SnapshotSummary,
};
use clew_index::Registry;
use clew_runtime::deadline::within;
use tokio::sync::Mutex;

use crate::claim::Claim;
use crate::lock::DirectoryLock;
use crate::role::Seams;
use crate::shard::{ShardHandle, ShardLine};
use crate::snapshots;
use crate::turns::Turns;
use crate::{RetrieverConfig, Tried};

/// A corpus whose shards run here.
struct Running {
    settings: Arc<CorpusSettings>,
    shards: Vec<ShardHandle>,
}

impl Running {
    /// The corpus, as far as a caller sees it.
    fn seen_by(&self, access: &Access) -> Arc<Corpus> {
        let seen = |shard: &ShardHandle| {
            Arc::new(shard.seen_by(access.clone())) as Arc<dyn clew_core::Shard>
        };
        let shards = self.shards.iter().map(seen).collect();
        Arc::new(Corpus::new(Arc::clone(&self.settings), shards))
    }

    async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        let stopped = self.shards.iter().map(|shard| shard.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }
}

/// Owns a data directory and runs the shards of its corpora.
pub struct Retriever {
    registry: Registry,
    seams: Seams,
    config: RetrieverConfig,
    turns: Turns,
    /// Changes of the set of corpora go one at a time; readers never wait for one.
    changing: Mutex<()>,
    corpora: std::sync::RwLock<BTreeMap<CorpusName, Arc<Running>>>,
    /// Of a folder. Other storage cannot be locked; there the last process that starts has it.
    lock: Option<DirectoryLock>,
}

impl Retriever {
    /// Takes the data directory and starts the shards of its corpora. From a folder, another process
    /// is kept away; on other storage a process that starts later takes the shards over, and this one
    /// refuses from then on.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::WrongState`] if another process has the directory; [`clew_core::ErrorKind::DataLoss`] if it
    /// is damaged. A single corpus that cannot run does not keep the others from running: its own
    /// calls say why.
    pub async fn start(
        Tried { location, .. }: &Tried,
        seams: Seams,
        config: RetrieverConfig,
    ) -> Result<Self, Error> {
        config.validate()?;
        let lock = location.folder().map(DirectoryLock::acquire).transpose()?;
        let registry = Registry::open(location).await?;
        let retriever = Self {
            registry,
            seams,
            turns: config.turns(),
            config,
            changing: Mutex::new(()),
            corpora: std::sync::RwLock::default(),
            lock,
        };
        for settings in retriever.registry.list().await? {
            retriever.run(settings).await?;
        }
        Ok(retriever)
    }

    /// Stops all shards: what was accepted is finished, the rest stays due.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::DeadlineExceeded`] if a shard had to be cut short; nothing accepted is
    /// lost.
    pub async fn stop(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        let corpora: Vec<_> = self.running().values().cloned().collect();
        let stopped = corpora.iter().map(|corpus| corpus.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid map.
    fn running(&self) -> RwLockReadGuard<'_, BTreeMap<CorpusName, Arc<Running>>> {
        self.corpora.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn running_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<CorpusName, Arc<Running>>> {
        self.corpora.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &CorpusName) -> Result<Arc<Running>, Error> {
        self.running().get(name).cloned().ok_or_else(|| Error::not_found("corpus", name))
    }

    /// By what right the next shard runs here.
    fn claim(&self) -> Claim {
        match &self.lock {
            Some(_) => Claim::Directory,
            None => Claim::of_taker(format!("process {}", std::process::id())),
        }
    }

    /// Has a corpus go on with the settings that are registered.
    async fn settle(&self, running: &Running) -> Result<(), Error> {
        let settings = Arc::new(self.registry.get(&running.settings.name).await?);
        // A corpus that was made anew is another one, of which these are no shards.
        let is_the_same = settings.created_at == running.settings.created_at;
        if !is_the_same || settings == running.settings {
            return Ok(());
        }
        for shard in &running.shards {
            shard.settle(Arc::clone(&settings));
        }
        let name = settings.name.clone();
        let running = Arc::new(Running { settings, shards: running.shards.clone() });
        self.running_mut().insert(name, running);
        Ok(())
    }

    async fn run(&self, settings: CorpusSettings) -> Result<Arc<Running>, Error> {
        let settings = Arc::new(settings);
        let mut shards = Vec::new();
        for index in (0..settings.shards).map(ShardIndex) {
            let line = ShardLine::new(
                self.registry.shard_place(&settings, index),
                index,
                Arc::clone(&settings),
                self.seams.clone(),
                self.config.clone(),
                self.claim(),
                self.turns.clone(),
            );
            shards.push(ShardHandle::start(line).await?);
        }
        let running = Arc::new(Running { settings: Arc::clone(&settings), shards });
        self.running_mut().insert(settings.name.clone(), Arc::clone(&running));
        Ok(running)
    }
}

#[async_trait]
impl Corpora for Retriever {
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        settings.check(&clew_core::Limits::default())?;
        let _one_at_a_time = self.changing.lock().await;
        self.registry.create(&settings).await?;
        Ok(self.run(settings).await?.seen_by(access))
    }

    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        Ok(self.find(name)?.seen_by(access))
    }

    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Vec<Arc<Corpus>>, Error> {
        let corpora = self.running();
        let following = corpora.iter().filter(|(name, _)| name.as_str() > after);
        Ok(following.take(limit).map(|(_, running)| running.seen_by(access)).collect())
    }

    async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error> {
        let changing = async {
            let _one_at_a_time = self.changing.lock().await;
            let running = self.find(&from.name)?;
            let changed = self.registry.change(from, to).await;
            // Also after a refusal: an earlier caller may have left before the shards were told.
            self.settle(&running).await?;
            Ok(changed?)
        };
        within(deadline, "changing the corpus", changing).await
    }

    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let _one_at_a_time = self.changing.lock().await;
        let running = self.find(name)?;
        let corpus = running.seen_by(&Access::all());
        let documents = corpus.counts(deadline).await.map_or(0, |counts| counts.accepted);
        self.running_mut().remove(name);
        // Its documents go with it, so a stop that was cut short loses nothing.
        if let Err(error) = running.stop(deadline).await {
            tracing::warn!(corpus = %name, error = error.chain(), "stopped in the middle of work");
        }
        self.registry.delete(name).await?;
        Ok(documents)
    }

    async fn finish_snapshot(
        &self,
        corpus: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error> {
        let Self { registry, seams, .. } = self;
        snapshots::finish(registry, seams, corpus, snapshot, &digests, deadline).await
    }

    async fn snapshots(
        &self,
        corpus: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error> {
        snapshots::list(&self.seams, corpus, deadline).await
    }

    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error> {
        let _one_at_a_time = self.changing.lock().await;
        let step = snapshots::restore(&self.registry, &self.seams, asked, deadline).await?;
        if step.is_done && !self.running().contains_key(&asked.corpus) {
            self.run(self.registry.get(&asked.corpus).await?).await?;
        }
        Ok(step)
    }
}
