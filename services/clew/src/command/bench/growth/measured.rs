//! Shard that is filled and measured, and the ways in which a server writes to one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use clew_core::{
    Access, CorpusSettings, Document, DocumentId, ShardIndex, StoredDocument, Timestamp,
};
use clew_index::{
    DerivedDocument, Maintenance, MaintenanceReport, Next, Registry, ShardReader, ShardSettings,
    ShardView, ShardWriter, Storage, StorageUrl, Takeover,
};

use crate::command::bench::growth::cost::{Held, Meter, WorkCost};
use crate::command::bench::growth::documents::{Supply, chunking, embedded};
use crate::command::bench::growth::encoder;
use crate::command::bench::growth::report::{Amount, CostLine, Quantity, told};

/// Number of documents of one batch, as many as the indexer takes at once.
pub const BATCH: usize = 512;
/// Bytes of the texts of a batch, unless one text alone is longer.
pub const BATCH_BYTES: u64 = 4 << 20;
/// Maximum number of rounds of maintenance after which the tables need no more of it.
const ROUNDS: u32 = 16;
/// Number of times that work without writes is done. The average is reported.
pub const REPEATS: usize = 20;
/// Wait for searches before files are removed.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Shard that is filled and measured.
pub struct Measured {
    pub shard: ShardWriter,
    place: Storage,
    /// Folder in which the shard lies, unless it lies in a bucket.
    pub folder: Option<PathBuf>,
    pub meter: Meter,
    pub supply: Supply,
    /// Number of documents that the shard was filled with: the first ones.
    pub filled: u64,
    /// Number of their chunks.
    pub chunks: u64,
    pub lines: Vec<CostLine>,
    pub figures: Vec<Quantity>,
    /// Time of the last acceptance. It advances with each, so that runs are alike.
    now: i64,
}

impl Measured {
    /// Makes a corpus with one shard.
    ///
    /// # Errors
    /// Returns what the shard returns.
    pub async fn open(location: &StorageUrl, supply: Supply) -> anyhow::Result<Self> {
        let (registry, corpus) = (Registry::open(location).await?, corpus()?);
        registry.create(&corpus).await?;
        let place = registry.shard_place(&corpus, ShardIndex(0));
        Ok(Self {
            shard: ShardWriter::open(&place, settings()?, Takeover::Uncontested).await?,
            place,
            folder: location.folder().map(Path::to_owned),
            meter: Meter::new(),
            supply,
            filled: 0,
            chunks: 0,
            lines: Vec::new(),
            figures: Vec::new(),
            now: 0,
        })
    }

    /// Drops the shard as it is, and opens it again as another process would. Returns what opening
    /// costs.
    ///
    /// # Errors
    /// Returns what the shard returns.
    pub async fn dropped_and_opened(self) -> anyhow::Result<(Self, WorkCost)> {
        let Self { shard, place, meter, .. } = self;
        drop(shard);
        let opening = meter.measure(async {
            let opened = ShardWriter::open(&place, settings()?, Takeover::Uncontested);
            Ok::<_, anyhow::Error>(opened.await?)
        });
        let (shard, cost) = Box::pin(opening).await;
        Ok((Self { shard: shard?, place, meter, ..self }, cost))
    }

    pub fn reader(&self) -> ShardReader {
        self.shard.reader()
    }

    pub fn view(&self) -> ShardView {
        self.reader().with_access(&Access::all())
    }

