//! Measurements of a shard as a whole: opening, snapshots, checks, memory and disk.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use clew_core::{CheckQuery, ShardIndex, SnapshotName, Timestamp};
use clew_index::{
    Maintenance, MaintenancePlan, MaintenanceStep, Next, ObjectStoreSettings, Snapshots,
    StorageUrl, TableKind,
};

use crate::command::bench::growth::documents::id;
use crate::command::bench::growth::measured::{Measured, PATIENCE, corpus};
use crate::command::bench::growth::report::Amount;
use crate::command::bench::memory;

/// Documents of a page of a check, as many as a server asks a shard for.
const PAGE: usize = 1_000;
/// Time after which a step of copying to a snapshot starts no further file.
const STEP: Duration = Duration::from_secs(10);
/// Documents that are accepted just before a crash.
const LAST: u64 = 10;
const FIRST_OF_LAST: u64 = 1 << 41;

impl Measured {
    /// Crashes: drops the shard while documents that were acknowledged wait to be cut, and while
    /// files lie on the disk that no version of a table names yet. Opens it again, as another
    /// process would, and measures that.
    ///
    /// # Errors
    /// Returns an error if something that was acknowledged is gone.
    pub async fn crash_and_open(mut self) -> anyhow::Result<Self> {
        let last = FIRST_OF_LAST..FIRST_OF_LAST + LAST;
        let documents = self.some(last.clone(), 0)?;
        self.accept(documents).await?;
        let plan = MaintenancePlan { steps: vec![MaintenanceStep::Compact(TableKind::Sources)] };
        let mut maintenance = Maintenance::new(&plan, PATIENCE);
        let next = Box::pin(self.shard.advance(&mut maintenance, None)).await?;
        if let Next::Work(work) = next {
            drop(work.run().await?);
        }
        let (accepted, chunks) = (self.filled + LAST, self.chunks);
        let (mut opened, cost) = Box::pin(self.dropped_and_opened()).await?;
        opened.add("open the shard after a crash", cost);
        let found = opened.reader().counts();
        ensure!(
            (found.accepted, found.chunks) == (accepted, chunks),
            "expected {accepted} documents and {chunks} chunks after a crash, got {found:?}"
        );
        let ids: Vec<_> = last.map(id).collect();
        opened.forget(&ids).await?;
        Ok(opened)
    }

    /// Measures how long a snapshot takes that has nothing of the shard yet.
    ///
    /// # Errors
    /// Returns what the shard returns.
    pub async fn measure_snapshot(&mut self) -> anyhow::Result<()> {
        let folder = match &self.folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("no temporary directory could be made")?;
        let place = folder.path().to_str().context("expected a folder whose name is text")?;
        let snapshots =
            Snapshots::open(&StorageUrl::try_new(place, &ObjectStoreSettings::default())?).await?;
        let name: SnapshotName = "measured".parse()?;
        let (reader, corpus) = (self.reader(), corpus()?);
        let copying = self.meter.measure(async {
            loop {
                let step = reader.copy_to_snapshot(&snapshots, &name, ShardIndex(0), STEP);
                let copied = Box::pin(step).await?;
                if let Some(digest) = copied.digest {
                    let taken_at = Timestamp::from_micros(0);
                    snapshots.finish(&corpus, &name, &[digest], taken_at).await?;
                    return Ok::<_, anyhow::Error>(copied.copied.bytes);
                }
            }
        });
        let (bytes, cost) = Box::pin(copying).await;
        let bytes = bytes?;
        self.add("take a snapshot", cost);
        self.add_figure("bytes of a snapshot", self.chunks, Amount::Bytes(bytes));
        folder.close().context("the snapshot cannot be removed")
    }

    /// Checks every promise about what is stored, as `clew check` does.
    ///
    /// # Errors
    /// Returns an error if one does not hold.
    pub async fn measure_check(&mut self) -> anyhow::Result<()> {
        let before = memory::resident_bytes().filter(|_| memory::forget_peak());
        let view = self.view();
        let checking = self.meter.measure(async {
            let mut query = CheckQuery { after: None, limit: PAGE };
            let (mut chunks, mut breaches) = (0, Vec::new());
            loop {
                let checked = Box::pin(view.check(&query)).await?;
                chunks += checked.chunks;
                breaches.extend(checked.breaches);
                query.after = checked.last;
                if query.after.is_none() {
                    return Ok::<_, anyhow::Error>((chunks, breaches));
                }
            }
        });
        let (checked, cost) = Box::pin(checking).await;
        let (chunks, breaches) = checked?;
        ensure!(breaches.is_empty(), "{} promises do not hold: {:?}", breaches.len(), breaches[0]);
        ensure!(chunks == self.chunks, "expected {} checked chunks, got {chunks}", self.chunks);
        self.add("check all that is stored", cost);
        if let Some((before, peak)) = before.zip(memory::peak_bytes()) {
            let added = Amount::Bytes(peak.saturating_sub(before));
            self.add_figure("memory that a check adds, at most", self.chunks, added);
        }
        Ok(())
    }

    /// Measures memory and disk. The peak begins anew.
    ///
    /// # Errors
    /// Returns an error if the shard's folder cannot be read.
    pub fn measure_room(&mut self, peak: Option<u64>) -> anyhow::Result<()> {
        let chunks = self.chunks;
        if let Some(peak) = peak {
            let what = "peak of the process's memory since the last size";
            self.add_figure(what, chunks, Amount::Bytes(peak));
        }
        if let Some(resident) = memory::resident_bytes() {
            self.add_figure("memory of the process", chunks, Amount::Bytes(resident));
        }
        if let Some(folder) = &self.folder {
            let (files, bytes) = files_in(folder)?;
            self.add_figure("bytes on the disk", chunks, Amount::Bytes(bytes));
            self.add_figure("files on the disk", chunks, Amount::Number(files));
        }
        memory::forget_peak();
        Ok(())
    }
}

/// Returns the number of files in a folder and their bytes.
fn files_in(folder: &Path) -> anyhow::Result<(u64, u64)> {
    let cannot = || format!("cannot read `{}`", folder.display());
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let metadata = entry.metadata().with_context(cannot)?;
        let (more, of) = match metadata.is_dir() {
            true => files_in(&entry.path())?,
            false => (1, metadata.len()),
        };
        (files, bytes) = (files + more, bytes + of);
    }
    Ok((files, bytes))
}
