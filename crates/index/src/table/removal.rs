//! Removal of a table's old versions.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance_table::io::manifest::read_manifest_indexes;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use crate::error::{Operation, Result};
use crate::storage::{Storage, on_files};
use crate::table::Stored;
use crate::table::engine::run;
use crate::table::kind::TableKind;
use crate::table::named_files::{Garbage, NamedFiles};

/// Table config key that is set before old versions are removed, only to force a commit.
const PRUNED: &str = "clew.pruned";

/// Removal of what only old versions of a table name.
///
/// A file that no manifest names may be garbage of an interrupted write, or a new owner may have
/// written it and not committed yet. Nothing tells these two apart, and this process may be
/// suspended between any two steps for long enough that another becomes the owner. The order of the
/// steps makes removal safe:
///
/// 1. List the files that exist ([`Removal::list`]).
/// 2. Make a commit through the fence ([`Stored::commit_removal`]). It succeeds only if no other
///    owner has taken over. An owner writes to a table only after its takeover, so every listed
///    file belongs to this owner, or to an earlier owner, which can commit nothing any more. The
///    exception is the transaction of a takeover that is not committed: it fails without its file
///    or loses to this commit, and is tried again. What this owner was writing when the files were
///    listed is committed by then, or never will be: it makes one commit at a time, and rewrites
///    nothing meanwhile.
/// 3. Remove the files that were listed *and* that the newest manifest does not name
///    ([`Removal::remove`]). File names are never reused, and a later manifest names only files
///    that the one before it names or that were written after it. So these files stay garbage, and
///    removing them is safe at any later time, whoever the owner is then.
#[derive(Debug)]
pub(crate) struct Removal {
    kind: TableKind,
    dataset: Arc<Dataset>,
    place: Storage,
}

/// Files of a table at one moment, from which the garbage is chosen.
#[derive(Debug)]
pub(crate) struct Present(HashSet<Path>);

impl Stored {
    /// Returns the removal of what the version that the table shows does not name.
    pub(crate) async fn removal(&self) -> Result<Removal> {
        let dataset = self.dataset(Operation::Prune).await?;
        Ok(Removal { kind: self.kind, dataset, place: self.place.clone() })
    }

    /// Makes the commit between listing and removing. Returns the removal of what the version that
    /// it made does not name.
    pub(crate) async fn commit_removal(&mut self) -> Result<Removal> {
        let dataset = self.dataset(Operation::Prune).await?;
        self.commit_config(PRUNED, (dataset.version_id() + 1).to_string()).await?;
        // The newest version must be on disk before earlier ones are removed.
        self.sync().await?;
        self.removal().await
    }
}

impl Removal {
    /// Lists the files that exist.
    pub(crate) async fn list(&self) -> Result<Present> {
        let list = async {
            let store = self.dataset.object_store(None).await?;
            let files = store.inner.list(Some(&self.dataset.branch_location().path));
            let files = files.map_ok(|file| file.location).try_collect().await;
            Ok(files.map_err(lance_core::Error::from)?)
        };
        Ok(Present(run(self.kind, Operation::Prune, list).await?))
    }

    /// Removes the files of `present` that only older versions name, or none. The caller makes sure
    /// that no view of an older version is read any more.
    pub(crate) async fn remove(&self, present: Present) -> Result<()> {
        let dataset = &self.dataset;
        let named = run(self.kind, Operation::Prune, self.named()).await?;
        let folder = &dataset.branch_location().path;
        let (mut manifests, mut files) = (Vec::new(), Vec::new());
        for path in present.0 {
            let Some(parts) = path.prefix_match(folder) else { continue };
            let parts: Vec<_> = parts.collect();
            let name: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
            match named.garbage(&name.join("/")) {
                Some(Garbage::Manifest) => manifests.push(path),
                Some(Garbage::Other) => files.push(path),
                None => {}
            }
        }
        let removed = async {
            let store = dataset.object_store(None).await?;
            // In one stream: an object store removes a thousand objects per request.
            let files = futures::stream::iter(files.into_iter().map(Ok)).boxed();
            let mut removed = store.inner.delete_stream(files);
            while let Some(file) = removed.next().await {
                ignore_missing(file)?;
            }
            // Oldest first and one after the other, on which the fence relies. In the engine's
            // naming scheme the newest manifest sorts first.
            manifests.sort_unstable();
            for manifest in manifests.iter().rev() {
                ignore_missing(store.inner.delete(manifest).await)?;
            }
            Ok(())
        };
        run(self.kind, Operation::Prune, removed).await?;
        self.remove_empty_folders().await
    }

    /// Returns the files that the version names, also of indexes that this release cannot use.
    async fn named(&self) -> lancedb::Result<NamedFiles> {
        let dataset = &self.dataset;
        let mut named = NamedFiles::of_dataset(dataset).await?;
        let store = dataset.object_store(None).await?;
        let indexes =
            read_manifest_indexes(&store, dataset.manifest_location(), dataset.manifest()).await?;
        for index in indexes {
            named.indexes.entry(index.uuid.to_string()).or_default();
        }
        Ok(named)
    }

    /// Removes the empty folders of removed indexes. Each index has a folder of its own.
    async fn remove_empty_folders(&self) -> Result<()> {
        let Some(folder) = self.place.folder() else { return Ok(()) };
        let indexes = folder.join("_indices");
        on_files("remove the folders of old indexes", move || {
            let Ok(entries) = fs::read_dir(indexes) else { return Ok(()) };
            for entry in entries {
                // Removal fails if the folder is not empty, which means that it is in use.
                let _ = fs::remove_dir(entry?.path());
            }
            Ok(())
        })
        .await
    }
}

/// Counts a file that no longer exists as removed.
fn ignore_missing<T>(removed: object_store::Result<T>) -> lance_core::Result<()> {
    match removed {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
