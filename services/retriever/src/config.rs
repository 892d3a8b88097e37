//! Configuration sections `storage` and `retriever`.

use std::time::Duration;

use clew_cluster::RedisHealth;
use clew_core::{CorpusSettings, Error, ErrorKind, Unusable, Violations};
use clew_index::{
    IndexMemory, ObjectStoreSettings, Probed, Registry, SearchMemory, Snapshots, StorageUrl,
    TextMemory, VectorMemory,
};
use clew_runtime::fair_queue::{FairQueue, two_per_core};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shard::resources::Resources;

/// Section `storage`: access to the data directory and to snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// Access to S3-compatible storage, for a data directory `s3://bucket/prefix` and for snapshots
    /// there. Values that are not set come from the environment, as in other tools:
    /// `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, and the identities that a cloud gives its machines and pods.
    pub s3: ObjectStoreSettings,
    /// Folder, or `s3://bucket/prefix`, for snapshots of corpora; also `--snapshots` for a data
    /// directory that a command opens itself. It must be outside the data directory, preferably on
    /// another disk or in another bucket, and the same for all retrievers. `storage.s3` applies to
    /// it too. Without it, snapshots cannot be taken or restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<String>,
    /// Maximum difference, in milliseconds, between this machine's clock and those of the storage
    /// and of Redis, 100 to 600,000. If it is exceeded, nothing is served. A larger value delays
    /// the removal of a deleted corpus' files in a cluster without Redis, and with it the time at
    /// which another node can create the corpus again.
    pub max_clock_skew_ms: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        let s3 = ObjectStoreSettings::default();
        Self { s3, snapshots: None, max_clock_skew_ms: 5000 }
    }
}

/// A data directory that passed [`StorageConfig::try_out`], and the place of snapshots beside it.
#[derive(Clone, Debug)]
pub struct Tried {
    pub(crate) location: StorageUrl,
    pub(crate) max_clock_skew: Duration,
    snapshots: Option<Snapshots>,
}

impl Tried {
    /// Returns the place of snapshots, if one is configured.
    pub fn snapshots(&self) -> Option<Snapshots> {
        self.snapshots.clone()
    }
}

impl StorageConfig {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the invalid key.
    pub fn validate(&self) -> Result<(), Error> {
        if (100..=600_000).contains(&self.max_clock_skew_ms) {
            return Ok(());
        }
        let problem = format!("expected 100 to 600000, got {}", self.max_clock_skew_ms);
        Err(Error::invalid("storage.max_clock_skew_ms", problem))
    }

    /// Tests a data directory before anything is served from it, and opens the place of snapshots.
    /// The test leaves nothing behind.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the key, if a value is invalid.
    /// Returns [`clew_core::ErrorKind::WrongState`] if the storage is unfit. Returns storage errors
    /// if the storage does not answer. Returns the errors of [`Self::snapshots`].
    pub async fn try_out(&self, data_dir: &str) -> Result<Tried, Error> {
        self.validate()?;
        let location = self.location(data_dir)?;
        match Box::pin(location.probe()).await {
            Ok(probed) => self.check(data_dir, &probed)?,
            // A full disk cannot be tested, but what it holds can be searched.
            Err(error @ clew_index::Error::DiskFull { .. }) => {
                let error = Error::from(error);
                tracing::warn!(error = error.chain(), "the data directory could not be tried");
            }
            Err(error) => return Err(error.into()),
        }
        let snapshots = self.snapshots(data_dir).await?;
        Ok(Tried { location, max_clock_skew: self.max_clock_skew(), snapshots })
    }

    /// Checks that the storage keeps all guarantees that shards rely on and that its clock is
    /// right.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] if it does not. The message says what was
    /// expected, what came and what to do.
    pub fn check(&self, place: &str, probed: &Probed) -> Result<(), Error> {
        if !probed.broken.is_empty() {
            let broken = probed.broken.iter();
            let broken: Vec<_> =
                broken.map(|one| format!("{}; {}", one.expected, one.came)).collect();
            let message = format!(
                "expected of `{place}` that {}. Two owners of a shard could undo each other's writes there: take \
                 storage that keeps this (S3-compatible: one that knows conditional puts), or see what lies in between",
                broken.join("; and that ")
            );
            return Err(Error::new(ErrorKind::WrongState, "UNFIT_STORAGE", message));
        }
        let Some(clock) = probed.clock else { return Ok(()) };
        clock.check(&format!("`{place}`"), self.max_clock_skew(), "storage.max_clock_skew_ms")
    }

    /// Checks the clock of Redis against the same limit as the storage's clock.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] if the clock is too far off. The message says
    /// what to do.
    pub fn check_redis(&self, health: &RedisHealth) -> Result<(), Error> {
        health.clock.check("Redis", self.max_clock_skew(), "storage.max_clock_skew_ms")
    }

    fn max_clock_skew(&self) -> Duration {
        Duration::from_millis(self.max_clock_skew_ms)
    }

