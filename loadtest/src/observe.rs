//! Observation of a server from outside: the memory of its processes, its data directory, its
//! metrics and its corpora.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clew_client::Client;
use clew_core::{CorpusName, Error};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::metrics::Metrics;

/// Parts of a server to observe. Each may be absent.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Ids of the server's processes on this machine.
    pub processes: Vec<u32>,
    /// Data directory of the server on this machine.
    pub data_dir: Option<PathBuf>,
    /// Admin addresses of the nodes, such as `http://127.0.0.1:9421`.
    pub admins: Vec<String>,
}

/// Figures of a server at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds from the beginning of the run.
    pub at_secs: f64,
    /// Resident memory of all processes in bytes.
    pub resident_bytes: Option<f64>,
    /// Number of files in the data directory.
    pub files: Option<f64>,
    /// Size of these files in bytes.
    pub data_bytes: Option<f64>,
    /// Number of versions that tables keep.
    pub versions: Option<f64>,
    /// Number of fragments of which tables consist.
    pub fragments: Option<f64>,
    /// Number of documents in the corpora.
    pub documents: Option<f64>,
    /// Number of documents that wait to be indexed.
    pub pending: Option<f64>,
}

/// Figure of a [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Resident memory of all processes.
    ResidentBytes,
    /// Number of files in the data directory.
    Files,
    /// Size of these files.
    DataBytes,
    /// Number of versions that tables keep.
    Versions,
    /// Number of fragments of which tables consist.
    Fragments,
    /// Number of documents in the corpora.
    Documents,
    /// Number of documents that wait to be indexed.
    Pending,
}

impl Figure {
    /// All figures, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::ResidentBytes,
        Self::Files,
        Self::DataBytes,
        Self::Versions,
        Self::Fragments,
        Self::Documents,
        Self::Pending,
    ];

    /// Returns the value of the figure in a sample.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::ResidentBytes => sample.resident_bytes,
            Self::Files => sample.files,
            Self::DataBytes => sample.data_bytes,
            Self::Versions => sample.versions,
            Self::Fragments => sample.fragments,
            Self::Documents => sample.documents,
            Self::Pending => sample.pending,
        }
    }

    /// Returns the title of the figure for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::ResidentBytes => "resident memory, MiB",
            Self::Files => "files",
            Self::DataBytes => "data directory, MiB",
            Self::Versions => "table versions",
            Self::Fragments => "table fragments",
            Self::Documents => "documents",
            Self::Pending => "documents that wait to be indexed",
        }
    }

    /// Converts a value to the unit of the title.
    pub fn shown(self, value: f64) -> f64 {
        match self {
            Self::ResidentBytes | Self::DataBytes => value / f64::from(1 << 20),
            _ => value,
        }
    }
}

/// Content of a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Folder {
    files: u64,
    bytes: u64,
    versions: u64,
    fragments: u64,
}

impl Observed {
    /// Takes a sample. Figures that cannot be observed are absent, as are those of corpora that do
    /// not answer.
    pub(crate) async fn look(&self, corpora: &[(Client, CorpusName)], at: Duration) -> Sample {
        let metrics = match self.admins.is_empty() {
            true => None,
            false => self.metrics().await.ok(),
        };
        let of_metrics = |ending: &str| metrics.as_ref().and_then(|m| m.sum_ending(ending));
        let folder = match self.data_dir.clone() {
            Some(path) => tokio::task::spawn_blocking(move || Folder::of(&path)).await.ok(),
            None => None,
        };
        let of_folder = |figure: fn(Folder) -> u64| folder.map(|folder| figure(folder) as f64);
        let resident = self.processes.iter().map(|process| resident_bytes(*process));
        let resident: Option<f64> = resident.sum();
        let (mut documents, mut pending) = (None, None);
        for (client, corpus) in corpora {
            if let Ok(Some(counts)) = client.corpus(corpus).await.map(|corpus| corpus.counts) {
                *documents.get_or_insert(0.0) += counts.documents as f64;
                *pending.get_or_insert(0.0) += counts.pending_documents as f64;
            }
        }
        Sample {
            at_secs: at.as_secs_f64(),
            resident_bytes: match self.processes.is_empty() {
                true => of_metrics("_resident_memory_bytes"),
                false => resident,
            },
            files: of_folder(|folder| folder.files),
            data_bytes: of_folder(|folder| folder.bytes),
            versions: of_folder(|f| f.versions).or_else(|| of_metrics("_versions")),
            fragments: of_folder(|f| f.fragments).or_else(|| of_metrics("_fragments")),
            documents,
            pending,
        }
    }

    /// Returns the sum of the metrics of all nodes.
    ///
    /// # Errors
    /// Returns the error of the first node that does not answer.
    pub(crate) async fn metrics(&self) -> Result<Metrics, Error> {
        let mut all = Metrics::default();
        for admin in &self.admins {
            all.add(Metrics::fetch(admin).await?);
        }
        Ok(all)
    }
}

impl Folder {
    /// Counts the content of a folder. Files may come and go meanwhile.
    fn of(path: &Path) -> Self {
        let mut folder = Self::default();
        for entry in WalkDir::new(path).into_iter().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            folder.files += 1;
            folder.bytes += metadata.len();
            let parent = entry.path().parent().and_then(Path::file_name);
            let within = |name: &str| parent.is_some_and(|parent| parent == name);
            let is_kind = |kind: &str| entry.path().extension().is_some_and(|found| found == kind);
            // Layout of Lance tables: one manifest for each version, and one file for each
            // fragment.
            folder.versions += u64::from(within("_versions") && is_kind("manifest"));
            folder.fragments += u64::from(within("data") && is_kind("lance"));
        }
        folder
    }
}

/// Returns the memory of a process in bytes. Returns `None` if the system does not report it.
fn resident_bytes(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_counted_as_tables_are_laid_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["t.lance/_versions/1.manifest", "t.lance/data/a.lance", "t.lance/data/b.lance"]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "four").unwrap();
        }
        let expected = Folder { files: 3, bytes: 12, versions: 1, fragments: 2 };
        assert_eq!(Folder::of(folder.path()), expected);
        assert_eq!(Folder::of(&folder.path().join("nothing")), Folder::default());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_memory_of_a_process_is_seen() {
        let own = resident_bytes(std::process::id()).unwrap();
        assert!(own > f64::from(1 << 20), "{own}");
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
