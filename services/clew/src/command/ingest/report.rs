//! What became of each document, for people and for the report file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

/// Problems that are kept for the summary; the report file has all.
const TOLD: usize = 1_000;

/// What became of one document.
#[derive(Debug)]
pub enum Fate {
    /// It was committed as that version.
    Accepted { id: String, version: u64 },
    /// It was there already, as that version.
    Unchanged { id: String, version: u64 },
    /// The server refused it.
    Refused { id: String, refused: wire::Refused },
    /// It could not be read.
    Unreadable { place: String, problem: String },
    /// It was accepted, but could not be indexed.
    Failed { id: String, error: String },
}

impl Fate {
    fn document(&self) -> Value {
        match self {
            Self::Accepted { id, version } => {
                json!({ "outcome": "accepted", "document_id": id, "version": version })
            }
            Self::Unchanged { id, version } => {
                json!({ "outcome": "unchanged", "document_id": id, "version": version })
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

/// What became of an ingestion.
#[derive(Debug, Default)]
pub struct Summary {
    /// Documents that were committed.
    pub accepted: u64,
    /// Documents that were there already.
    pub unchanged: u64,
    /// Documents the server refused.
    pub refused: u64,
    /// Files or rows that could not be read.
    pub unreadable: u64,
    /// The first of the documents that were refused, as JSON.
    pub refusals: Vec<Value>,
    /// The first of the files or rows that could not be read, as JSON.
    pub unread: Vec<Value>,
    /// Files of unknown format that were passed over.
    pub unknown_files: u64,
}

/// Takes down what became of each document.
#[derive(Default)]
pub struct Report {
    /// The totals so far.
    pub summary: Summary,
    file: Option<(BufWriter<File>, PathBuf)>,
}

impl Report {
    /// A report into `file`, if one is wanted. What was in the file is gone.
    pub async fn into_file(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self::default()) };
        let made = File::create(path).await;
        let made = made.with_context(|| format!("cannot write the report {}", path.display()))?;
        Ok(Self { file: Some((BufWriter::new(made), path.to_owned())), ..Self::default() })
    }

    /// Adds the fate of a document.
    pub async fn add(&mut self, fate: &Fate) -> anyhow::Result<()> {
        let summary = &mut self.summary;
        let keep = |told: &mut Vec<Value>| {
            if told.len() < TOLD {
                told.push(fate.document());
            }
        };
        match fate {
            Fate::Accepted { .. } => summary.accepted += 1,
            Fate::Unchanged { .. } => summary.unchanged += 1,
            Fate::Refused { .. } => {
                summary.refused += 1;
                keep(&mut summary.refusals);
            }
            Fate::Unreadable { .. } => {
                summary.unreadable += 1;
                keep(&mut summary.unread);
            }
            Fate::Failed { .. } => {}
        }
        if let Some((file, path)) = &mut self.file {
            let line = format!("{}\n", fate.document());
            let written = file.write_all(line.as_bytes()).await;
            written.with_context(|| format!("cannot write the report {}", path.display()))?;
        }
        Ok(())
    }

    /// Writes out what is still in memory.
    pub async fn finish(&mut self) -> anyhow::Result<()> {
        if let Some((file, path)) = &mut self.file {
            let written = file.flush().await;
            written.with_context(|| format!("cannot write the report {}", path.display()))?;
        }
        Ok(())
    }
}
