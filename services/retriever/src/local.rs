//! The retriever of a single process: the corpora of a data directory and their shards.

mod lock;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Access, Corpora, Corpus, CorpusEntry, CorpusName, CorpusSettings, DeletionStep, Error,
    ErrorKind, IngestRun, PartReport, Restoration, RestoreStep, RunName, RunPage, RunPart,
    RunPlace, ShardIndex, SnapshotDeletion, SnapshotName, SnapshotSummary, Unusable,
};
use clew_index::Registry;
use clew_runtime::deadline::within;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::leftovers::remove_leftovers;
use crate::local::lock::DirectoryLock;
use crate::seams::ShardSeams;
use crate::shard::claim::Claim;
use crate::shard::keeper::Keeper;
use crate::shard::metrics::CorporaGauges;
use crate::shard::resources::Resources;
use crate::shard::{ShardHandle, ShardLine};
use crate::{RetrieverConfig, Tried, runs, snapshots};

/// Interval between looks at which shards may rest and which unusable corpora have become usable.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Corpora by name.
#[derive(Default)]
struct Known {
    running: BTreeMap<CorpusName, Arc<Running>>,
    /// Corpora whose settings cannot be read, and the reason.
    unusable: BTreeMap<CorpusName, Error>,
}

/// A corpus whose shards run here.
struct Running {
    settings: Arc<CorpusSettings>,
    shards: Vec<ShardHandle>,
}

impl Running {
    /// Returns the corpus as the caller's access shows it.
    fn with_access(&self, access: &Access) -> Arc<Corpus> {
        let seen = |shard: &ShardHandle| {
            Arc::new(shard.with_access(access.clone())) as Arc<dyn clew_core::Shard>
        };
        let shards = self.shards.iter().map(seen).collect();
        Arc::new(Corpus::new(Arc::clone(&self.settings), shards))
    }

    async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        let stopped = self.shards.iter().map(|shard| shard.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }
}

/// Owner of a data directory, which runs the shards of its corpora.
pub struct LocalRetriever {
    registry: Registry,
    seams: ShardSeams,
    config: RetrieverConfig,
    resources: Resources,
    /// Held while the set of corpora or the settings of one change. Readers never wait for it.
    changing: Mutex<()>,
    corpora: std::sync::RwLock<Known>,
    seen: Arc<CorporaGauges>,
    looking: StdMutex<JoinSet<()>>,
    /// Lock of a folder. Other storage cannot be locked; there the process that starts last owns
    /// the shards.
    lock: Option<DirectoryLock>,
}

impl LocalRetriever {
    /// Takes the data directory. The shards of its corpora open when they are needed. The lock on a
    /// folder keeps other processes out. On other storage, a process that starts later takes the
    /// shards over, and this one refuses requests from then on.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid,
    /// [`clew_core::ErrorKind::WrongState`] if another process holds the directory, and storage
    /// errors. A single corpus that cannot be read or cannot run does not stop the others: requests
    /// to it fail with the reason, and it is tried again.
    pub async fn start(
        Tried { location, .. }: &Tried,
        seams: ShardSeams,
        config: RetrieverConfig,
    ) -> Result<Arc<Self>, Error> {
        config.validate()?;
        let lock = location.folder().map(DirectoryLock::acquire).transpose()?;
        let registry = Registry::open(location).await?;
        let retriever = Self {
            registry,
            seams,
            resources: config.resources(),
            config,
            changing: Mutex::new(()),
            corpora: std::sync::RwLock::default(),
            seen: CorporaGauges::new(),
            looking: StdMutex::default(),
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
        {
            let mut looking = retriever.looking.lock().unwrap_or_else(PoisonError::into_inner);
            looking.spawn(look_after(Arc::downgrade(&retriever)));
            looking.spawn(remove_leftovers(retriever.registry.clone()));
        }
        Ok(retriever)
    }

    /// Stops all shards. Accepted documents are committed; what is not derived stays due.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::DeadlineExceeded`] if a shard had to be cut short. Nothing
    /// accepted is lost.
    pub async fn stop(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        self.looking.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        let corpora: Vec<_> = self.known().running.values().cloned().collect();
        let stopped = corpora.iter().map(|corpus| corpus.stop(deadline));
        futures::future::join_all(stopped).await.into_iter().collect()
    }

    // No code that can panic runs under the lock, so a poisoned one still holds a valid map.
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

    /// Leaves out a corpus whose settings cannot be read.
    fn leave_out(&self, name: CorpusName, error: Error) {
        tracing::error!(corpus = %name, error = error.chain(), "the corpus cannot be used; others go on");
        self.known_mut().unusable.insert(name, error);
    }

    /// Updates the numbers of usable and unusable corpora in the metrics.
    fn tell(&self) {
        let known = self.known();
        self.seen.note(known.running.len(), known.unusable.values());
    }

    /// Starts the corpora whose settings have become readable.
    async fn heal(&self) {
        if self.known().unusable.is_empty() {
            return;
        }
        let _one_at_a_time = self.changing.lock().await;
        // Read under the lock, because some may have been restored or created again meanwhile.
        let unusable: Vec<CorpusName> = self.known().unusable.keys().cloned().collect();
        for name in unusable {
            let healed = match self.registry.get(&name).await {
                Ok(settings) => self.run(settings).await.map(drop),
                Err(error) => Err(error.into()),
            };
            let mut known = self.known_mut();
            match healed {
                Ok(()) => tracing::info!(corpus = %name, "the corpus can be used again"),
                // The corpus was deleted.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    known.unusable.remove(&name);
                }
                Err(error) => drop(known.unusable.insert(name, error)),
            }
        }
        self.tell();
    }

