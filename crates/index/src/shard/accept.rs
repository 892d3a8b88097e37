//! Accepts documents.

use clew_core::{
    Accepted, Access, ContentHash, Document, DocumentId, IfThere, Novelty, StoredDocument,
    Timestamp, Version,
};

use crate::error::Result;
use crate::shard::ShardWriter;
use crate::shard::batches::fitting;
use crate::table::rows;
use crate::values::facts::SourceFacts;
use crate::values::ids::refuse_duplicates;
use crate::values::offer::{Offer, OfferResult};

impl ShardWriter {
    /// Accepts documents from a caller who holds all labels; see [`ShardWriter::accept_offers`].
    ///
    /// # Errors
    /// Returns the errors of [`ShardWriter::accept_offers`].
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
    /// Returns [`crate::Error::Invalid`] if an id occurs twice: a caller that means the last one
    /// sends only that. Otherwise returns a storage error. Then no document counts as accepted, and
    /// offering them again is safe.
    pub async fn accept_offers(
        &mut self,
        offers: Vec<Offer>,
        now: Timestamp,
    ) -> Result<Vec<OfferResult>> {
        refuse_duplicates(offers.iter().map(|offer| &offer.document.id))?;
        self.begin_write().await?;
        let mut accepted = Vec::with_capacity(offers.len());
        let mut changed = Vec::new();
        for offer in offers {
            let content_hash = offer.document.content_hash();
            let (novelty, newest) = match self.compare(&offer, content_hash) {
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
                    let stored = StoredDocument { document, version, accepted_at: now };
                    changed.push((stored, content_hash));
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
            self.write_sources(changed).await?;
        }
        self.end_write();
        Ok(accepted)
    }

    /// Compares an offered document with the existing one of its id. Returns the newest version of
    /// that.
    fn compare(
        &self,
        Offer { document, access, if_there }: &Offer,
        content_hash: ContentHash,
    ) -> std::result::Result<(Novelty, Option<Version>), clew_core::Error> {
        let Some(record) = self.catalogue.get(&document.id) else {
            return Ok((Novelty::New, None));
        };
        access.check_replaced(record.needs())?;
        let Some(newest) = record.newest() else { return Ok((Novelty::New, None)) };
        if newest.content_hash == content_hash {
            return Ok((Novelty::Unchanged, Some(newest.version)));
        }
        if_there.check_replaced()?;
        Ok((Novelty::Replaced, Some(newest.version)))
    }

    async fn write_sources(
        &mut self,
        mut changed: Vec<(StoredDocument, ContentHash)>,
    ) -> Result<()> {
        let facts = |(stored, content_hash): &(StoredDocument, ContentHash)| {
            let facts = SourceFacts {
                version: stored.version,
                content_hash: *content_hash,
                accepted_at: stored.accepted_at,
                bytes: stored.document.text.len() as u64,
                labels: stored.document.labels.clone(),
            };
            (stored.document.id.clone(), facts)
        };
        let facts: Vec<(DocumentId, SourceFacts)> = changed.iter().map(facts).collect();
        let mut batches = Vec::new();
        while !changed.is_empty() {
            let others = changed.split_off(fitting(&changed));
            batches.push(rows::sources::batch(changed)?);
            changed = others;
        }
        self.sources.append(batches).await?;
        self.sources.sync().await?;
        for (id, facts) in facts {
            self.catalogue.change(&id, |known| known.sources.push(facts));
        }
        self.publish().await
    }
}
