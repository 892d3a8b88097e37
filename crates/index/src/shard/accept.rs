//! Writes of a shard: accepts documents, commits their chunks, records failures.

use clew_core::{
    Accepted, Access, Document, DocumentId, FailureStatus, IfThere, Novelty, Stage, StoredDocument,
    Timestamp, Version,
};

use crate::error::{Error, Result};
use crate::settings::ShardSettings;
use crate::shard::Shard;
use crate::table::filter;
use crate::table::rows;
use crate::values::derived::{Committed, DerivedDocument, EmbeddedChunk};
use crate::values::facts::{ChunkFacts, FailureFacts, SourceFacts};
use crate::values::failure::Failure;
use crate::values::ids::refuse_duplicates;
use crate::values::offer::{Offer, Outcome};
use crate::values::vector::is_direction;

/// Maximum bytes of text in one batch of rows: text columns count bytes in 32 bits.
const BATCH_BYTES: usize = 256 << 20;

impl Shard {
    /// Accepts documents from a caller who holds all labels; see [`Shard::accept_offers`].
    ///
    /// # Errors
    /// Returns the errors of [`Shard::accept_offers`].
    pub async fn accept(
        &mut self,
        documents: Vec<Document>,
        now: Timestamp,
    ) -> Result<Vec<Accepted>> {
        let offer =
            |document| Offer { document, access: Access::all(), if_there: IfThere::Replace };
        let outcomes = self.accept_offers(documents.into_iter().map(offer).collect(), now).await?;
        // No offer is refused: the caller holds all labels and replaces existing documents.
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Accepts documents at `now`. When this returns, they are on the disk. Refuses an offer that
    /// would replace a document that the caller does not see or does not want to replace, and
    /// accepts the others.
    ///
    /// A document with the content of its newest version is unchanged and writes nothing, so a
    /// stream of documents can be offered again after an interruption. The others are written in
    /// one commit. The outcomes are in the order of `offers`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if an id occurs twice: a caller that means the last one sends
    /// only that. Otherwise returns a storage error. Then no document counts as accepted, and
    /// offering them again is safe.
    pub async fn accept_offers(
        &mut self,
        offers: Vec<Offer>,
        now: Timestamp,
    ) -> Result<Vec<Outcome>> {
        refuse_duplicates(offers.iter().map(|offer| &offer.document.id))?;
        self.begin_write().await?;
        let mut accepted = Vec::with_capacity(offers.len());
        let mut changed = Vec::new();
        for offer in offers {
            let (novelty, newest) = match self.compare(&offer) {
                Ok(compared) => compared,
                Err(refused) => {
                    accepted.push(Err(refused));
                    continue;
                }
            };
            let version = match (novelty, newest) {
                (Novelty::Unchanged, Some(same)) => same,
                _ => {
                    let version = Version::next(now, newest);
                    let document = offer.document;
                    changed.push(StoredDocument { document, version, accepted_at: now });
                    version
                }
            };
            accepted.push(Ok(Accepted { version, novelty }));
        }
        if changed.is_empty() {
            // A commit would have shown that no other owner replaced or forgot the existing
            // documents.
            self.sources.confirm_owned().await?;
        } else {
            self.write_sources(&changed).await?;
        }
        self.end_write();
        Ok(accepted)
    }

    /// Compares an offered document with the existing one of its id. Returns the newest version of
    /// that.
    fn compare(
        &self,
        Offer { document, access, if_there }: &Offer,
    ) -> std::result::Result<(Novelty, Option<Version>), clew_core::Error> {
        let Some(record) = self.catalogue.get(&document.id) else {
            return Ok((Novelty::New, None));
        };
        access.check_replaced(record.needs())?;
        let Some(newest) = record.newest() else { return Ok((Novelty::New, None)) };
        if newest.content_hash == document.content_hash() {
            return Ok((Novelty::Unchanged, Some(newest.version)));
        }
        if_there.check_replaced()?;
        Ok((Novelty::Replaced, Some(newest.version)))
    }

    async fn write_sources(&mut self, changed: &[StoredDocument]) -> Result<()> {
        let mut batches = Vec::new();
        let mut rest = changed;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(fitting(rest));
            batches.push(rows::sources::batch(some)?);
            rest = others;
        }
        self.sources.append(batches).await?;
        self.sources.sync().await?;
        for stored in changed {
            let facts = SourceFacts {
                version: stored.version,
                content_hash: stored.document.content_hash(),
                accepted_at: stored.accepted_at,
                bytes: stored.document.text.len() as u64,
                labels: stored.document.labels.clone(),
            };
            self.catalogue.change(&stored.document.id, |known| known.sources.push(facts));
        }
        self.publish().await
    }

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