    /// Returns the location that a data directory names: a folder, `file:///path` or
    /// `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the invalid key.
    fn location(&self, data_dir: &str) -> Result<StorageUrl, Error> {
        Ok(StorageUrl::try_new(data_dir, &self.s3)?)
    }

    /// Tests which guarantees a place keeps that shards rely on.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if `place` is not a location, and storage
    /// errors if it cannot be used at all.
    pub async fn probe(&self, place: &str) -> Result<Probed, Error> {
        Ok(self.location(place)?.probe().await?)
    }

    /// Returns the settings of the corpora in a data directory, and the corpora whose settings
    /// cannot be read.
    ///
    /// # Errors
    /// Returns storage errors.
    pub async fn corpora(
        &self,
        data_dir: &str,
    ) -> Result<(Vec<CorpusSettings>, Vec<Unusable>), Error> {
        let registered = Registry::open(&self.location(data_dir)?).await?.list().await?;
        let (mut usable, mut unusable) = (Vec::new(), Vec::new());
        for (name, settings) in registered {
            match settings {
                Ok(settings) => usable.push(settings),
                Err(error) => unusable.push(Unusable::new(name, &error.into())),
            }
        }
        Ok((usable, unusable))
    }

    /// Returns the place of snapshots, if one is configured.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the key, if the place is invalid or
    /// inside the data directory, with which it would be lost. Returns storage errors.
    pub async fn snapshots(&self, data_dir: &str) -> Result<Option<Snapshots>, Error> {
        let Some(place) = &self.snapshots else { return Ok(None) };
        let refuse = |problem: &str| Err(Error::invalid("storage.snapshots", problem));
        let location = match StorageUrl::try_new(place, &self.s3) {
            Err(clew_index::Error::Invalid { field: "data_dir", problem }) => {
                return refuse(&problem);
            }
            location => location?,
        };
        let data = self.location(data_dir)?;
        let is_inside = match (location.folder(), data.folder()) {
            (Some(folder), Some(data)) => {
                let absolute = |path| std::path::absolute(path).unwrap_or_default();
                absolute(folder).starts_with(absolute(data))
            }
            (None, None) => format!("{}/", place.trim_end_matches('/'))
                .starts_with(&format!("{}/", data_dir.trim_end_matches('/'))),
            _ => false,
        };
        if is_inside {
            return refuse(
                "expected a place outside the data directory, with which it would be lost",
            );
        }
        Ok(Some(Snapshots::open(&location).await?))
    }
}

/// Section `retriever`: limits of the work on shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrieverConfig {
    /// Maximum bytes of documents of a shard that wait for their commit, 1 MiB to 4 GiB. When it is
    /// reached, ingest streams are not read until there is room.
    pub accept_queue_bytes: u32,
    /// Maximum bytes of text in one commit, 64 KiB to 256 MiB. A larger value means fewer syncs per
    /// document and a longer wait for the first document of a group.
    pub commit_bytes: usize,
    /// Bytes of text that are chunked and embedded together, 16 KiB to 64 MiB. While batches take
    /// less than half a second, they are larger, up to 1 MiB. A larger value keeps the encoder
    /// busier; a smaller one makes the first documents of a batch searchable sooner.
    pub derive_bytes: u64,
    /// Number of batches that are derived at the same time, 1 to 16: while one is embedded, the
    /// next is chunked and the previous one committed.
    pub derive_batches: usize,
    /// Maximum number of searches that run or wait on one shard, 1 to 10,000. Further ones are
    /// refused with a retry delay.
    pub searches: u32,
    /// Maximum number of shard searches that run at the same time in this process, up to 10,000; 0
    /// means two per core. A larger value lets more of them wait for the storage together, and
    /// share the CPU.
    pub searches_at_once: u32,
    /// Time, in milliseconds, that a search may wait in the fair queue over the corpora, 1 to
    /// 60,000. One that would wait longer is refused with a retry delay. A larger value lets bursts
    /// through and delays answers under continuous load.
    pub search_wait_ms: u64,
    /// Maximum bytes of vectors that searches keep in memory, for all shards of this process, up to
    /// 2^50; two bytes for each component of a vector, so 1 GiB holds 1.4 million vectors of 384
    /// dimensions. A search of a shard that finds no room reads vectors from the shard's files,
    /// which takes some milliseconds. Vectors are read into memory when they are first searched.
    pub vector_memory_bytes: u64,
    /// Maximum bytes of indexes that searches keep in memory, for all shards of this process, up to
    /// 2^50; about 370 bytes for each chunk with a vector of 384 dimensions, so 512 MiB holds the
    /// indexes of 1.4 million chunks. What is not in memory is read when a search needs it.
    pub index_memory_bytes: u64,
    /// Maximum bytes of texts of passages that searches keep in memory once they returned them, for
    /// all shards of this process, up to 2^50; 64 MiB holds about 100,000 passages of a hundred
    /// words. Other texts are read from files.
    pub text_memory_bytes: u64,
    /// Maximum bytes of memory that open shards take beside those above, for all shards of this
    /// process, up to 2^50: about 1 MiB for each shard, 1.5 KB for each document and 100 bytes for
    /// each chunk. If they take more, those rest that nobody has needed for longest: their tables
    /// are closed until the next request. Those that are needed stay open, whatever they take.
    pub table_memory_bytes: u64,
    /// Time, in seconds, after which a shard rests that nobody needs and in which nothing is left
    /// to do, 1 to 86,400. A shard that rests takes next to no memory and asks the storage nothing.
    /// Its next request waits until it is open.
    pub rest_after_secs: u64,
    /// Share, in percent, of the ten nearest chunks that searches with a vector index are to find,
    /// 50 to 100. Each shard measures it with the newest questions that it was asked, and searches
    /// read as much of its index as that takes. A larger value makes searches slower.
    /// `clew_index_recall` is what was measured.
    pub recall_percent: u32,
    /// Interval, in seconds, at which tables are checked for maintenance, 1 to 86,400.
    pub maintenance_interval_secs: u64,
    /// Interval, in seconds, between two checks of a hundred documents against the promises, 1 to
    /// 86,400. A larger value spares the storage; a smaller one finds damage sooner. `clew cluster
    /// tree` shows what the checks found.
    pub check_interval_secs: u64,
    /// Interval, in seconds, between searches for documents that are older than their corpus
    /// retains, 1 to 86,400.
    pub retention_interval_secs: u64,
    /// Interval, in milliseconds, between searches for documents that compressed memories do not
    /// cover yet, 10 to 86,400,000.
    pub memory_interval_ms: u64,
}

