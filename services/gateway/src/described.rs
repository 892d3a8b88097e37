//! Titles and attributes of documents, for what responses show of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use clew_core::{DescribedDocument, DocumentId, Error, Partial, Shard, ShardIndex};
use clew_proto::convert::attribute::attributes_to_wire;
use clew_proto::ingest::v1::Attribute;

use crate::shards::Shards;

/// Maximum number of documents that are described for one request.
pub(crate) const MOST_DESCRIBED: usize = 200;

/// Documents by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described(HashMap<String, DescribedDocument>);

impl Described {
    /// Asks the shards of these documents for the first [`MOST_DESCRIBED`] of them, each shard
    /// once. Documents that are gone are left out.
    pub(crate) async fn of<'a>(
        shards: &Shards,
        ids: impl IntoIterator<Item = &'a str>,
        deadline: Instant,
    ) -> Result<Partial<Self>, Error> {
        let mut of_shards: BTreeMap<ShardIndex, Vec<DocumentId>> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for id in ids {
            if known.len() < MOST_DESCRIBED && known.insert(id) {
                let id: DocumentId = id.parse()?;
                of_shards.entry(shards.corpus.shard_of(&id).index()).or_default().push(id);
            }
        }
        if of_shards.is_empty() {
            return Ok(Partial::whole(Self::default()));
        }
        let (until, wanted) = (shards.deadline(deadline), &of_shards);
        let asking = |shard: Arc<dyn Shard>| async move {
            let ids = wanted.get(&shard.index()).map_or(&[][..], Vec::as_slice);
            shard.describe(ids, until).await
        };
        let described = shards.ask(|shard| wanted.contains_key(&shard), asking).await?;
        Ok(described.map(|described| {
            let described = described.into_iter().flatten();
            Self(described.map(|one| (one.document_id.to_string(), one)).collect())
        }))
    }

    /// Returns a document's title; empty if it is not known.
    pub(crate) fn title(&self, id: &str) -> String {
        self.0.get(id).map(|described| described.title.clone()).unwrap_or_default()
    }

    /// Returns a document's attributes; none if they are not known.
    pub(crate) fn attributes(&self, id: &str) -> Vec<Attribute> {
        self.0
            .get(id)
            .map(|described| attributes_to_wire(&described.attributes))
            .unwrap_or_default()
    }
}