    /// Records that documents could not be indexed. Ignores a failure of a version that is no
    /// longer due.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if an id occurs twice, or a storage error.
    pub async fn record_failures(&mut self, failures: Vec<Failure>) -> Result<()> {
        refuse_duplicates(failures.iter().map(|failure| &failure.document_id))?;
        self.begin_write().await?;
        let recorded: Vec<_> =
            failures.into_iter().filter_map(|failure| self.failure_facts(failure)).collect();
        if !recorded.is_empty() {
            // A crash between deletion and append leaves the document due, as it was before.
            let replaced = vec![filter::documents(recorded.iter().map(|(id, _)| id))];
            let has_row =
                |id| self.catalogue.get(id).is_some_and(|record| record.facts.failure.is_some());
            if recorded.iter().any(|(id, _)| has_row(id)) {
                self.failures.delete_any(replaced).await?;
            }
            self.failures.append(vec![rows::failures::batch(&recorded)?]).await?;
            self.failures.sync().await?;
            for (id, facts) in recorded {
                self.catalogue.change(&id, |known| known.failure = Some(facts));
            }
            self.publish().await?;
        }
        self.end_write();
        Ok(())
    }

    fn failure_facts(&self, failure: Failure) -> Option<(DocumentId, FailureFacts)> {
        let record = self.catalogue.get(&failure.document_id)?;
        let (due, recipe) = match failure.stage {
            Stage::Structuring => (record.structure_due()?, self.settings.wanted().structure?),
            Stage::Chunking | Stage::Embedding | Stage::Storing => {
                (record.chunks_due()?, self.settings.recipes.wanted)
            }
        };
        if due.version != failure.version {
            return None;
        }
        let attempts = record.attempts(self.settings.wanted()) + 1;
        let next_try = failure.next_try.filter(|_| attempts < self.settings.tuning.attempts);
        let status = FailureStatus {
            stage: failure.stage,
            attempts,
            kind: failure.kind,
            message: failure.message,
            next_try,
        };
        let version = failure.version;
        Some((failure.document_id, FailureFacts { version, recipe, status }))
    }
}

/// Size of the text that goes into one row or several.
trait TextSize {
    fn text_bytes(&self) -> usize;
}

impl TextSize for StoredDocument {
    fn text_bytes(&self) -> usize {
        self.document.text.len() + self.document.title.len()
    }
}

impl TextSize for DerivedDocument {
    fn text_bytes(&self) -> usize {
        let title = self.document.title.len();
        let row = |row: &EmbeddedChunk| row.chunk.span.len().max(row.chunk.key_text.len()) + title;
        self.chunks.iter().map(row).sum()
    }
}

/// Returns how many of the first of `rows`, at least one, fit into one batch.
fn fitting<T: TextSize>(rows: &[T]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&T| {
        bytes += row.text_bytes();
        bytes <= BATCH_BYTES
    };
    rows.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_by_bytes_and_hold_at_least_one_row() {
        struct Sized(usize);
        impl TextSize for Sized {
            fn text_bytes(&self) -> usize {
                self.0
            }
        }
        let half = || Sized(BATCH_BYTES / 2);
        assert_eq!(fitting(&[half(), half(), half()]), 2);
        assert_eq!(fitting(&[Sized(BATCH_BYTES + 1), half()]), 1);
    }
}
