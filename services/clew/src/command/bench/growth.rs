//! Command `clew bench growth`.
//!
//! Fills one shard with documents, through the paths that a server takes: documents are accepted,
//! the due ones are read and cut, their chunks are committed, and the maintenance that the tables
//! need is done after each batch. At each size, work of fixed amount is measured. A figure that
//! grows with the size shows work that is done again for data that has not changed.

mod cost;
mod documents;
mod encoder;
mod filling;
mod given;
mod measured;
mod report;
mod searching;
mod texts;
mod whole;
mod writing;

use std::path::Path;

use anyhow::{Context, bail, ensure};
use clew_index::{ObjectStoreSettings, StorageUrl};

use self::documents::Supply;
use self::measured::Measured;
pub use self::report::Growth;
use crate::command::bench::memory;

/// Sizes at which recall is measured on the way to the largest one.
const STOPS: [u64; 6] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000];
/// Smallest size that is measured.
const SMALLEST: u64 = 2_000;

/// What to measure.
#[derive(Debug)]
pub struct Plan {
    /// Numbers of chunks, growing.
    pub sizes: Vec<u64>,
    /// Files and folders of texts. The texts are generated if there are none.
    pub texts: Vec<String>,
    /// Folder for the shard, or a part of a bucket. A temporary folder if there is none.
    pub folder: Option<String>,
    /// How a bucket is reached.
    pub s3: ObjectStoreSettings,
}

/// Checks the sizes of a shard, in chunks.
fn check(sizes: &[u64]) -> anyhow::Result<()> {
    let is_enough = |size: &u64| *size >= SMALLEST;
    if sizes.is_empty() || !sizes.iter().all(is_enough) || !sizes.is_sorted_by(|a, b| a < b) {
        bail!("expected `--sizes` that grow, from {SMALLEST} chunks on, such as `10000,100000`");
    }
    Ok(())
}

/// Fills a shard to each of the sizes and measures there.
///
/// # Errors
/// Returns an error if a size, the texts or the folder are not fit, or what the shard returns.
pub async fn run(Plan { sizes, texts, folder, s3 }: Plan) -> anyhow::Result<Growth> {
    check(&sizes)?;
    let temporary = match folder {
        Some(_) => None,
        None => Some(tempfile::tempdir().context("no temporary directory could be made")?),
    };
    let folder = match (&folder, &temporary) {
        (Some(folder), _) => folder,
        (None, Some(temporary)) => temporary.path().to_str().context("no temporary directory")?,
        (None, None) => bail!("there is no folder"),
    };
    let location = StorageUrl::try_new(folder, &s3)?;
    location.folder().map_or(Ok(()), refuse_used)?;
    let largest = sizes.last().copied().unwrap_or(SMALLEST);
    let supply = tokio::task::spawn_blocking(move || Supply::new(&texts, largest));
    let supply = supply.await.context("reading the texts panicked")??;
    let mut shard = Measured::open(&location, supply).await?;
    for &size in &sizes {
        Box::pin(shard.grow(size, &STOPS)).await?;
        shard = Box::pin(shard.crash_and_open()).await?;
        Box::pin(measure(&mut shard)).await?;
    }
    let Measured { supply, filled, lines, figures, .. } = shard;
    Ok(Growth::of(supply.described(filled), lines, figures))
}

/// Measures work of fixed amount, and leaves the shard as it was.
async fn measure(shard: &mut Measured) -> anyhow::Result<()> {
    shard.measure_lists().await?;
    shard.measure_searches().await?;
    shard.measure_recall(shard.chunks).await?;
    shard.measure_new_documents().await?;
    shard.measure_replacing().await?;
    shard.measure_forgetting_old().await?;
    shard.measure_settling().await?;
    let peak = memory::peak_bytes();
    shard.measure_snapshot().await?;
    shard.measure_check().await?;
    shard.measure_room(peak)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_and_are_not_too_small() {
        assert!(check(&[2_000, 4_001]).is_ok());
        for refused in [&[][..], &[0], &[1_999], &[4_000, 2_000], &[2_000, 2_000]] {
            assert!(check(refused).is_err(), "{refused:?}");
        }
    }
}
