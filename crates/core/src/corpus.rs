//! A corpus as its users reach it: its settings and its shards, wherever they are.

use std::sync::Arc;
use std::time::Instant;

use crate::{CorpusSettings, Counts, DocumentId, Error, Shard, ShardIndex, placement};

/// A corpus and its shards, as far as one caller sees them.
#[derive(Clone)]
pub struct Corpus {
    settings: Arc<CorpusSettings>,
    shards: Vec<Arc<dyn Shard>>,
}

impl Corpus {
    /// A corpus of `settings`, with its shards by index.
    pub fn new(settings: Arc<CorpusSettings>, shards: Vec<Arc<dyn Shard>>) -> Self {
        debug_assert_eq!(shards.len(), settings.shards as usize, "each shard once");
        Self { settings, shards }
    }

    /// Its settings.
    pub fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// Its shards, by index.
    pub fn shards(&self) -> &[Arc<dyn Shard>] {
        &self.shards
    }

    /// The shard a document belongs to.
    pub fn shard_of(&self, document: &DocumentId) -> &Arc<dyn Shard> {
        let ShardIndex(index) = placement::shard_of(document, self.settings.shards);
        &self.shards[index as usize]
    }

    /// What it holds, over all shards.
    ///
    /// # Errors
    /// The first of a shard that cannot tell.
    pub async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut total = Counts::default();
        // One after the other: this is asked seldom, and a few milliseconds a shard.
        for shard in &self.shards {
            total += shard.counts(deadline).await?;
        }
        Ok(total)
    }
}
