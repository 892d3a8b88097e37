//! Files that a version of a table consists of.

use std::collections::{BTreeMap, BTreeSet};

use lance::index::DatasetIndexExt;
use lance_table::io::deletion::relative_deletion_file_path;
use lancedb::Table;

use crate::error::{Operation, Result};
use crate::storage::durable::MANIFESTS;
use crate::table::engine::run;
use crate::table::kind::TableKind;

/// Folder of a table with one folder per index.
pub(crate) const INDEXES: &str = "_indices";
/// Folder of a table with the transactions of its commits.
pub(crate) const TRANSACTIONS: &str = "_transactions";

/// File of a table that holds nothing but the number of the newest version.
const HINT: &str = "_versions/latest_version_hint.json";

/// Files that the manifest of a version names, by name in the table's folder.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles {
    /// Data files, with their fragments.
    pub rows: BTreeMap<String, u64>,
    /// Deletion files, which tell which rows are deleted, with their fragments.
    pub deletions: BTreeMap<String, u64>,
    /// The manifest itself.
    pub manifest: Option<String>,
    /// Transaction that made the version, in [`TRANSACTIONS`]. It may be in the manifest instead.
    pub transaction: Option<String>,
    /// Folders in [`INDEXES`].
    pub indexes: BTreeSet<String>,
}

impl NamedFiles {
    /// Returns the files of the version that a table shows.
    pub(crate) async fn of(kind: TableKind, table: &Table) -> Result<Self> {
        let Some(shown) = table.dataset() else { return Ok(Self::default()) };
        let read = async {
            let dataset = shown.get().await?;
            let (mut rows, mut deletions) = (BTreeMap::new(), BTreeMap::new());
            for fragment in dataset.manifest().fragments.iter() {
                let files = fragment.referenced_lance_files();
                rows.extend(files.map(|file| (format!("data/{}", file.path), fragment.id)));
                let deletion = fragment.deletion_file.as_ref();
                let deletion = deletion.map(|file| relative_deletion_file_path(fragment.id, file));
                deletions.extend(deletion.map(|file| (file, fragment.id)));
            }
            let manifest = dataset.manifest_location().path.filename();
            let indexes = dataset.load_indices().await?;
            Ok(Self {
                rows,
                deletions,
                manifest: manifest.map(|name| format!("{MANIFESTS}/{name}")),
                transaction: dataset.manifest().transaction_file.clone(),
                indexes: indexes.iter().map(|index| index.uuid.to_string()).collect(),
            })
        };
        run(kind, Operation::Read, read).await
    }

    /// Returns whether a file of the table belongs to the version.
    pub(crate) fn names(&self, file: &str) -> bool {
        let in_folder = |folder: &str| file.strip_prefix(folder)?.strip_prefix('/');
        if let Some(of_index) = in_folder(INDEXES) {
            return of_index.split_once('/').is_some_and(|(index, _)| self.indexes.contains(index));
        }
        if let Some(transaction) = in_folder(TRANSACTIONS) {
            return self.transaction.as_deref() == Some(transaction);
        }
        file == HINT
            || self.rows.contains_key(file)
            || self.deletions.contains_key(file)
            || self.manifest.as_deref() == Some(file)
    }
}
