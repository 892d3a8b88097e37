//! Commits the chunks of documents.

use clew_core::{DocumentId, Version};

use crate::boxed;
use crate::error::{Error, Result};
use crate::settings::ShardSettings;
use crate::shard::ShardWriter;
use crate::shard::batches::fitting;
use crate::table::rows;
use crate::values::derived::{ChunksOf, Committed, DerivedDocument, DerivedPart, EmbeddedChunk};
use crate::values::facts::{ChunkFacts, Growing};
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
    #[boxed]
    pub async fn commit_derived(&mut self, documents: Vec<DerivedDocument>) -> Result<Committed> {
        refuse_duplicates(documents.iter().map(|derived| &derived.document.id))?;
        for derived in &documents {
            self.check_chunks(&derived.into(), 0)?;
        }
        self.begin_write().await?;
        let mut committed = Committed::default();
        let mut fresh = Vec::with_capacity(documents.len());
        for derived in documents {
            let chunks = ChunksOf::from(&derived);
            if self.is_wanted(&chunks) && self.growing(&chunks).is_none() {
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

    /// Commits some chunks of a document version; see [`DerivedPart`]. Searches find none of them
    /// before the last part is committed, and then all of them, in place of those of the version
    /// before. Returns whether they were committed: not if the document was forgotten or replaced
    /// meanwhile, if an earlier part was not committed, or if what is stored was read again since.
    /// The version is then to be made again from its first chunk.
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::commit_derived`].
    #[boxed]
    pub async fn commit_part(&mut self, part: &DerivedPart) -> Result<bool> {
        let first = part.chunks.first().map_or(0, |row| row.chunk.ordinal);
        let chunks = ChunksOf::from(part);
        self.check_chunks(&chunks, first as usize)?;
        self.begin_write().await?;
        let id = &part.document.id;
        let growing = self.growing(&chunks);
        if growing.is_none() && first > 0 && self.has_rows_of(&chunks) {
            // What an earlier attempt left.
            self.sweep_documents(std::slice::from_ref(id)).await?;
        }
        let count = small(part.chunks.len());
        let grown = match (growing, first) {
            (None, 1..) => Some(Growing {
                version: part.version,
                recipe: part.recipe,
                first,
                next: first.saturating_add(count),
            }),
            (Some(growing), 1..) if growing.next == first => {
                Some(Growing { next: first.saturating_add(count), ..growing })
            }
            _ => None,
        };
        let is_last = first == 0 && growing.is_some_and(|growing| growing.first == count);
        let is_next = self.is_wanted(&chunks) && (is_last || grown.is_some());
        if is_next {
            self.append_chunks(&[chunks]).await?;
            let tokens = tokens_of(&chunks);
            self.catalogue.change(id, |known| {
                known.growing = grown;
                let of = (part.version, part.recipe);
                let mut made = known.chunks.iter_mut();
                match made.find(|made| (made.version, made.recipe) == of) {
                    Some(made) => {
                        made.chunks += u64::from(count);
                        made.tokens += tokens;
                        made.is_whole = is_last;
                    }
                    None => known.chunks.push(ChunkFacts {
                        version: part.version,
                        recipe: part.recipe,
                        chunks: u64::from(count),
                        tokens,
                        is_whole: false,
                    }),
                }
            });
            self.finish_chunks(std::slice::from_ref(id)).await?;
        }
        self.end_write();
        Ok(is_next)
    }

    /// Gives up the parts of a document version that were committed so far, and deletes them.
    ///
    /// # Errors
    /// Returns a storage error. Maintenance deletes them then.
    #[boxed]
    pub async fn abandon_parts(&mut self, id: &DocumentId, version: Version) -> Result<()> {
        self.begin_write().await?;
        let is_growing = |growing: Growing| growing.version == version;
        let record = self.catalogue.get(id);
        if record.is_some_and(|record| record.facts.growing.is_some_and(is_growing)) {
            self.catalogue.change(id, |known| known.growing = None);
            self.sweep_documents(std::slice::from_ref(id)).await?;
            self.publish().await?;
        }
        self.end_write();
        Ok(())
    }

    /// Returns how far these chunks are written, if they are written in parts.
    fn growing(&self, of: &ChunksOf<'_>) -> Option<Growing> {
        let growing = self.catalogue.get(&of.document.id)?.growing()?;
        ((growing.version, growing.recipe) == (of.version, of.recipe)).then_some(growing)
    }

    /// Returns whether there are rows of this version by this recipe that are of no use.
    fn has_rows_of(&self, of: &ChunksOf<'_>) -> bool {
        let same = |facts: &&ChunkFacts| (facts.version, facts.recipe) == (of.version, of.recipe);
        let record = self.catalogue.get(&of.document.id);
        record.is_some_and(|record| record.orphans().find(same).is_some())
    }

    /// Returns whether the chunks of this version by this recipe are missing.
    fn is_wanted(&self, derived: &ChunksOf<'_>) -> bool {
        let record = self.catalogue.get(&derived.document.id);
        let due = record.and_then(|record| record.chunks_due());
        due.is_some_and(|due| due.version == derived.version)
            && derived.recipe == self.settings.recipes.wanted
            // Rows of it that are not visible are swept first.
            && !self.has_rows_of(derived)
    }

    async fn append_chunks(&mut self, fresh: &[ChunksOf<'_>]) -> Result<()> {
        let mut batches = Vec::new();
        let mut rest = fresh;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(fitting(rest));
            let ShardSettings { corpus, vectors, .. } = &self.settings;
            batches.push(rows::chunks::batch(corpus, vectors, some)?);
            rest = others;
        }
        self.chunks.append(batches).await
    }

    /// Deletes what appended chunks replaced, and shows them.
    async fn finish_chunks(&mut self, ids: &[DocumentId]) -> Result<()> {
        self.sweep_documents(ids).await?;
        self.chunks.sync().await?;
        self.publish().await
    }

    async fn write_chunks(&mut self, fresh: &[DerivedDocument]) -> Result<u64> {
        let rows: Vec<ChunksOf<'_>> = fresh.iter().map(ChunksOf::from).collect();
        self.append_chunks(&rows).await?;
        for derived in fresh {
            let facts = ChunkFacts {
                version: derived.version,
                recipe: derived.recipe,
                chunks: derived.chunks.len() as u64,
                tokens: tokens_of(&derived.into()),
                is_whole: true,
            };
            self.catalogue.change(&derived.document.id, |known| {
                known.growing = None;
                known.chunks.push(facts);
            });
        }
        let ids: Vec<DocumentId> =
            fresh.iter().map(|derived| derived.document.id.clone()).collect();
        self.finish_chunks(&ids).await?;
        Ok(fresh.iter().map(|derived| derived.chunks.len() as u64).sum())
    }

    /// Checks chunks whose ordinals begin at `first`.
    fn check_chunks(&self, derived: &ChunksOf<'_>, first: usize) -> Result<()> {
        let refuse = |field, problem: &str| {
            let id = &derived.document.id;
            Err(Error::invalid(field, format!("{problem} (document `{id}`)")))
        };
        if derived.chunks.is_empty() {
            return refuse("chunks", "expected at least one chunk");
        }
        for (i, EmbeddedChunk { chunk, vectors }) in derived.chunks.iter().enumerate() {
            if chunk.ordinal as usize != first + i {
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

/// Returns the number of tokens of all chunks.
fn tokens_of(derived: &ChunksOf<'_>) -> u64 {
    derived.chunks.iter().map(|row| u64::from(row.chunk.tokens)).sum()
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
