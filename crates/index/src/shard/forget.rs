//! Forgets documents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clew_core::{Access, CorpusTreeKey, DocumentId, ErasureScan, Forgotten};

use crate::boxed;
use crate::error::{Error, Result};
use crate::shard::ShardWriter;
use crate::shard::maintain::Maintenance;
use crate::table::filter;
use crate::values::facts::Facts;

const FINDING: &str = "look for what was not written to its end";

impl ShardWriter {
    /// Forgets documents for a caller who holds all labels; see [`ShardWriter::forget_seen`].
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::forget_seen`].
    #[boxed]
    pub async fn forget(&mut self, ids: &[DocumentId]) -> Result<Vec<Forgotten>> {
        self.forget_seen(ids, &Access::all()).await
    }

    /// Forgets documents. When this returns, no search finds them and no restart brings them back.
    /// Their text leaves the disk with the next [`ShardWriter::erase`]. That this is due is
    /// recorded durably before anything is deleted. Ids that are unknown, or of documents that the
    /// caller does not see, are allowed; their receipts are zero.
    ///
    /// # Errors
    /// Returns a storage error. Then the documents may be forgotten in part. Forgetting them again
    /// is safe.
    #[boxed]
    pub async fn forget_seen(
        &mut self,
        ids: &[DocumentId],
        access: &Access,
    ) -> Result<Vec<Forgotten>> {
        Ok(self.forget_with_nodes(ids, access).await?.0)
    }

    /// Does the same. Returns also the nodes of the corpus tree that went with the documents.
    pub(crate) async fn forget_with_nodes(
        &mut self,
        ids: &[DocumentId],
        access: &Access,
    ) -> Result<(Vec<Forgotten>, Vec<CorpusTreeKey>)> {
        self.begin_write().await?;
        // The rows that are left of a forgotten document require no labels: any caller may finish
        // forgetting it.
        let (seen, hidden): (Vec<DocumentId>, Vec<DocumentId>) =
            ids.iter().cloned().partition(|id| {
                let record = self.catalogue.get(id);
                record.is_none_or(|record| access.admits(record.needs()))
            });
        let hidden: BTreeSet<DocumentId> = hidden.into_iter().collect();
        let receipt = |id| match hidden.contains(id) {
            true => Forgotten::nothing(id.clone()),
            false => self.receipt(id),
        };
        let receipts: Vec<Forgotten> = ids.iter().map(receipt).collect();
        let known: Vec<DocumentId> =
            seen.iter().filter(|id| self.catalogue.get(id).is_some()).cloned().collect();
        let (mut deleted, mut above) = (0, Vec::new());
        // Memories first: interrupted forgetting is repeated, and a memory cannot be separated into
        // its documents.
        self.forget_memories(&seen).await?;
        if !known.is_empty() {
            self.erasure.set().await?;
            deleted = self.sources.delete_any(vec![filter::documents(&known)]).await?;
            self.sources.sync().await?;
            for id in &known {
                self.catalogue.change(id, |facts| facts.sources.clear());
            }
            self.publish().await?;
            self.publisher.kept().let_go();
            self.sweep_documents(&known).await?;
            above = self.sweep_upper().await?;
            self.publish().await?;
            self.forgotten += 1;
        }
        if deleted == 0 {
            // A commit would have shown that no other owner accepted documents that are unknown
            // here.
            self.sources.confirm_owned().await?;
        }
        self.end_write();
        Ok((receipts, above))
    }

    /// Forgets documents down to the bytes in storage, and then scans for what is left of them,
    /// while nothing else is written. Returns the receipts, in the order of the ids, and the result
    /// of the scan.
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::forget_seen`] and of [`ShardWriter::erase`]. Another
    /// call finishes what was begun, and scans.
    #[boxed]
    pub async fn forget_for_good(
        &mut self,
        ids: &[DocumentId],
        access: &Access,
        patience: Duration,
    ) -> Result<(Vec<Forgotten>, ErasureScan)> {
        let (forgotten, traces) = self.forget_traced(ids, access).await?;
        let maintenance = Maintenance::erasing(traces, patience);
        let report = self.finish(maintenance).await?;
        Ok((forgotten, report.scan.ok_or(Error::ReadersActive)?))
    }

    /// Returns the shard's files with their sizes, without unfinished ones, and removes those. A
    /// process that was killed while it wrote a file leaves the beginning of it under a separate
    /// name, which pruning does not know. Removing it is safe: only the shard's one writer writes
    /// files, and it is running this.
    pub(crate) async fn finished_files(&mut self) -> Result<BTreeMap<String, u64>> {
        let mut files = self.place().files(FINDING).await?;
        let unfinished: Vec<String> =
            files.keys().filter(|name| is_unfinished(name)).cloned().collect();
        if !unfinished.is_empty() {
            // The files existed before this check, so no later owner is writing them.
            self.sources.confirm_owned().await?;
        }
        files.retain(|name, _| !is_unfinished(name));
        self.place().remove_files(unfinished, FINDING).await?;
        Ok(files)
    }

    fn receipt(&self, id: &DocumentId) -> Forgotten {
        let none = Facts::default();
        let facts = self.catalogue.get(id).map_or(&none, |record| &record.facts);
        Forgotten {
            document_id: id.clone(),
            versions: facts.sources.len() as u64,
            chunks: facts.chunks.iter().map(|chunks| chunks.chunks).sum(),
            nodes: facts.nodes.iter().map(|nodes| nodes.rows).sum(),
            failures: u64::from(facts.failure.is_some()),
            memories: self.memories_of(id),
            bytes: facts.sources.iter().map(|source| source.bytes).sum(),
        }
    }
}

/// Returns whether a file is one that is renamed once it is complete: `.tmp` and some letters, or
/// its later name, `#` and a number.
fn is_unfinished(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_numbered = |(_, number): (&str, &str)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    file.starts_with(".tmp") || file.rsplit_once('#').is_some_and(is_numbered)
}
