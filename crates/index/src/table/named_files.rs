//! Files that a version of a table consists of.

use std::collections::BTreeMap;

use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_table::io::commit::ManifestNamingScheme;
use lance_table::io::deletion::relative_deletion_file_path;
use lancedb::Table;
use roaring::RoaringBitmap;

use crate::error::{Operation, Result};
use crate::storage::durable::MANIFESTS;
use crate::table::engine::run;
use crate::table::indexes::coverage;
use crate::table::kind::TableKind;

/// Folder of a table with one folder per index.
pub(crate) const INDEXES: &str = "_indices";
/// Folder of a table with the transactions of its commits.
pub(crate) const TRANSACTIONS: &str = "_transactions";

/// Folder of a table with the files that tell which rows are deleted.
const DELETIONS: &str = "_deletions";

/// Folder of a table with its data files.
const ROWS: &str = "data";

/// Prefix of the names of files that an interrupted write leaves.
const UNFINISHED: &str = ".tmp";

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
    /// Folders in [`INDEXES`], with the fragments that each covers.
    pub indexes: BTreeMap<String, RoaringBitmap>,
    /// Number of the version.
    pub version: u64,
}

impl NamedFiles {
    /// Returns the files of the version that a table shows.
    pub(crate) async fn of(kind: TableKind, table: &Table) -> Result<Self> {
        let Some(shown) = table.dataset() else { return Ok(Self::default()) };
        let read = async {
            let dataset = shown.get().await?;
            Self::of_dataset(&dataset).await
        };
        run(kind, Operation::Read, read).await
    }

    /// Returns the files of the version that a dataset shows.
    pub(crate) async fn of_dataset(dataset: &Dataset) -> lancedb::Result<Self> {
        let (mut rows, mut deletions) = (BTreeMap::new(), BTreeMap::new());
        for fragment in dataset.manifest().fragments.iter() {
            let files = fragment.referenced_lance_files();
            rows.extend(files.map(|file| (format!("{ROWS}/{}", file.path), fragment.id)));
            let deletion = fragment.deletion_file.as_ref();
            let deletion = deletion.map(|file| relative_deletion_file_path(fragment.id, file));
            deletions.extend(deletion.map(|file| (file, fragment.id)));
        }
        let manifest = dataset.manifest_location().path.filename();
        let indexes = dataset.load_indices().await?;
        let covered = |index| coverage(dataset, index);
        let indexes = indexes.iter().map(|index| (index.uuid.to_string(), covered(index)));
        Ok(Self {
            rows,
            deletions,
            manifest: manifest.map(|name| format!("{MANIFESTS}/{name}")),
            transaction: dataset.manifest().transaction_file.clone(),
            indexes: indexes.collect(),
            version: dataset.version_id(),
        })
    }

    /// Returns whether a file of the table belongs to the version.
    pub(crate) fn names(&self, file: &str) -> bool {
        let in_folder = |folder: &str| file.strip_prefix(folder)?.strip_prefix('/');
        if let Some(of_index) = in_folder(INDEXES) {
            return of_index
                .split_once('/')
                .is_some_and(|(index, _)| self.indexes.contains_key(index));
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

/// Whose a file is that a version of a table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// The manifest of an older version.
    Manifest,
    /// A file that older versions name, or that none does.
    Other,
}

impl NamedFiles {
    /// Returns what a file of the table is if it may be removed together with all older versions.
    /// Returns `None` for a file that the version names, and for one that is of no known kind.
    pub(crate) fn garbage(&self, file: &str) -> Option<Garbage> {
        let (folder, name) = file.split_once('/')?;
        let (is_direct, is_unnamed) = (!name.contains('/'), !self.names(file));
        let is_garbage = match folder {
            MANIFESTS => {
                let is_older = version_of(file).is_some_and(|version| version < self.version);
                return match name.starts_with(UNFINISHED) {
                    true => Some(Garbage::Other),
                    false => is_older.then_some(Garbage::Manifest),
                };
            }
            ROWS | DELETIONS | TRANSACTIONS => is_direct && is_unnamed,
            INDEXES => !is_direct && is_unnamed,
            _ => false,
        };
        is_garbage.then_some(Garbage::Other)
    }
}

/// Returns the version of a table that a commit wrote a file for, if the file's name tells: that of
/// a manifest, of a transaction, or of deleted rows. Such a file holds rows of no table.
pub(crate) fn version_of(file: &str) -> Option<u64> {
    let (folder, name) = file.split_once('/')?;
    // Transactions and deletions are named after the version that the commit read.
    let read = |number: &str| Some(number.parse::<u64>().ok()?.saturating_add(1));
    match folder {
        MANIFESTS => ManifestNamingScheme::detect_scheme(name)?.parse_version(name),
        TRANSACTIONS => read(name.split_once('-')?.0),
        DELETIONS => read(name.split('-').nth(1)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_newest_version_does_not_name_is_garbage() {
        let set = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 0)).collect();
        let named = NamedFiles {
            rows: set(&["data/a.lance"]),
            deletions: set(&["_deletions/0-8-1.arrow"]),
            manifest: Some("_versions/18446744073709551606.manifest".to_owned()),
            transaction: Some("8-x.txn".to_owned()),
            indexes: [("0a".to_owned(), RoaringBitmap::new())].into(),
            version: 9,
        };
        for (file, is) in [
            ("_versions/18446744073709551607.manifest", Some(Garbage::Manifest)),
            ("_versions/18446744073709551606.manifest", None),
            // A later owner's.
            ("_versions/18446744073709551605.manifest", None),
            ("_versions/latest_version_hint.json", None),
            ("_versions/.tmp_1.manifest_0a", Some(Garbage::Other)),
            ("data/a.lance", None),
            ("data/b.lance", Some(Garbage::Other)),
            ("data/b/c.blob", None),
            ("_deletions/0-8-1.arrow", None),
            ("_deletions/0-7-1.arrow", Some(Garbage::Other)),
            ("_transactions/8-x.txn", None),
            ("_transactions/7-x.txn", Some(Garbage::Other)),
            ("_indices/0a/page.lance", None),
            ("_indices/0b/part/page.lance", Some(Garbage::Other)),
            ("_indices/note", None),
            ("other/x", None),
            ("x", None),
        ] {
            assert_eq!(named.garbage(file), is, "{file}");
        }
    }

    #[test]
    fn the_version_of_a_file_is_in_its_name() {
        assert_eq!(version_of("_versions/18446744073709551598.manifest"), Some(17));
        assert_eq!(version_of("_transactions/16-0a1b.txn"), Some(17));
        assert_eq!(version_of("_deletions/3-16-987.arrow"), Some(17));
        for other in ["data/16-1.lance", "_indices/1-16-2/page", "_versions/hint.json", "x", ""] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
