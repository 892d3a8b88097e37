//! Commits the chunks of documents.

use clew_core::DocumentId;

use crate::error::{Error, Result};
use crate::settings::ShardSettings;
use crate::shard::ShardWriter;
use crate::shard::batches::fitting;
use crate::table::rows;
use crate::values::derived::{Committed, DerivedDocument, EmbeddedChunk};
use crate::values::facts::ChunkFacts;
use crate::values::ids::refuse_duplicates;
use crate::values::vector::is_direction;

impl ShardWriter {
    /// Commits the chunks of documents. When this returns, searches find each document by these
    /// chunks.
    ///
    /// All chunks are appended in one commit. Readers move from the old chunks of a replaced
    /// document to its new ones at once, because only chunks of the live version are visible. The
    /// replaced chunks are deleted later. A document that was forgotten or replaced meanwhile is
    /// dropped.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a document without chunks, a span outside the text, an
    /// ordinal out of order, a bad vector, or an id that occurs twice. Nothing is written then.
    /// Otherwise returns a storage error.
    pub async fn commit_derived(&mut self, documents: Vec<DerivedDocument>) -> Result<Committed> {
        refuse_duplicates(documents.iter().map(|derived| &derived.document.id))?;
        for derived in &documents {
            self.check_derived(derived)?;
        }
        self.begin_write().await?;
        let mut committed = Committed::default();
        let mut fresh = Vec::with_capacity(documents.len());
        for derived in documents {
            if self.is_wanted(&derived) {
                fresh.push(derived);
            } else {
                committed.dropped.push(derived.document.id);
            }
        }
        if !fresh.is_empty() {
            committed.documents = fresh.len() as u64;
            committed.chunks = self.write_chunks(&fresh).await?;
        }
        self.end_write();
        Ok(committed)
    }

    /// Returns whether the chunks of this version by this recipe are missing.
    fn is_wanted(&self, derived: &DerivedDocument) -> bool {
        let record = self.catalogue.get(&derived.document.id);
        let due = record.and_then(|record| record.chunks_due());
        due.is_some_and(|due| due.version == derived.version)
            && derived.recipe == self.settings.recipes.wanted
            // Rows of it that are not visible are swept first.
            && record.is_some_and(|record| {
                let same = |facts: &&ChunkFacts| {
                    facts.version == derived.version && facts.recipe == derived.recipe
                };
                record.orphans().find(same).is_none()
            })
    }

    async fn write_chunks(&mut self, fresh: &[DerivedDocument]) -> Result<u64> {
        let mut batches = Vec::new();
        let mut rest = fresh;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(fitting(rest));
            let ShardSettings { corpus, vectors, .. } = &self.settings;
            batches.push(rows::chunks::batch(corpus, vectors, some)?);
            rest = others;
        }
        self.chunks.append(batches).await?;
        for derived in fresh {
            let facts = ChunkFacts {
                version: derived.version,
                recipe: derived.recipe,
                chunks: derived.chunks.len() as u64,
                tokens: derived.chunks.iter().map(|row| u64::from(row.chunk.tokens)).sum(),
                is_whole: true,
            };
            self.catalogue.change(&derived.document.id, |known| known.chunks.push(facts));
        }
        let ids: Vec<DocumentId> =
            fresh.iter().map(|derived| derived.document.id.clone()).collect();
        self.sweep_documents(&ids).await?;
        self.chunks.sync().await?;
        self.publish().await?;
        Ok(fresh.iter().map(|derived| derived.chunks.len() as u64).sum())
    }

    fn check_derived(&self, derived: &DerivedDocument) -> Result<()> {
        let refuse = |field, problem: &str| {
            let id = &derived.document.id;
            Err(Error::invalid(field, format!("{problem} (document `{id}`)")))
        };
        if derived.chunks.is_empty() {
            return refuse("chunks", "expected at least one chunk");
        }
        for (i, EmbeddedChunk { chunk, vectors }) in derived.chunks.iter().enumerate() {
            if chunk.ordinal as usize != i {
                return refuse("chunk.ordinal", "expected chunks in order, counted from 0");
            }
            if chunk.span.of(&derived.document.text).is_none() {
                return refuse("chunk.span", "expected a range of the document's text");
            }
            // Chunks made by another recipe are dropped anyway.
            if derived.recipe == self.settings.recipes.wanted && !self.fit(vectors) {
                return refuse("chunk.vector", "expected a vector of the dimension of each model");
            }
            if !vectors.iter().all(|vector| is_direction(vector)) {
                return refuse("chunk.vector", "expected finite numbers that are not all zero");
            }
        }
        Ok(())
    }

    /// Returns whether there is a vector of the right dimension for each column.
    fn fit(&self, vectors: &[Vec<f32>]) -> bool {
        let dimensions =
            self.settings.vectors.iter().map(|column| column.encoder.dimension as usize);
        dimensions.eq(vectors.iter().map(Vec::len))
    }
}
