//! Command `clew bench growth`.
//!
//! Fills one shard with generated documents, through the paths that a server takes: documents are
//! accepted, the due ones are read and cut, their chunks are committed, and the maintenance that
//! the tables need is done after each batch. At each size, work of fixed amount is measured. A
//! figure that grows with the size shows work that is done again for data that has not changed.

mod cost;
mod texts;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clew_core::{
    Access, CandidateQuery, Chunk, Chunking, CorpusSettings, Document, DocumentId, DocumentState,
    EncoderIdentity, Filter, Grouping, ListQuery, SearchMode, ShardIndex, StoredDocument,
    Timestamp,
};
use clew_index::{
    DerivedDocument, EmbeddedChunk, Maintenance, MaintenanceReport, Next, ObjectStoreSettings,
    Registry, ShardReader, ShardSettings, ShardWriter, Storage, StorageUrl, Takeover,
};
use serde::Serialize;

use self::cost::{Held, Meter, WorkCost};
use crate::progress::Progress;

/// Number of documents of one batch, as many as the indexer takes at once.
const BATCH: u64 = 512;
/// Number of documents in the measurements of many.
const MANY: u64 = 100;
/// Amount of new chunks whose maintenance is reported.
const NEW_CHUNKS: u64 = 10_000;
/// Maximum number of rounds of maintenance after which the tables need no more of it.
const ROUNDS: u32 = 16;
/// Number of times that work without writes is done. The average is reported.
const REPEATS: usize = 20;
/// Number of searches, of which the median time is reported.
const SEARCHES: usize = 51;
/// Number of searches before those, which read what later ones find in memory.
const WARM_UP: usize = 20;
/// Candidates of a ranking, as many as a search for ten passages asks a shard for.
const CANDIDATES: usize = 100;
/// Documents of a page.
const PAGE: usize = 100;
/// Share of the nearest chunks that searches are to find: the default of a retriever.
const RECALL: f32 = 0.99;
/// Wait for searches before files are removed. There are none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of the first document that is measured and forgotten again.
const MEASURED: u64 = 1 << 40;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// Profile of the build: `development` or `release`.
    profile: &'static str,
    /// Number of cores of the machine.
    cores: usize,
    /// Measurements, each kind of work at one size after the other.
    lines: Vec<Line>,
}

/// Cost of some work in a shard of some size.
#[derive(Debug, Serialize)]
struct Line {
    work: &'static str,
    /// Number of chunks of the shard, without those that are measured and forgotten again.
    chunks: u64,
    #[serde(flatten)]
    cost: WorkCost,
}

/// Checks the sizes of a shard, in chunks.
///
/// # Errors
/// Returns an error that says what was expected.
pub fn check(sizes: &[u64]) -> anyhow::Result<()> {
    let is_whole = |size: &u64| *size > 0 && size.is_multiple_of(texts::CHUNKS_OF_A_DOCUMENT);
    if sizes.is_empty() || !sizes.iter().all(is_whole) || !sizes.is_sorted_by(|a, b| a < b) {
        bail!(
            "expected `--sizes` that grow, each a multiple of {} chunks, such as `10000,100000`",
            texts::CHUNKS_OF_A_DOCUMENT
        );
    }
    Ok(())
}

/// Fills a shard to each of `sizes` and measures there. Without a folder, the shard lies in a
/// temporary one.
///
/// # Errors
/// Returns an error if a size or the folder is not fit, or what the shard returns.
pub async fn run(
    sizes: &[u64],
    folder: Option<String>,
    s3: &ObjectStoreSettings,
) -> anyhow::Result<Growth> {
    check(sizes)?;
    let temporary = match folder {
        Some(_) => None,
        None => Some(tempfile::tempdir().context("no temporary directory could be made")?),
    };
    let folder = match (&folder, &temporary) {
        (Some(folder), _) => folder,
        (None, Some(temporary)) => temporary.path().to_str().context("no temporary directory")?,
        (None, None) => bail!("there is no folder"),
    };
    let mut shard = Measured::open(&StorageUrl::try_new(folder, s3)?).await?;
    for &size in sizes {
        Box::pin(shard.grow(size)).await?;
        Box::pin(shard.measure(size)).await?;
    }
    let mut lines = shard.lines;
    let order: Vec<&str> = lines.iter().map(|line| line.work).collect();
    let place = |work: &str| order.iter().position(|other| *other == work);
    lines.sort_by_key(|line| (place(line.work), line.chunks));
    Ok(Growth {
        profile: if cfg!(debug_assertions) { "development" } else { "release" },
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        lines,
    })
}

