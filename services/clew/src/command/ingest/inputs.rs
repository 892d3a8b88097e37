//! Files and objects that the arguments of `clew ingest` lead to.

use std::sync::Arc;

use anyhow::{Context, bail};
use clew_formats::{BucketPlace, Discovery, FileFormat, Naming};
use clew_index::ObjectStoreSettings;

/// Beginning of the address of a place in a bucket.
const BUCKET: &str = "s3://";
/// Maximum size of a list of paths.
const LIST_BYTES: u64 = 64 << 20;

/// Arguments that lead to files and objects.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Files, folders, globs, `-`, and places in buckets.
    pub paths: Vec<String>,
    /// Rule by which files are named.
    pub naming: Naming,
    /// Format of standard input.
    pub stdin_format: FileFormat,
    /// Access to buckets.
    pub s3: ObjectStoreSettings,
}

impl Inputs {
    /// Finds what there is now. What cannot be found or listed is among the problems.
    ///
    /// # Errors
    /// Returns an error if an address of a bucket is wrong.
    pub async fn discover(&self) -> anyhow::Result<Discovery> {
        let (buckets, files): (Vec<_>, Vec<_>) =
            self.paths.iter().cloned().partition(|path| path.starts_with(BUCKET));
        let places = buckets.iter().map(|address| self.place(address));
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        let (naming, format) = (self.naming.clone(), self.stdin_format);
        let looking = move || clew_formats::discover(&files, &naming, format);
        let looking = tokio::task::spawn_blocking(looking);
        let mut discovery = looking.await.context("looking for files panicked")?;
        for place in places {
            discovery.add(place.discover().await);
        }
        Ok(discovery)
    }

    fn place(&self, address: &str) -> anyhow::Result<BucketPlace> {
        let rest = address.trim_start_matches(BUCKET);
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains(['@', ':']) {
            // What stands before an `@` may be a secret.
            let shown = rest.rsplit('@').next().unwrap_or_default();
            bail!("expected s3://bucket or s3://bucket/prefix, got `{shown}`");
        }
        let opened = self.s3.open(bucket);
        let store = opened.with_context(|| format!("cannot reach the bucket `{bucket}`"))?;
        Ok(BucketPlace {
            address: address.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
            lister: Arc::<object_store::aws::AmazonS3>::clone(&store),
            objects: store,
        })
    }
}

/// Reads a list of paths, one per line. Empty lines are skipped.
///
/// # Errors
/// Returns an error if the file cannot be read, is too long, or is not UTF-8.
pub fn paths_of(list: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let unreadable = || format!("cannot read the list of paths `{}`", list.display());
    let bytes = std::fs::metadata(list).with_context(unreadable)?.len();
    if bytes > LIST_BYTES {
        bail!("expected a list of paths of at most {LIST_BYTES} bytes, got {bytes}; split it");
    }
    let text = std::fs::read_to_string(list).with_context(unreadable)?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
