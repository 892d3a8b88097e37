//! Commits of summary trees, with the extractions of their segments.
//!
//! A document's rows may be written in several commits, so that the work on a long document is not
//! repeated after a crash. They are visible once all of them exist, and only while they belong to
//! the version that searches find. Nodes of the corpus tree are rows without a document. They are
//! visible while they are part of the tree that the documents with trees call for
//! ([`clew_core::CorpusTree`]).

use std::collections::HashSet;

use clew_core::DocumentId;

use crate::boxed;
use crate::error::Result;
use crate::shard::ShardWriter;
use crate::table::rows;
use crate::values::facts::NodeFacts;
use crate::values::ids::refuse_duplicates;
use crate::values::nodes::{CorpusTreeRow, DocumentNodes};

impl ShardWriter {
    /// Commits nodes of documents' trees, all in one commit. Drops documents that were forgotten,
    /// replaced, or written to by another call meanwhile, and returns their ids.
    ///
    /// # Errors
    /// Returns [`crate::Error::Invalid`] if an id occurs twice; nothing is written then. Otherwise
    /// returns a storage error.
    #[boxed]
    pub async fn commit_nodes(&mut self, documents: Vec<DocumentNodes>) -> Result<Vec<DocumentId>> {
        refuse_duplicates(documents.iter().map(|of| &of.document_id))?;
        self.begin_write().await?;
        let (fresh, stale): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|of| self.continues(of));
        if !fresh.is_empty() {
            self.nodes.append(vec![rows::nodes::batch(&fresh)?]).await?;
            for of in &fresh {
                let added = of.rows.len() as u64;
                let (version, recipe, nodes) = (of.version, of.recipe, of.nodes);
                self.catalogue.change(&of.document_id, |known| {
                    let mut made = known.nodes.iter_mut();
                    match made.find(|made| (made.version, made.recipe) == (version, recipe)) {
                        Some(made) => made.rows += added,
                        None => known.nodes.push(NodeFacts { version, recipe, rows: added, nodes }),
                    }
                });
            }
            let ids: Vec<DocumentId> = fresh.iter().map(|of| of.document_id.clone()).collect();
            self.sweep_documents(&ids).await?;
            self.nodes.sync().await?;
            self.publish().await?;
        }
        self.end_write();
        Ok(stale.into_iter().map(|of| of.document_id).collect())
    }

    /// Returns whether these nodes are to be made and the nodes that existed before them are
    /// unchanged.
    fn continues(&self, of: &DocumentNodes) -> bool {
        let wanted = self.settings.wanted();
        let record = self.catalogue.get(&of.document_id);
        record.is_some_and(|record| {
            record.structure_due().is_some_and(|due| due.version == of.version)
                && wanted.structure == Some(of.recipe)
                && record.nodes_made(of.version, wanted) == of.known
                && !of.rows.is_empty()
        })
    }

    /// Commits nodes of the corpus tree, all in one commit. Leaves out those that exist already or
    /// are not wanted.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn commit_upper(&mut self, rows: Vec<CorpusTreeRow>) -> Result<()> {
        self.begin_write().await?;
        let wanted = self.catalogue.upper();
        let mut seen = HashSet::new();
        let is_missing = |row: &CorpusTreeRow| {
            wanted.get(&row.key).is_some() && !wanted.rows().contains(&row.key)
        };
        let fresh: Vec<CorpusTreeRow> =
            rows.into_iter().filter(|row| is_missing(row) && seen.insert(row.key)).collect();
        if !fresh.is_empty() {
            self.nodes.append(vec![rows::nodes::upper_batch(&fresh)?]).await?;
            self.catalogue.add_upper(fresh.iter().map(|row| row.key));
            self.sweep_upper().await?;
            self.nodes.sync().await?;
            self.publish().await?;
        }
        self.end_write();
        Ok(())
    }
}