fn refuse_used(folder: &Path) -> anyhow::Result<()> {
    let is_used = folder.exists()
        && std::fs::read_dir(folder)
            .with_context(|| format!("cannot read `{}`", folder.display()))?
            .next()
            .is_some();
    ensure!(!is_used, "expected an empty folder or a new one, got `{}`", folder.display());
    Ok(())
}

impl Growth {
    /// Returns the measurements as a table.
    pub fn table(&self) -> String {
        const HEAD: [&str; 10] = [
            "work",
            "chunks",
            "time",
            "writer",
            "at once",
            "requests",
            "reads",
            "bytes read",
            "writes",
            "bytes written",
        ];
        let mut rows = vec![HEAD.map(str::to_owned)];
        let mut last = "";
        for Line { work, chunks, cost } in &self.lines {
            let work = if *work == std::mem::replace(&mut last, work) { "" } else { work };
            let [reads, read, writes, written] = cost.shown();
            let [time, writer, at_once] = cost.times();
            let chunks = chunks.to_string();
            let work = work.to_owned();
            let requests = cost.requests();
            rows.push([
                work, chunks, time, writer, at_once, requests, reads, read, writes, written,
            ]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut table = format!("{} build, {} cores\n\n", self.profile, self.cores);
        for row in &rows {
            let mut line = format!("{:width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            table.push_str(line.trim_end());
            table.push('\n');
        }
        table
    }
}

/// Shard that is filled and measured.
struct Measured {
    shard: ShardWriter,
    place: Storage,
    meter: Meter,
    lines: Vec<Line>,
    /// Number of documents that the shard was filled with.
    documents: u64,
    /// Time of the last acceptance. It advances with each, so that runs are alike.
    now: i64,
}

impl Measured {
    async fn open(location: &StorageUrl) -> anyhow::Result<Self> {
        if let Some(folder) = location.folder() {
            refuse_used(folder)?;
        }
        let registry = Registry::open(location).await?;
        let corpus = corpus()?;
        registry.create(&corpus).await?;
        let place = registry.shard_place(&corpus, ShardIndex(0));
        let shard = ShardWriter::open(&place, settings()?, Takeover::Uncontested).await?;
        Ok(Self { shard, place, meter: Meter::new(), lines: Vec::new(), documents: 0, now: 0 })
    }

    fn reader(&self) -> ShardReader {
        self.shard.reader()
    }

    fn add(&mut self, work: &'static str, cost: WorkCost) {
        let chunks = self.documents * texts::CHUNKS_OF_A_DOCUMENT;
        self.lines.push(Line { work, chunks, cost });
    }

    /// Fills the shard to `size` chunks. All new documents wait before the first of them is cut, as
    /// when a corpus is ingested faster than it is embedded.
    async fn grow(&mut self, size: u64) -> anyhow::Result<()> {
        let target = size / texts::CHUNKS_OF_A_DOCUMENT;
        let added = (target - self.documents) * texts::CHUNKS_OF_A_DOCUMENT;
        let mut maintained = WorkCost::default();
        let mut progress = Progress::new("accepted");
        while self.documents < target {
            let next = target.min(self.documents + BATCH);
            let documents = (self.documents..next).map(|number| texts::document(number, 0));
            self.accept(documents.collect()).await?;
            self.documents = next;
            maintained += self.maintain().await?;
            progress.set(self.documents, target, &format!("documents, to {size} chunks"));
        }
        progress.finish();
        let waiting = self.reader().lag().waiting;
        let listed = self.list_due();
        let mut progress = Progress::new("indexed");
        let mut chunks = size - added;
        loop {
            let derived = self.derive_due().await?;
            if derived.is_empty() {
                break;
            }
            chunks += self.shard.commit_derived(derived).await?.chunks;
            maintained += self.maintain().await?;
            progress.set(chunks, size, &format!("chunks, to {size}"));
        }
        progress.finish();
        maintained += self.maintain_to_the_end().await?;
        let found = self.reader().counts().chunks;
        ensure!(found == size, "expected a shard of {size} chunks, got {found}");
        self.add(
            "maintenance for 10,000 new chunks, on average since the last size",
            maintained * (NEW_CHUNKS as f64 / added as f64),
        );
        self.add("list due work while all new documents wait", listed);
        ensure!(
            waiting * texts::CHUNKS_OF_A_DOCUMENT == added,
            "expected all new documents to wait"
        );
        Ok(())
    }

    /// Measures work of fixed amount in a shard of `size` chunks, and leaves it as it was.
    async fn measure(&mut self, size: u64) -> anyhow::Result<()> {
        eprintln!("measuring at {size} chunks");
        let opened = self.meter.measure(async {
            ShardWriter::open(&self.place, settings()?, Takeover::Uncontested)
                .await
                .map_err(anyhow::Error::from)
        });
        let (shard, cost) = Box::pin(opened).await;
        self.shard = shard?;
        self.add("open the shard", cost);
        self.measure_reads().await?;
        self.measure_new_documents().await?;
        self.measure_forgetting().await?;
        let same = self.shard.settings().clone();
        let settled = self.meter.measure_writer(self.shard.settle(same));
        let (settled, cost) = Box::pin(settled).await;
        settled?;
        self.add("settle settings that want nothing else", cost);
        self.maintain_to_the_end().await?;
        let found = self.reader().counts().chunks;
        ensure!(found == size, "expected {size} chunks after the measurements, got {found}");
        Ok(())
    }

    async fn measure_reads(&mut self) -> anyhow::Result<()> {
        let cost = self.list_due();
        self.add("list due work while nothing waits", cost);
        for (work, state) in [
            ("list a page of 100 documents", None),
            (
                "list the documents that were set aside, of which there are none",
                Some(DocumentState::SetAside),
            ),
        ] {
            let query = ListQuery { after: None, limit: PAGE, state };
            let reader = self.reader();
            let cost = self.meter.average(REPEATS, || drop(reader.list(&query)));
            self.add(work, cost);
        }
        let view = self.reader().with_access(&Access::all());
        let first = query(self.documents, 0);
        let (found, cost) = Box::pin(self.meter.measure(view.candidates(&first))).await;
        ensure!(!found?.dense.is_empty(), "expected a search to find something");
        self.add("hybrid search, the first after opening", cost);
        let mut costs = Vec::with_capacity(SEARCHES);
        for search in 0..WARM_UP + SEARCHES {
            if search == WARM_UP && view.reader().take_upkeep() {
                Box::pin(view.reader().upkeep(RECALL)).await?;
            }
            let query = query(self.documents, search as u64);
            let (found, cost) = Box::pin(self.meter.measure(view.candidates(&query))).await;
            ensure!(!found?.dense.is_empty(), "expected a search to find something");
            if search >= WARM_UP {
                costs.push(cost);
            }
        }
        self.add("hybrid search, median", cost::median(costs));
        Ok(())
    }

    /// Measures the ways of new and replaced documents. They are forgotten afterwards.
    async fn measure_new_documents(&mut self) -> anyhow::Result<()> {
        let documents = |numbers: std::ops::Range<u64>, edition| -> Vec<Document> {
            numbers.map(|number| texts::document(MEASURED + number, edition)).collect()
        };
        let cost = self.accept(documents(0..1, 0)).await?;
        self.add("accept 1 document", cost);
        let cost = self.derive_all().await?;
        self.add("commit the chunks of 1 document", cost);
        self.accept(documents(1..2, 0)).await?;
        self.derive_all().await?;
        let many = 2..2 + MANY;
        let cost = self.accept(documents(many.clone(), 0)).await?;
        self.add("accept 100 documents", cost);
        let cost = self.derive_all().await?;
        self.add("commit the chunks of 100 documents", cost);
        let accepted = self.accept(documents(many, 1)).await?;
        let derived = self.derive_all().await?;
        self.add("replace 100 documents", accepted + derived);
        Ok(())
    }

    async fn measure_forgetting(&mut self) -> anyhow::Result<()> {
        let ids = |numbers: std::ops::Range<u64>| -> Vec<DocumentId> {
            numbers.map(|number| texts::id(MEASURED + number)).collect()
        };
        let one = ids(0..1);
        let (forgotten, cost) = Box::pin(self.meter.measure_writer(self.shard.forget(&one))).await;
        forgotten?;
        self.add("forget 1 document, until nobody finds it", cost);
        for (work, ids) in [
            ("forget 1 document, until it is erased", ids(1..2)),
            ("forget 100 documents, until they are erased", ids(2..2 + MANY)),
        ] {
            let (access, meter) = (Access::all(), Meter::new());
            let forgetting = meter.measure_writer(self.shard.forget_traced(&ids, &access));
            let (forgotten, cost) = Box::pin(forgetting).await;
            let erasing = Maintenance::erasing(forgotten?.1, PATIENCE);
            let (report, erased) = self.finish(erasing).await?;
            let is_clean = report.scan.is_some_and(|scan| scan.is_clean());
            ensure!(is_clean, "expected a clean shard after forgetting, found leftovers");
            self.add(work, cost + erased);
        }
        Ok(())
    }

    async fn accept(&mut self, documents: Vec<Document>) -> anyhow::Result<WorkCost> {
        self.now += 1;
        let now = Timestamp::from_micros(self.now);
        let (accepted, cost) =
            Box::pin(self.meter.measure_writer(self.shard.accept(documents, now))).await;
        accepted?;
        Ok(cost)
    }

    /// Reads a batch of due documents and makes their chunks.
    async fn derive_due(&self) -> anyhow::Result<Vec<DerivedDocument>> {
        let now = Timestamp::from_micros(self.now);
        let due = self.reader().due(now, BATCH as usize, &HashSet::new()).into_iter();
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

    /// Commits the chunks of all due documents. Returns what the commit cost, without the making
    /// of the chunks.
    async fn derive_all(&mut self) -> anyhow::Result<WorkCost> {
        let derived = self.derive_due().await?;
        let (committed, cost) =
            Box::pin(self.meter.measure_writer(self.shard.commit_derived(derived))).await;
        committed?;
        Ok(cost)
    }

    /// Does the maintenance that the tables need.
    async fn maintain(&mut self) -> anyhow::Result<WorkCost> {
        let planned = Box::pin(self.meter.measure_writer(self.shard.maintenance_plan())).await;
        let (plan, planning) = planned;
        let (_, cost) = self.finish(Maintenance::new(&plan?, PATIENCE)).await?;
        Ok(planning + cost)
    }

    /// Does maintenance as a server does: most of it needs no turn of the writer.
    async fn finish(
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
    async fn maintain_to_the_end(&mut self) -> anyhow::Result<WorkCost> {
        let mut maintained = WorkCost::default();
        for _ in 0..ROUNDS {
            if self.shard.maintenance_plan().await?.steps.is_empty() {
                return Ok(maintained);
            }
            maintained += self.maintain().await?;
        }
        bail!("expected the maintenance to end, but the tables still need some")
    }

    /// Asks all that an indexer asks when it wakes.
    fn list_due(&self) -> WorkCost {
        let (reader, now, none) = (self.reader(), Timestamp::from_micros(self.now), HashSet::new());
        self.meter.average(REPEATS, || {
            drop(reader.due(now, BATCH as usize, &none));
            drop(reader.outdated(now, BATCH as usize, &none));
            drop(reader.structure_due(now, BATCH as usize, &none));
            reader.next_try();
        })
    }
}

fn embedded(document: &Document) -> Vec<EmbeddedChunk> {
    let chunks = texts::chunks(document).into_iter();
    let embed = |chunk: Chunk| {
        let vectors = vec![texts::embed(&chunk.key_text)];
        EmbeddedChunk { chunk, vectors }
    };
    chunks.map(embed).collect()
}

/// Returns a question about one of the first `documents`.
fn query(documents: u64, number: u64) -> CandidateQuery {
    let text = texts::question(documents, number);
    CandidateQuery {
        vector: Some(texts::embed(&text)),
        text,
        encoder: String::new(),
        mode: SearchMode::Hybrid,
        filter: Filter::default(),
        grouping: Grouping::Chunks,
        limit: CANDIDATES,
        exact: false,
        with_texts: false,
    }
}

fn settings() -> anyhow::Result<ShardSettings> {
    Ok(ShardSettings::of(&corpus()?))
}

fn corpus() -> anyhow::Result<CorpusSettings> {
    let encoder = EncoderIdentity {
        model: "hashed-words".to_owned(),
        revision: "1".to_owned(),
        dimension: texts::DIMENSION as u32,
        max_tokens: 256,
    };
    let chunking = Chunking::Tokens { max_tokens: 128, overlap_tokens: 0 };
    let created_at = Timestamp::from_micros(0);
    Ok(CorpusSettings::plain("growth".parse()?, 1, chunking, encoder, created_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_and_are_of_whole_documents() {
        assert!(check(&[200, 400]).is_ok());
        for refused in [&[][..], &[0], &[401], &[400, 200], &[200, 200]] {
            assert!(check(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_table_names_each_kind_of_work_once() {
        let line = |work, chunks| Line { work, chunks, cost: WorkCost::default() };
        let lines = vec![line("open", 200), line("open", 400), line("list", 200)];
        let table = Growth { profile: "development", cores: 2, lines }.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 6, "{table}");
        assert!(lines[3].starts_with("open ") && lines[4].starts_with("  "), "{table}");
        assert!(lines[5].starts_with("list "), "{table}");
    }
}
