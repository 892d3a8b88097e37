//! Report of what became of each document, for people and for the report file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clew_core::{Accepted, Novelty, RunCounts};
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

/// Maximum number of problems of each kind in the summary. The report file has all.
const TOLD: usize = 1_000;

/// Outcome for one document.
#[derive(Debug)]
pub enum DocumentResult {
    /// It was committed, or was there already.
    Accepted { id: String, accepted: Accepted },
    /// The server refused it.
    Refused { id: String, refused: wire::Refused },
    /// It could not be read.
    Unreadable { place: String, problem: String },
    /// It was accepted, but could not be indexed.
    Failed { id: String, error: String },
}

impl DocumentResult {
    fn document(&self) -> Value {
        match self {
            Self::Accepted { id, accepted } => {
                let version = accepted.version.0;
                match accepted.novelty {
                    Novelty::Unchanged => {
                        json!({ "outcome": "unchanged", "document_id": id, "version": version })
                    }
                    novelty => json!({
                        "outcome": "accepted",
                        "document_id": id,
                        "version": version,
                        "replaced": novelty == Novelty::Replaced,
                    }),
                }
            }
            Self::Refused { id, refused } => json!({
                "outcome": "refused",
                "document_id": id,
                "reason": refused.reason,
                "message": refused.message,
                "fields": refused.violations.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(),
            }),
            Self::Unreadable { place, problem } => {
                json!({ "outcome": "unreadable", "place": place, "problem": problem })
            }
            Self::Failed { id, error } => {
                json!({ "outcome": "failed", "document_id": id, "error": error })
            }
        }
    }
}

/// Totals of an ingestion.
#[derive(Debug, Default)]
pub struct IngestTotals {
    /// Documents that were committed under new ids.
    pub new: u64,
    /// Documents that were committed in place of others.
    pub replaced: u64,
    /// Documents that were stored already.
    pub unchanged: u64,
    /// Documents that the server refused.
    pub refused: u64,
    /// Files or rows that could not be read.
    pub unreadable: u64,
    /// The first documents that were refused, as JSON.
    pub refusals: Vec<Value>,
    /// The first files or rows that could not be read, as JSON.
    pub unread: Vec<Value>,
    /// Files of unknown format that were skipped.
    pub unknown_files: u64,
    /// Files that were found.
    pub listed_files: u64,
    /// Files that the corpus had as they are.
    pub known_files: u64,
    /// Documents that were forgotten.
    pub forgotten: u64,
}

impl IngestTotals {
    /// Returns the number of documents that were committed.
    pub fn accepted(&self) -> u64 {
        self.new + self.replaced
    }

    /// Describes in words what was ingested.
    pub fn taken(&self) -> String {
        let Self { new, replaced, unchanged, .. } = self;
        format!("documents: {new} new, {replaced} replaced, {unchanged} unchanged")
    }
}

/// Recorder of what became of each document.
#[derive(Default)]
pub struct IngestReport {
    /// The totals so far.
    pub summary: IngestTotals,
    /// Number of documents that were given to a stream.
    pub sent: Arc<AtomicU64>,
    file: Option<(BufWriter<File>, PathBuf)>,
}

impl IngestReport {
    /// Creates a report. If `file` is given, the report is also written there, in place of the
    /// file's content.
    pub async fn into_file(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self::default()) };
        let made = File::create(path).await;
        let made = made.with_context(|| format!("cannot write the report `{}`", path.display()))?;
        Ok(Self { file: Some((BufWriter::new(made), path.to_owned())), ..Self::default() })
    }

    /// Returns the totals as a run reports them. A file that the corpus had as it is counts as a
    /// document that is unchanged.
    pub fn counts(&self) -> RunCounts {
        let IngestTotals { refused, unreadable, forgotten, .. } = self.summary;
        RunCounts {
            listed: self.summary.listed_files,
            sent: self.sent.load(Ordering::Relaxed),
            accepted: self.summary.accepted(),
            unchanged: self.summary.unchanged + self.summary.known_files,
            refused,
            unreadable,
            forgotten,
        }
    }

    /// Adds the fate of a document.
    pub async fn add(&mut self, fate: &DocumentResult) -> anyhow::Result<()> {
        let summary = &mut self.summary;
        let keep = |told: &mut Vec<Value>| {
            if told.len() < TOLD {
                told.push(fate.document());
            }
        };
        match fate {
            DocumentResult::Accepted { accepted, .. } => match accepted.novelty {
                Novelty::New => summary.new += 1,
                Novelty::Replaced => summary.replaced += 1,
                Novelty::Unchanged => summary.unchanged += 1,
            },
            DocumentResult::Refused { .. } => {
                summary.refused += 1;
                keep(&mut summary.refusals);
            }
            DocumentResult::Unreadable { .. } => {
                summary.unreadable += 1;
                keep(&mut summary.unread);
            }
            DocumentResult::Failed { .. } => {}
        }
        if let Some((file, path)) = &mut self.file {
            let line = format!("{}\n", fate.document());
            let written = file.write_all(line.as_bytes()).await;
            written.with_context(|| format!("cannot write the report `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Writes out what is still in memory.
    pub async fn finish(&mut self) -> anyhow::Result<()> {
        if let Some((file, path)) = &mut self.file {
            let written = file.flush().await;
            written.with_context(|| format!("cannot write the report `{}`", path.display()))?;
        }
        Ok(())
    }
}
