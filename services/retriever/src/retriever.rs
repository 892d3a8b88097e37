//! The retriever: the corpora of one data directory and their shards.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Access, Corpora, Corpus, CorpusName, CorpusSettings, DeletionStep, Error, ErrorKind, Listed,
    Restoration, RestoreStep, ShardIndex, SnapshotDeletion, SnapshotName, SnapshotSummary,
    Unusable,
};
use clew_index::Registry;
use clew_runtime::deadline::within;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::claim::Claim;
use crate::lock::DirectoryLock;
use crate::metrics::SeenCorpora;
use crate::role::Seams;
use crate::shard::{ShardHandle, ShardLine};
use crate::snapshots;
use crate::turns::Turns;
use crate::{RetrieverConfig, Tried};

/// How often it is looked whether a corpus that cannot be used can be again.
const HEAL_INTERVAL: Duration = Duration::from_secs(1);

/// The corpora by name.
#[derive(Default)]
struct Known {
    running: BTreeMap<CorpusName, Arc<Running>>,
    /// Those whose settings cannot be read, and why.
    unusable: BTreeMap<CorpusName, Error>,
}

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
    corpora: std::sync::RwLock<Known>,
    seen: Arc<SeenCorpora>,
    healing: StdMutex<JoinSet<()>>,
    /// Of a folder. Other storage cannot be locked; there the last process that starts has it.
    lock: Option<DirectoryLock>,
}

impl Retriever {
    /// Takes the data directory and starts the shards of its corpora. From a folder, another process
    /// is kept away; on other storage a process that starts later takes the shards over, and this one
    /// refuses from then on.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::WrongState`] if another process has the directory; those of the storage. A single corpus
    /// that cannot be read or cannot run does not keep the others from running: its own calls say why, and it is tried
    /// again.
    pub async fn start(
        Tried { location, .. }: &Tried,
        seams: Seams,
        config: RetrieverConfig,
    ) -> Result<Arc<Self>, Error> {
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
            seen: SeenCorpora::new(),
            healing: StdMutex::default(),
            lock,
        };
        for (name, settings) in retriever.registry.list().await? {
            match settings {
                Ok(settings) => drop(retriever.run(settings).await?),
                Err(error) => retriever.leave_out(name, error.into()),
            }
        }
        retriever.tell();
        let retriever = Arc::new(retriever);
        let healing = heal(Arc::downgrade(&retriever));
        retriever.healing.lock().unwrap_or_else(PoisonError::into_inner).spawn(healing);
        Ok(retriever)
    }

    /// Stops all shards: what was accepted is finished, the rest stays due.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::DeadlineExceeded`] if a shard had to be cut short; nothing accepted is
    /// lost.
    pub async fn stop(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        self.healing.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        let corpora: Vec<_> = self.known().running.values().cloned().collect();
        let stopped = corpora.iter().map(|corpus| corpus.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid map.
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.corpora.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.corpora.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &CorpusName) -> Result<Arc<Running>, Error> {
        let known = self.known();
        known.running.get(name).cloned().ok_or_else(|| match known.unusable.get(name) {
            Some(error) => error.again(),
            None => Error::not_found("corpus", name),
        })
    }

    /// Has a corpus go without shards, whose settings cannot be read.
    fn leave_out(&self, name: CorpusName, error: Error) {
        tracing::error!(corpus = %name, error = error.chain(), "the corpus cannot be used; others go on");
        self.known_mut().unusable.insert(name, error);
    }

    /// Has metrics tell how many can be used.
    fn tell(&self) {
        let known = self.known();
        self.seen.note(known.running.len(), known.unusable.values());
    }

    /// Runs the corpora whose settings can be read again.
    async fn heal(&self) {
        if self.known().unusable.is_empty() {
            return;
        }
        let _one_at_a_time = self.changing.lock().await;
        // Only now, since some may have been restored or made anew meanwhile.
        let unusable: Vec<CorpusName> = self.known().unusable.keys().cloned().collect();
        for name in unusable {
            let healed = match self.registry.get(&name).await {
                Ok(settings) => self.run(settings).await.map(drop),
                Err(error) => Err(error.into()),
            };
            let mut known = self.known_mut();
            match healed {
                Ok(()) => tracing::info!(corpus = %name, "the corpus can be used again"),
                // It was removed.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    known.unusable.remove(&name);
                }
                Err(error) => drop(known.unusable.insert(name, error)),
            }
        }
        self.tell();
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
        self.known_mut().running.insert(name, running);
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
        {
            let mut known = self.known_mut();
            known.unusable.remove(&settings.name);
            known.running.insert(settings.name.clone(), Arc::clone(&running));
        }
        self.tell();
        Ok(running)
    }
}

/// Looks from time to time whether what cannot be used can be again, for as long as the retriever is there.
async fn heal(retriever: Weak<Retriever>) {
    loop {
        tokio::time::sleep(HEAL_INTERVAL).await;
        let Some(retriever) = retriever.upgrade() else { return };
        retriever.heal().await;
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
    ) -> Result<Vec<Listed>, Error> {
        let known = self.known();
        let usable = known.running.values().map(|running| Listed::Usable(running.seen_by(access)));
        let unusable = known.unusable.iter();
        let unusable =
            unusable.map(|(name, error)| Listed::Unusable(Unusable::new(name.clone(), error)));
        let following = usable.chain(unusable).filter(|listed| listed.name().as_str() > after);
        let mut listed: Vec<Listed> = following.collect();
        listed.sort_by(|a, b| a.name().cmp(b.name()));
        listed.truncate(limit);
        Ok(listed)
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
        self.known_mut().running.remove(name);
        self.tell();
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

    async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error> {
        snapshots::delete(&self.seams, deletion, deadline).await
    }

    async fn restore(&self, asked: &Restoration, deadline: Instant) -> Result<RestoreStep, Error> {
        let _one_at_a_time = self.changing.lock().await;
        let step = snapshots::restore(&self.registry, &self.seams, asked, deadline).await?;
        if step.is_done && !self.known().running.contains_key(&asked.corpus) {
            self.run(self.registry.get(&asked.corpus).await?).await?;
        }
        Ok(step)
    }
}