impl Default for RetrieverConfig {
    fn default() -> Self {
        Self {
            accept_queue_bytes: 64 << 20,
            commit_bytes: 8 << 20,
            derive_bytes: 192 << 10,
            derive_batches: 3,
            searches: 256,
            searches_at_once: 0,
            search_wait_ms: 2_000,
            vector_memory_bytes: 1 << 30,
            index_memory_bytes: 512 << 20,
            text_memory_bytes: 64 << 20,
            table_memory_bytes: 1 << 30,
            rest_after_secs: 600,
            recall_percent: 99,
            maintenance_interval_secs: 5,
            check_interval_secs: 60,
            retention_interval_secs: 600,
            memory_interval_ms: 1_000,
        }
    }
}

impl RetrieverConfig {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                violations.push(
                    format!("retriever.{key}"),
                    format!("expected {low} to {high}, got {value}"),
                );
            }
        };
        within("accept_queue_bytes", self.accept_queue_bytes.into(), 1 << 20, u32::MAX.into());
        within("commit_bytes", self.commit_bytes as u64, 64 << 10, 256 << 20);
        within("derive_bytes", self.derive_bytes, 16 << 10, 64 << 20);
        within("derive_batches", self.derive_batches as u64, 1, 16);
        within("searches", self.searches.into(), 1, 10_000);
        within("searches_at_once", self.searches_at_once.into(), 0, 10_000);
        within("search_wait_ms", self.search_wait_ms, 1, 60_000);
        within("vector_memory_bytes", self.vector_memory_bytes, 0, 1 << 50);
        within("index_memory_bytes", self.index_memory_bytes, 0, 1 << 50);
        within("text_memory_bytes", self.text_memory_bytes, 0, 1 << 50);
        within("table_memory_bytes", self.table_memory_bytes, 0, 1 << 50);
        within("rest_after_secs", self.rest_after_secs, 1, 86_400);
        within("recall_percent", self.recall_percent.into(), 50, 100);
        within("maintenance_interval_secs", self.maintenance_interval_secs, 1, 86_400);
        within("check_interval_secs", self.check_interval_secs, 1, 86_400);
        within("retention_interval_secs", self.retention_interval_secs, 1, 86_400);
        within("memory_interval_ms", self.memory_interval_ms, 10, 86_400_000);
        violations.into_result()
    }

    /// Returns what the shards of this process share.
    pub(crate) fn resources(&self) -> Resources {
        let at_once = match self.searches_at_once {
            0 => two_per_core(),
            at_once => at_once as usize,
        };
        let patience = Duration::from_millis(self.search_wait_ms);
        let searches = FairQueue::new("searches", at_once, patience);
        let recall = self.recall_percent as f32 / 100.0;
        let memory = SearchMemory {
            vectors: VectorMemory::new(self.vector_memory_bytes),
            indexes: IndexMemory::new(self.index_memory_bytes),
            texts: TextMemory::new(self.text_memory_bytes),
        };
        Resources::new(searches, memory, recall)
    }

    pub(crate) fn rest_after(&self) -> Duration {
        Duration::from_secs(self.rest_after_secs)
    }

    pub(crate) fn check_interval(&self) -> Duration {
        Duration::from_secs(self.check_interval_secs)
    }

    pub(crate) fn retention_interval(&self) -> Duration {
        Duration::from_secs(self.retention_interval_secs)
    }

    pub(crate) fn memory_interval(&self) -> Duration {
        Duration::from_millis(self.memory_interval_ms)
    }

    pub(crate) fn maintenance_interval(&self) -> Duration {
        Duration::from_secs(self.maintenance_interval_secs)
    }
}
