//! Accepts documents.

use std::collections::BTreeMap;

use clew_core::{
    Accepted, Access, ContentHash, Delivery, Document, DocumentId, IfThere, Novelty, SourceVersion,
    StoredDocument, Timestamp, Version,
};

use crate::boxed;
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
    #[boxed]
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
    /// stream of documents can be offered again after an interruption. So is a document with a
    /// lower source version than the newest version has, whatever its content. The others are
    /// written in one commit. If a document with the same content comes with a higher source
    /// version, that number alone is written, in one more commit for all of them. The outcomes are
    /// in the order of `offers`.
    ///
    /// # Errors
    /// Returns [`crate::Error::Invalid`] if an id occurs twice: a caller that means the last one
    /// sends only that. Otherwise returns a storage error. Then no document counts as accepted, and
    /// offering them again is safe.
    #[boxed]
    pub async fn accept_offers(
        &mut self,
        offers: Vec<Offer>,
        now: Timestamp,
    ) -> Result<Vec<OfferResult>> {
        refuse_duplicates(offers.iter().map(|offer| &offer.document.id))?;
        self.begin_write().await?;
        let mut accepted = Vec::with_capacity(offers.len());
        let (mut changed, mut renumbered) = (Vec::new(), BTreeMap::new());
        for offer in offers {
            let content_hash = offer.document.content_hash();
            let compared = match self.compare(&offer, content_hash) {
                Ok(compared) => compared,
                Err(refused) => {
                    accepted.push(Err(refused));
                    continue;
                }
            };
            let document = offer.document;
            accepted.push(Ok(match compared {
                Compared::Stored { version, number } => {
                    if let Some(number) = number {
                        renumbered.insert((document.id, version), number);
                    }
                    Accepted { version, novelty: Novelty::Unchanged }
                }
                Compared::Written { novelty, after } => {
                    let version = Version::next(now, after);
                    let stored = StoredDocument { document, version, accepted_at: now };
                    changed.push((stored, content_hash));
                    Accepted { version, novelty }
                }
            }));
        }
        if changed.is_empty() && renumbered.is_empty() {
            // A commit would have shown that no other owner replaced or forgot the existing
            // documents.
            self.sources.confirm_owned().await?;
        } else {
            self.write_sources(changed, renumbered).await?;
        }
        self.end_write();
        Ok(accepted)
    }

    /// Compares an offered document with the newest version of the existing one of its id.
    fn compare(
        &self,
        Offer { document, access, if_there }: &Offer,
        content_hash: ContentHash,
    ) -> std::result::Result<Compared, clew_core::Error> {
        let new = Compared::Written { novelty: Novelty::New, after: None };
        let Some(record) = self.catalogue.get(&document.id) else { return Ok(new) };
        access.check_replaced(record.needs())?;
        let Some(newest) = record.newest() else { return Ok(new) };
        let is_same_content = newest.content_hash == content_hash;
        let version = newest.version;
        match Delivery::of(document.source_version, newest.source_version, is_same_content) {
            Delivery::Unchanged => Ok(Compared::Stored { version, number: None }),
            Delivery::Renumbered(number) => Ok(Compared::Stored { version, number: Some(number) }),
            Delivery::Replacing => {
                if_there.check_replaced()?;
                Ok(Compared::Written { novelty: Novelty::Replaced, after: Some(version) })
            }
        }
    }

    async fn write_sources(
        &mut self,
        mut changed: Vec<(StoredDocument, ContentHash)>,
        renumbered: BTreeMap<(DocumentId, Version), SourceVersion>,
    ) -> Result<()> {
        let facts = |(stored, content_hash): &(StoredDocument, ContentHash)| {
            let facts = SourceFacts {
                version: stored.version,
                content_hash: *content_hash,
                accepted_at: stored.accepted_at,
                bytes: stored.document.text.len() as u64,
                labels: stored.document.labels.clone(),
                source_version: stored.document.source_version,
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
        if !batches.is_empty() {
            self.sources.append(batches).await?;
        }
        if !renumbered.is_empty() {
            self.sources.renumber(&renumbered).await?;
        }
        self.sources.sync().await?;
        for (id, facts) in facts {
            self.catalogue.change(&id, |known| known.sources.push(facts));
        }
        for ((id, version), number) in renumbered {
            self.catalogue.change(&id, |known| {
                let sources = known.sources.iter_mut();
                for source in sources.filter(|source| source.version == version) {
                    source.source_version = Some(number);
                }
            });
        }
        self.publish().await
    }
}

/// What becomes of an offered document.
enum Compared {
    /// This version stays. It gets the number, if there is one.
    Stored { version: Version, number: Option<SourceVersion> },
    /// The document becomes the version after this one.
    Written { novelty: Novelty, after: Option<Version> },
}
