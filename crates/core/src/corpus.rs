//! Corpora as callers reach them: their settings and shards, wherever the shards are.

use std::sync::Arc;
use std::time::Instant;

use crate::{CorpusName, CorpusSettings, Counts, DocumentId, Error, Shard, ShardIndex, placement};

/// Corpus with its shards, as far as one caller sees them.
#[derive(Clone)]
pub struct Corpus {
    settings: Arc<CorpusSettings>,
    shards: Vec<Arc<dyn Shard>>,
}

/// Entry of a list of corpora.
#[derive(Clone)]
pub enum CorpusEntry {
    /// Corpus that can be used, as far as is known.
    Usable(Arc<Corpus>),
    /// Corpus that cannot be used.
    Unusable(Unusable),
}

/// Corpus that cannot be used because its settings cannot be read. Other corpora are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Name of the corpus.
    pub name: CorpusName,
    /// Stable upper-case reason for programs, as in the errors of calls about it: `DATA_LOSS`,
    /// `NEWER_FORMAT`.
    pub reason: String,
    /// Message that says what was expected, what came and what to do.
    pub message: String,
}

impl Unusable {
    /// Creates the entry of a corpus about which calls fail with `error`.
    pub fn new(name: CorpusName, error: &Error) -> Self {
        Self { name, reason: error.reason().to_owned(), message: error.message().to_owned() }
    }
}

impl CorpusEntry {
    /// Returns the name of the corpus.
    pub fn name(&self) -> &CorpusName {
        match self {
            Self::Usable(corpus) => &corpus.settings.name,
            Self::Unusable(unusable) => &unusable.name,
        }
    }
}

impl Corpus {
    /// Creates a corpus from its settings and its shards, ordered by index.
    pub fn new(settings: Arc<CorpusSettings>, shards: Vec<Arc<dyn Shard>>) -> Self {
        debug_assert_eq!(shards.len(), settings.shards as usize, "each shard once");
        Self { settings, shards }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// Returns the shards, ordered by index.
    pub fn shards(&self) -> &[Arc<dyn Shard>] {
        &self.shards
    }

    /// Returns the shard to which a document belongs.
    pub fn shard_of(&self, document: &DocumentId) -> &Arc<dyn Shard> {
        let ShardIndex(index) = placement::shard_of(document, self.settings.shards);
        &self.shards[index as usize]
    }

    /// Returns the totals over all shards.
    ///
    /// # Errors
    /// Returns the error of the first shard that fails.
    pub async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let mut total = Counts::default();
        // One after the other: this is called seldom and takes a few milliseconds per shard.
        for shard in &self.shards {
            total += shard.counts(deadline).await?;
        }
        Ok(total)
    }
}