    /// Returns a claim for the next shard.
    fn claim(&self) -> Claim {
        match &self.lock {
            Some(_) => Claim::Directory,
            None => Claim::of_taker(format!("process {}", std::process::id())),
        }
    }

    /// Applies the registered settings to a running corpus.
    async fn settle(&self, running: &Running) -> Result<(), Error> {
        let settings = Arc::new(self.registry.get(&running.settings.name).await?);
        // A corpus that was created again is another one, to which these shards do not belong.
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
                self.resources.clone(),
            );
            shards.push(ShardHandle::resting(line).await?);
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

/// Regularly looks after the shards and the unusable corpora, for as long as the retriever exists.
async fn look_after(retriever: Weak<LocalRetriever>) {
    let mut keeper = None;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(retriever) = retriever.upgrade() else { return };
        let keeper = keeper.get_or_insert_with(|| Keeper::new(&retriever.config));
        let running: Vec<_> = retriever.known().running.values().cloned().collect();
        let shards = running.iter().flat_map(|corpus| &corpus.shards);
        keeper.tend(shards, retriever.seams.clock.as_ref());
        retriever.heal().await;
    }
}

#[async_trait]
impl Corpora for LocalRetriever {
    async fn create(
        &self,
        settings: CorpusSettings,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        settings.check(&clew_core::Limits::default())?;
        let _one_at_a_time = self.changing.lock().await;
        self.registry.create(&settings).await?;
        Ok(self.run(settings).await?.with_access(access))
    }

    async fn get(
        &self,
        name: &CorpusName,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        Ok(self.find(name)?.with_access(access))
    }

    async fn list(
        &self,
        after: &str,
        limit: usize,
        access: &Access,
        _deadline: Instant,
    ) -> Result<Vec<CorpusEntry>, Error> {
        let known = self.known();
        let usable =
            known.running.values().map(|running| CorpusEntry::Usable(running.with_access(access)));
        let unusable = known.unusable.iter();
        let unusable =
            unusable.map(|(name, error)| CorpusEntry::Unusable(Unusable::new(name.clone(), error)));
        let following = usable.chain(unusable).filter(|listed| listed.name().as_str() > after);
        let mut listed: Vec<CorpusEntry> = following.collect();
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
            // Settle even after a refusal: an earlier caller may have left before the shards had
            // the settings.
            self.settle(&running).await?;
            Ok(changed?)
        };
        within(deadline, "changing the corpus", changing).await
    }

    async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let _one_at_a_time = self.changing.lock().await;
        let running = self.find(name)?;
        let corpus = running.with_access(&Access::all());
        let documents = corpus.counts(deadline).await.map_or(0, |counts| counts.accepted);
        self.known_mut().running.remove(name);
        self.tell();
        // The documents are deleted anyway, so a stop that was cut short loses nothing.
        if let Err(error) = running.stop(deadline).await {
            tracing::warn!(corpus = %name, error = error.chain(), "stopped in the middle of work");
        }
        if let Err(error) = self.registry.delete(name).await.map_err(Error::from) {
            if error.kind() != ErrorKind::NotFound {
                // The corpus may still exist. Then it is started again soon.
                self.leave_out(name.clone(), error.again());
                self.tell();
            }
            return Err(error);
        }
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

    async fn report_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
        deadline: Instant,
    ) -> Result<RunPart, Error> {
        runs::report(&self.registry, &self.seams, corpus, run, parts, report, deadline).await
    }

    async fn run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<IngestRun, Error> {
        runs::get(&self.registry, corpus, run, deadline).await
    }

    async fn runs(
        &self,
        corpus: &CorpusName,
        after: Option<&RunPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<RunPage, Error> {
        runs::list(&self.registry, corpus, after, limit, deadline).await
    }

    async fn delete_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<(), Error> {
        runs::delete(&self.registry, corpus, run, deadline).await
    }
}