    /// Returns the time of the last acceptance.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now)
    }

    /// Adds the cost of some work.
    pub fn add(&mut self, work: &'static str, cost: WorkCost) {
        let line = CostLine { work, chunks: self.chunks, cost };
        eprintln!("{}", told(&line));
        self.lines.push(line);
    }

    /// Adds another measurement of a shard of `chunks`.
    pub fn add_figure(&mut self, what: &'static str, chunks: u64, amount: Amount) {
        self.figures.push(Quantity { what, chunks, amount });
    }

    /// Returns some documents in one of their editions.
    ///
    /// # Errors
    /// Returns an error if their texts cannot be read.
    pub fn some(
        &self,
        numbers: impl IntoIterator<Item = u64>,
        edition: u64,
    ) -> anyhow::Result<Vec<Document>> {
        let document = |number| self.supply.document(number, edition);
        numbers.into_iter().map(document).collect()
    }

    pub async fn accept(&mut self, documents: Vec<Document>) -> anyhow::Result<WorkCost> {
        self.now += 1;
        let now = self.now();
        let (accepted, cost) =
            Box::pin(self.meter.measure_writer(self.shard.accept(documents, now))).await;
        accepted?;
        Ok(cost)
    }

    /// Reads a batch of due documents and makes their chunks.
    pub async fn derive_due(&self) -> anyhow::Result<Vec<DerivedDocument>> {
        let mut bytes = 0;
        let due = self.reader().due(self.now(), BATCH, &HashSet::new()).into_iter();
        let due = due.take_while(|due| {
            let is_first = bytes == 0;
            bytes += due.bytes;
            is_first || bytes <= BATCH_BYTES
        });
        let due: Vec<_> = due.map(|due| (due.document_id, due.version)).collect();
        let stored = self.reader().read_sources(&due).await?;
        let recipe = self.shard.settings().recipes.wanted;
        let derive = |stored: StoredDocument| DerivedDocument {
            chunks: embedded(&stored.document),
            document: stored.document,
            version: stored.version,
            recipe,
        };
        Ok(stored.into_iter().map(derive).collect())
    }

    /// Commits the chunks of all due documents. Returns what the commits cost, without the making
    /// of the chunks.
    pub async fn derive_all(&mut self) -> anyhow::Result<WorkCost> {
        let mut all = WorkCost::default();
        loop {
            let derived = self.derive_due().await?;
            if derived.is_empty() {
                return Ok(all);
            }
            let (committed, cost) =
                Box::pin(self.meter.measure_writer(self.shard.commit_derived(derived))).await;
            committed?;
            all += cost;
        }
    }

    /// Does the maintenance that the tables need.
    pub async fn maintain(&mut self) -> anyhow::Result<WorkCost> {
        let planned = Box::pin(self.meter.measure_writer(self.shard.maintenance_plan())).await;
        let (plan, planning) = planned;
        let (_, cost) = self.finish(Maintenance::new(&plan?, PATIENCE)).await?;
        Ok(planning + cost)
    }

    /// Does maintenance as a server does: most of it needs no turn of the writer.
    pub async fn finish(
        &mut self,
        mut maintenance: Maintenance,
    ) -> anyhow::Result<(MaintenanceReport, WorkCost)> {
        let (mut held, shard) = (Held::default(), &mut self.shard);
        let maintained = self.meter.measure(async {
            let mut done = None;
            loop {
                let began = Instant::now();
                let next = Box::pin(shard.advance(&mut maintenance, done.take())).await?;
                held.add(began.elapsed().as_secs_f64());
                match next {
                    Next::Turn => {}
                    Next::Work(work) => done = Some(work.run().await?),
                    Next::Finished(report) => return Ok::<_, anyhow::Error>(report),
                }
            }
        });
        let (report, cost) = Box::pin(maintained).await;
        Ok((report?, WorkCost { held: Some(held), ..cost }))
    }

    /// Does maintenance until the tables need no more of it.
    pub async fn maintain_to_the_end(&mut self) -> anyhow::Result<WorkCost> {
        let mut maintained = WorkCost::default();
        for _ in 0..ROUNDS {
            if self.shard.maintenance_plan().await?.steps.is_empty() {
                return Ok(maintained);
            }
            maintained += self.maintain().await?;
        }
        bail!("expected the maintenance to end, but the tables still need some")
    }

    /// Forgets documents until they are erased, and makes sure that nothing is left of them.
    pub async fn forget(&mut self, ids: &[DocumentId]) -> anyhow::Result<WorkCost> {
        let access = Access::all();
        let forgetting = self.meter.measure_writer(self.shard.forget_traced(ids, &access));
        let (forgotten, cost) = Box::pin(forgetting).await;
        let erasing = Maintenance::erasing(forgotten?.1, PATIENCE);
        let (report, erased) = self.finish(erasing).await?;
        match report.scan {
            Some(scan) if scan.is_clean() => Ok(cost + erased),
            Some(scan) => bail!("expected a clean shard after forgetting, found {scan:?}"),
            None => bail!("expected the documents to be erased, but that was postponed"),
        }
    }

    /// Asks all that an indexer asks when it wakes.
    pub fn list_due(&self) -> WorkCost {
        let (reader, now, none) = (self.reader(), self.now(), HashSet::new());
        self.meter.average(REPEATS, || {
            drop(reader.due(now, BATCH, &none));
            drop(reader.outdated(now, BATCH, &none));
            drop(reader.structure_due(now, BATCH, &none));
            reader.next_try();
        })
    }
}

/// Returns the settings of the corpus that the shard is of.
pub fn corpus() -> anyhow::Result<CorpusSettings> {
    let created_at = Timestamp::from_micros(0);
    let encoder = encoder::identity();
    Ok(CorpusSettings::plain("growth".parse()?, 1, chunking(), encoder, created_at))
}

fn settings() -> anyhow::Result<ShardSettings> {
    Ok(ShardSettings::of(&corpus()?))
}
