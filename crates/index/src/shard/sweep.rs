//! Sweeps rows that are no longer visible.

use clew_core::{CorpusTreeKey, DocumentId};
use lancedb::datafusion::prelude::Expr;

use crate::error::Result;
use crate::shard::ShardWriter;
use crate::table::Stored;
use crate::table::filter;
use crate::values::facts::{ChunkFacts, NodeFacts};

/// Maximum number of documents swept in one round, so that other writes are not held up.
const SWEEP_DOCUMENTS: usize = 1_000;

impl ShardWriter {
    /// Deletes rows that are no longer visible or of use: superseded versions, chunks and nodes
    /// without a live source, nodes of the corpus tree that changed, and obsolete failures. Returns
    /// whether some are left for another round.
    ///
    /// # Errors
    /// Returns a storage error.
    pub(crate) async fn sweep(&mut self) -> Result<bool> {
        self.begin_write().await?;
        let ids: Vec<DocumentId> =
            self.catalogue.unswept().take(SWEEP_DOCUMENTS).map(|r| r.id.clone()).collect();
        if !ids.is_empty() {
            self.sweep_documents(&ids).await?;
        }
        let swept = self.sweep_upper().await?;
        if !swept.is_empty() || !ids.is_empty() {
            self.publish().await?;
        }
        self.end_write();
        Ok(self.catalogue.unswept().next().is_some())
    }

    /// Deletes the rows of these documents that are no longer visible or of use.
    pub(crate) async fn sweep_documents(&mut self, ids: &[DocumentId]) -> Result<()> {
        let wanted = self.settings.wanted();
        let (mut sources, mut chunks, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        let mut nodes = Vec::new();
        for record in ids.iter().filter_map(|id| self.catalogue.get(id)) {
            sources.extend(record.superseded().map(|old| filter::version(&record.id, old)));
            let orphan = |of: &ChunkFacts| filter::derived(&record.id, of.version, of.recipe);
            chunks.extend(record.orphans().map(orphan));
            let orphans = record.orphan_nodes(wanted);
            nodes.extend(orphans.map(|of| filter::derived(&record.id, of.version, of.recipe)));
            if record.failure_is_outdated(wanted) {
                failures.push(filter::documents([&record.id]));
            }
        }
        delete(&mut self.sources, sources).await?;
        delete(&mut self.chunks, chunks).await?;
        delete(&mut self.nodes, nodes).await?;
        delete(&mut self.failures, failures).await?;
        for id in ids {
            let Some(record) = self.catalogue.get(id).cloned() else { continue };
            let superseded: Vec<_> = record.superseded().collect();
            let swept: Vec<ChunkFacts> = record.orphans().cloned().collect();
            let growing = record.growing();
            let drop_failure = record.failure_is_outdated(wanted);
            let orphans: Vec<NodeFacts> = record.orphan_nodes(wanted).copied().collect();
            self.catalogue.change(id, |facts| {
                facts.sources.retain(|source| !superseded.contains(&source.version));
                facts.chunks.retain(|chunks| !swept.contains(chunks));
                facts.growing = growing;
                facts.nodes.retain(|nodes| !orphans.contains(nodes));
                if drop_failure {
                    facts.failure = None;
                }
            });
        }
        Ok(())
    }

    /// Deletes nodes that are no longer part of the corpus tree: their summaries tell of documents
    /// that are gone or changed. Returns them.
    pub(crate) async fn sweep_upper(&mut self) -> Result<Vec<CorpusTreeKey>> {
        let unwanted: Vec<CorpusTreeKey> = self.catalogue.upper().stale().copied().collect();
        for some in unwanted.chunks(SWEEP_DOCUMENTS) {
            delete(&mut self.nodes, vec![filter::upper(some)]).await?;
        }
        self.catalogue.remove_upper(&unwanted);
        Ok(unwanted)
    }
}

async fn delete(table: &mut Stored, conditions: Vec<Expr>) -> Result<()> {
    if conditions.is_empty() {
        return Ok(());
    }
    table.delete_any(conditions).await?;
    table.sync().await
}
