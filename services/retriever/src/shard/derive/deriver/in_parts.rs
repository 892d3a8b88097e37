//! Makes the chunks of a large document in parts.
//!
//! Only the document's text, its first part and the part that is being made are in memory. Parts
//! are committed as they are made. The first one is kept until the others are committed, because
//! its commit makes the version searchable ([`DerivedPart`]). If anything goes wrong, what was
//! committed is given up, and deleted.

use std::sync::Arc;
use std::time::Instant;

use clew_core::{Document, DocumentId, Error, StoredDocument, Version};
use clew_index::{DerivedDocument, DerivedPart, DueDocument, EmbeddedChunk};
use clew_runtime::deadline::ask;

use crate::shard::actor::writer;
use crate::shard::derive::deriver::cutting::Cutting;
use crate::shard::derive::deriver::{COMMIT_PATIENCE, Deriver, Fault, Models};
use crate::shard::derive::deriver::{blocking, without_chunks};

/// Reason for which not all parts were made.
enum Undone {
    /// The service lacks something, or storing failed. The document is not at fault.
    Service(Error),
    Document(Fault),
}

impl From<Fault> for Undone {
    fn from(fault: Fault) -> Self {
        match fault.error.is_retryable() {
            true => Self::Service(fault.error),
            false => Self::Document(fault),
        }
    }
}

impl Deriver {
    /// Derives and commits a document in parts.
    pub(super) async fn try_parts(
        &self,
        models: &Models,
        due: &DueDocument,
        stored: StoredDocument,
    ) -> Result<(), Error> {
        let (id, version) = (stored.document.id.clone(), stored.version);
        let undone = match self.make_parts(models, stored.document, version).await {
            Ok(true) => return Ok(()),
            // Forgotten or replaced meanwhile.
            Ok(false) => None,
            Err(undone) => Some(undone),
        };
        self.abandon(&id, version).await?;
        match undone {
            None => Ok(()),
            Some(Undone::Service(error)) => Err(error),
            Some(Undone::Document(fault)) => {
                self.record(vec![self.failure(&id, version, due.attempts, &fault)]).await
            }
        }
    }

    /// Makes and commits all parts. Returns whether all of them were taken.
    async fn make_parts(
        &self,
        models: &Models,
        document: Document,
        version: Version,
    ) -> Result<bool, Undone> {
        let document = Arc::new(document);
        let dimensions = models.embedders.iter().map(|encoder| encoder.identity().dimension);
        let vector_bytes = dimensions.sum::<u32>() as usize * size_of::<f32>();
        let recipe = self.settings.recipes().wanted;
        let (encoder, settings) = (Arc::clone(&models.cutter), Arc::clone(&self.settings));
        let cut = Arc::clone(&document);
        let begin = blocking(move || Cutting::of(cut, &encoder, &settings));
        let mut cutting = self.pace.piece(begin).await?;
        let part_bytes = self.part_bytes;
        let (mut first, mut is_single) = (None, true);
        loop {
            let next = blocking(move || {
                let chunks = cutting.part(part_bytes, vector_bytes);
                Ok((cutting, chunks))
            });
            let (rest, chunks) = self.pace.piece(next).await?;
            cutting = rest;
            if chunks.is_empty() {
                break;
            }
            let ids = std::slice::from_ref(&document.id);
            let keys: Vec<&str> = chunks.iter().map(|chunk| chunk.key_text.as_str()).collect();
            let mut by_model = Vec::with_capacity(models.embedders.len());
            for encoder in &models.embedders {
                by_model.push(self.embed(encoder, &keys, ids).await?.into_iter());
            }
            let mut vectors = || by_model.iter_mut().filter_map(Iterator::next).collect();
            let embedded = |chunk| EmbeddedChunk { chunk, vectors: vectors() };
            let chunks = chunks.into_iter().map(embedded).collect();
            let part = DerivedPart { document: Arc::clone(&document), version, recipe, chunks };
            if first.is_none() {
                first = Some(part);
                continue;
            }
            is_single = false;
            if !self.commit_part(part).await.map_err(Undone::Service)? {
                return Ok(false);
            }
        }
        drop(cutting);
        let first = first.ok_or_else(without_chunks)?;
        if !is_single {
            return self.commit_part(first).await.map_err(Undone::Service);
        }
        let DerivedPart { document: part_of, chunks, .. } = first;
        drop(document);
        let document = Arc::unwrap_or_clone(part_of);
        let derived = DerivedDocument { document, version, recipe, chunks };
        self.commit(vec![derived]).await.map_err(Undone::Service)?;
        Ok(true)
    }

    async fn commit_part(&self, part: DerivedPart) -> Result<bool, Error> {
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let commit = ask(&self.writer, deadline, "committing chunks", |reply| {
            writer::Message::CommitPart { part: Box::new(part), reply }
        });
        self.pace.piece(commit).await
    }

    async fn abandon(&self, id: &DocumentId, version: Version) -> Result<(), Error> {
        let deadline = Instant::now() + COMMIT_PATIENCE;
        ask(&self.writer, deadline, "giving up chunks", |reply| writer::Message::AbandonParts {
            document_id: id.clone(),
            version,
            reply,
        })
        .await
    }
}
